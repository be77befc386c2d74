"""Reading jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from windlass.api.problems.documented import problems
from windlass.api.records.jobs import (
    AttemptLogRecord,
    AttemptRecord,
    JobCountRecord,
    JobDetail,
    JobPageRecord,
    LogsRecord,
    RelatedRecord,
    TimelineRecord,
)
from windlass.api.records.why import WhyRecord
from windlass.api.requests.body import StrictRoute
from windlass.api.requests.conditions import etag, is_known
from windlass.api.requests.pages import link_next
from windlass.api.requests.prefer import Prefer, wanted_wait
from windlass.api.routes.dependencies import Cursor, Filter, JobId, Limit, Viewing

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=StrictRoute)


@router.get("/jobs", operation_id="list_jobs", responses=problems())
async def list_jobs(
    call: Viewing, response: Response, q: Filter = "", limit: Limit = 50, cursor: Cursor = None
) -> JobPageRecord:
    """Jobs from newest to oldest, a page at a time, with a filter."""
    page = await call.control.jobs.list_async(q, cursor=cursor, limit=limit)
    link_next(response, call.path("/v1/jobs"), page.next_cursor, q=q, limit=limit)
    return JobPageRecord.of(page)


@router.get("/jobs/count", operation_id="count_jobs", responses=problems())
async def count_jobs(call: Viewing, q: Filter = "") -> JobCountRecord:
    """How many jobs a filter finds, counted up to 10,000."""
    return JobCountRecord.of(await call.control.jobs.count_async(q))


@router.get(
    "/jobs/{job_id}",
    operation_id="get_job",
    response_model=JobDetail,
    responses={304: {"description": "The client has this version (`If-None-Match`)."}, **problems(404, 429)},
)
async def get_job(
    call: Viewing,
    job_id: JobId,
    response: Response,
    prefer: Prefer = None,
    if_none_match: Annotated[
        str | None, Header(description="The ETag of the job that the client has.")
    ] = None,
) -> JobDetail | Response:
    """One job, wherever it is in its life. Its version is the ETag. With `Prefer: wait=N` as it is at its end, if that comes in time; with
    `If-None-Match` 304 without a body, if the client has this version."""
    seconds = wanted_wait(prefer, call.settings.max_wait)
    job = await call.control.jobs.get_async(job_id)
    if seconds:
        response.headers["Preference-Applied"] = "wait"
        if not job.state.is_final:
            with call.waits.one(call.caller):
                await call.control.submits.ended_async(job.id, seconds)
            job = await call.control.jobs.get_async(job_id)
    response.headers["ETag"] = etag(job.version)
    if is_known(job.version, if_none_match):
        return Response(status_code=304, headers=dict(response.headers))
    return JobDetail.of(job)


@router.get("/jobs/{job_id}/why", operation_id="explain_job", responses=problems(404))
async def explain_job(call: Viewing, job_id: JobId) -> WhyRecord:
    """Why a job is not running: a code, a sentence, and further reasons that hold at the same time."""
    return WhyRecord.of(await call.control.jobs.why_async(job_id))


@router.get("/jobs/{job_id}/timeline", operation_id="get_job_timeline", responses=problems(404))
async def get_job_timeline(call: Viewing, job_id: JobId) -> TimelineRecord:
    """All attempts of a job, oldest first."""
    return TimelineRecord(attempts=AttemptRecord.each(await call.control.jobs.timeline_async(job_id)))


@router.get("/jobs/{job_id}/related", operation_id="get_related_jobs", responses=problems(404))
async def get_related_jobs(call: Viewing, job_id: JobId) -> RelatedRecord:
    """The jobs that a job comes from and leads to, through dependencies, batches and rules, folded by level, kind and state."""
    return RelatedRecord.of(await call.control.jobs.related_async(job_id))


@router.get("/jobs/{job_id}/logs", operation_id="get_job_logs", responses=problems(404))
async def get_job_logs(call: Viewing, job_id: JobId) -> LogsRecord:
    """The lines that the handlers of a job logged, attempt by attempt."""
    return LogsRecord(attempts=AttemptLogRecord.each(await call.control.jobs.logs_async(job_id)))
