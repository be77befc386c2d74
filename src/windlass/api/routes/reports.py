"""Failures, history, deploys, and the audit trail."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from windlass.api.problems.documented import problems
from windlass.api.records.acts import AuditEntryRecord, AuditPageRecord, DeployRecord, DeploysRecord
from windlass.api.records.record import rfc3339
from windlass.api.records.system import FailuresRecord, HistoryPointRecord, HistoryRecord
from windlass.api.requests.acts import DeployBody
from windlass.api.requests.body import StrictRoute
from windlass.api.requests.pages import link_next
from windlass.api.requests.times import Time
from windlass.api.routes.dependencies import Cursor, Limit, Operating, Viewing

router = APIRouter(prefix="/v1", tags=["reports"], route_class=StrictRoute)
Since = Annotated[Time, Query(description="A time with a time zone.", examples=["2026-11-01T00:00:00Z"])]
Text = Annotated[str | None, Query(max_length=1000)]


@router.get("/failures", operation_id="list_failures", responses=problems())
async def list_failures(call: Viewing, kind: Text = None, phase: Text = None) -> FailuresRecord:
    """Failed jobs by kind, phase, type and place of the error, the latest group first."""
    return FailuresRecord.of(await call.control.failures.list_async(kind=kind, phase=phase))


@router.get("/history", operation_id="get_history", responses=problems())
async def get_history(
    call: Viewing,
    since: Since,
    until: Annotated[Time | None, Query(description="Now, if it is left out.")] = None,
    phase: Text = None,
    step: Annotated[Literal["60", "3600", "86400"], Query(description="Seconds of a point.")] = "60",
) -> HistoryRecord:
    """Statistics over time for charts: minutes, hours or days of each phase."""
    points = await call.control.history.read_async(since=since, until=until, phase=phase, step=int(step))
    return HistoryRecord(points=HistoryPointRecord.each(points))


@router.get("/deploys", operation_id="list_deploys", responses=problems())
async def list_deploys(
    call: Viewing, since: Annotated[Time | None, Query()] = None, limit: Limit = 50
) -> DeploysRecord:
    """Marks of deploys for charts, newest first."""
    return DeploysRecord(
        deploys=DeployRecord.each(await call.control.deploys.list_async(since=since, limit=limit))
    )


@router.post("/deploys", operation_id="mark_deploy", status_code=201, responses=problems(408, 413, 415))
async def mark_deploy(call: Operating, body: DeployBody) -> DeployRecord:
    """Mark this moment on the charts."""
    return DeployRecord.of(await call.control.deploys.mark_async(body.text))


@router.get("/audit", operation_id="list_audit", tags=["audit"], responses=problems())
async def list_audit(
    call: Viewing,
    response: Response,
    target: Annotated[
        str | None,
        Query(
            max_length=1000, description="job, phase, schedule, operation, instance, rule, token or deploy."
        ),
    ] = None,
    name: Annotated[str | None, Query(max_length=1000, description="The id or name of the target.")] = None,
    actor: Text = None,
    since: Annotated[Time | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> AuditPageRecord:
    """The audit trail from newest to oldest, a page at a time."""
    page = await call.control.audit.list_async(
        target=target, name=name, actor=actor, since=since, cursor=cursor, limit=limit
    )
    link_next(
        response,
        call.path("/v1/audit"),
        page.next_cursor,
        target=target,
        name=name,
        actor=actor,
        since=None if since is None else rfc3339(since),
        limit=limit,
    )
    return AuditPageRecord(records=AuditEntryRecord.each(page.records), next_cursor=page.next_cursor)
