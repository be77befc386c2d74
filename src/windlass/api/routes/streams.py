"""Streams of events: of one job, of one phase, or several topics in one stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response

from windlass.api.problems.documented import problems
from windlass.api.problems.problem import ProblemError
from windlass.api.requests.body import StrictRoute
from windlass.api.routes.dependencies import Call, JobId, Viewing
from windlass.api.streams.documented import streamed
from windlass.api.streams.merged import merged, single
from windlass.api.streams.response import EventStream
from windlass.api.streams.topics import JobTopic, SampleTopic, Topic, of_phase

router = APIRouter(prefix="/v1", tags=["streams"], route_class=StrictRoute)
MOST_TOPICS = 50
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID", max_length=10_000, description="The id of the last event that the client has."
    ),
]


@router.get(
    "/jobs/{job_id}/events",
    operation_id="stream_job",
    response_model=None,
    responses={**streamed("job"), **problems(404, 429)},
)
async def stream_job(call: Viewing, job_id: JobId, last_event_id: LastEventId = None) -> Response:
    """The events and the progress of a job, from its creation or behind the last event; ends with the job."""
    return await _streamed(call, single(_job(call, job_id), last_event_id))


@router.get(
    "/phases/{phase:path}/events",
    operation_id="stream_phase",
    response_model=None,
    responses={**streamed("phase"), **problems(404, 429)},
)
async def stream_phase(
    call: Viewing, phase: Annotated[str, Path(description="The name of a phase.")]
) -> Response:
    """The counts and processors of a phase, once a second."""
    return await _streamed(call, single(await _phase(call, phase), None))


@router.get(
    "/events",
    operation_id="stream_events",
    response_model=None,
    responses={**streamed("overview", "phase", "job", "reset"), **problems(404, 429)},
)
async def stream_events(
    call: Viewing,
    topics: Annotated[
        str,
        Query(
            max_length=10_000,
            description="Topics with commas between them: `overview`, `phase:NAME`, `job:ID`. A client that was away for more than a minute gets "
            "the event `reset`, and everything anew.",
            examples=["overview,job:019a2b3c-4d5e-7f60-8a1b-2c3d4e5f6071"],
        ),
    ] = "overview",
    last_event_id: LastEventId = None,
) -> Response:
    """Several topics in one stream, since a browser has few connections for each host."""
    names = list(dict.fromkeys(part.strip() for part in topics.split(",") if part.strip()))
    if not 1 <= len(names) <= MOST_TOPICS:
        raise _refused(f"must be 1 to {MOST_TOPICS} topics")
    return await _streamed(call, merged([await _topic(call, name) for name in names], last_event_id))


async def _topic(call: Call, name: str) -> Topic:
    kind, _, what = name.partition(":")
    if name == "overview":
        call.control.actor.require_all("watch the counts and processors of all phases")
        return SampleTopic(name, call.control, "overview", call.overview)
    if kind == "phase" and what:
        return await _phase(call, what)
    if kind == "job" and what:
        await call.control.jobs.present_async(what)
        return _job(call, what)
    raise _refused("must be overview, phase:NAME or job:ID")


def _job(call: Call, job_id: str) -> Topic:
    return JobTopic(f"job:{job_id}", call.control, job_id)


async def _phase(call: Call, phase: str) -> Topic:
    if phase not in await call.control.phases.names_async():
        raise ProblemError("phase-not-found", f"there is no phase {phase[:200]!r}")
    return SampleTopic(f"phase:{phase}", call.control, "phase", of_phase(phase))


def _refused(why: str) -> ProblemError:
    return ProblemError("invalid-request", f"query:topics: {why}", errors=[("query:topics", why)])


async def _streamed(call: Call, events: AsyncIterator[bytes]) -> Response:
    """The stream as a response. Its first event is read before, so that an error is a problem, and a stream without events is none."""
    stream = call.streams.open(call.caller)
    try:
        first = await anext(events, None)
    except BaseException:
        call.streams.close(stream)
        raise
    if first is None:
        call.streams.close(stream)
        return Response(status_code=204)
    return EventStream(events, first, stream, call.streams, call.still_knows)
