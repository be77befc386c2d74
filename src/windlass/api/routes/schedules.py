"""Schedules."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from windlass.api.problems.documented import problems
from windlass.api.records.acts import StoppedRecord
from windlass.api.records.plans import (
    NextTimesRecord,
    ScheduleRecord,
    SchedulesRecord,
    TickRecord,
    TicksRecord,
)
from windlass.api.records.submits import SubmittedRecord
from windlass.api.requests.acts import MaybeReasonBody, ReasonBody
from windlass.api.requests.body import StrictRoute
from windlass.api.routes.dependencies import Operating, Viewing

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=StrictRoute)
Name = Annotated[str, Path(description="The name of a schedule.")]
Count = Annotated[int, Query(ge=1, le=1000)]


@router.get("", operation_id="list_schedules", responses=problems())
async def list_schedules(call: Viewing) -> SchedulesRecord:
    """All schedules by name."""
    return SchedulesRecord(schedules=ScheduleRecord.each(await call.control.schedules.list_async()))


@router.get("/{name:path}/ticks", operation_id="list_schedule_ticks", responses=problems(404))
async def list_schedule_ticks(call: Viewing, name: Name, limit: Count = 10) -> TicksRecord:
    """The last due times that made jobs, newest first."""
    schedules = call.control.schedules
    await schedules.get_async(name)
    return TicksRecord(ticks=TickRecord.each(await schedules.ticks_async(name, limit)))


@router.get("/{name:path}/next", operation_id="list_next_times", responses=problems(404))
async def list_next_times(call: Viewing, name: Name, count: Count = 10) -> NextTimesRecord:
    """The next due times; empty while the schedule does not fire."""
    return NextTimesRecord(times=list(await call.control.schedules.next_times_async(name, count)))


@router.get("/{name:path}", operation_id="get_schedule", responses=problems(404))
async def get_schedule(call: Viewing, name: Name) -> ScheduleRecord:
    """One schedule."""
    return ScheduleRecord.of(await call.control.schedules.get_async(name))


@router.post("/{name:path}/pause", operation_id="pause_schedule", responses=problems(404, 408, 413, 415))
async def pause_schedule(call: Operating, name: Name, body: ReasonBody) -> ScheduleRecord:
    """Stop a schedule; due times until it is resumed make no jobs."""
    return ScheduleRecord.of(await call.control.schedules.pause_async(name, body.reason))


@router.post("/{name:path}/resume", operation_id="resume_schedule", responses=problems(404, 408, 413, 415))
async def resume_schedule(call: Operating, name: Name, body: MaybeReasonBody | None = None) -> StoppedRecord:
    """Let a paused schedule fire again."""
    reason = None if body is None else body.reason
    return StoppedRecord(changed=await call.control.schedules.resume_async(name, reason))


@router.post(
    "/{name:path}/run", operation_id="run_schedule", status_code=202, responses=problems(404, 408, 413, 415)
)
async def run_schedule(
    call: Operating, name: Name, response: Response, body: MaybeReasonBody | None = None
) -> SubmittedRecord:
    """Make one job of a schedule now, paused or not."""
    made = await call.control.schedules.run_now_async(name, None if body is None else body.reason)
    response.headers["Location"] = call.path(f"/v1/jobs/{made.id}")
    return SubmittedRecord.of(made)


@router.delete("/{name:path}", operation_id="delete_schedule", status_code=204, responses=problems(404, 409))
async def delete_schedule(
    call: Operating, name: Name, reason: Annotated[str | None, Query(max_length=1000)] = None
) -> None:
    """Remove a schedule; jobs that it made stay. One of code comes back when a worker with that code starts."""
    await call.control.schedules.remove_async(name, reason)
