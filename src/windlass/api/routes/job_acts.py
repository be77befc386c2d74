"""Acting on one job: cancel, retry, run now, edit, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from windlass.api.problems.documented import problems
from windlass.api.records.acts import CancelRecord, StackRecord
from windlass.api.records.jobs import JobDetail
from windlass.api.requests.acts import EditBody, MaybeReasonBody, ReasonBody, RetryBody
from windlass.api.requests.body import StrictRoute
from windlass.api.requests.conditions import etag, required_version
from windlass.api.requests.prefer import Prefer, wanted_wait
from windlass.api.routes.dependencies import Editing, JobId, Operating

STACK_WAIT = 10.0
"""Seconds that an instance has to send the stack of a handler, unless the request has another number."""
router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"], route_class=StrictRoute)


@router.post("/cancel", operation_id="cancel_job", responses=problems(404, 408, 409, 413, 415))
async def cancel_job(call: Operating, job_id: JobId, body: ReasonBody) -> CancelRecord:
    """Cancel a job: at once if no instance runs it, else by asking its instance. May be repeated while it runs."""
    return CancelRecord(result=await call.control.jobs.cancel_async(job_id, body.reason))


@router.post("/retry", operation_id="retry_job", responses=problems(404, 408, 409, 413, 415))
async def retry_job(
    call: Operating, job_id: JobId, response: Response, body: RetryBody | None = None
) -> JobDetail:
    """Run an ended job again: a new generation of it, at the phase where it ended."""
    given = body or RetryBody()
    job = await call.control.jobs.retry_async(job_id, given.reason, dependents=given.dependents)
    response.headers["ETag"] = etag(job.version)
    return JobDetail.of(job)


@router.post("/run-now", operation_id="run_job_now", responses=problems(404, 408, 409, 413, 415))
async def run_job_now(
    call: Operating, job_id: JobId, response: Response, body: MaybeReasonBody | None = None
) -> JobDetail:
    """Make a job due that is scheduled for later, or waits for its next attempt."""
    job = await call.control.jobs.run_now_async(job_id, None if body is None else body.reason)
    response.headers["ETag"] = etag(job.version)
    return JobDetail.of(job)


@router.patch("", operation_id="edit_job", responses=problems(404, 408, 409, 412, 413, 415, 428))
async def edit_job(
    call: Editing,
    job_id: JobId,
    body: EditBody,
    response: Response,
    if_match: Annotated[str | None, Header(description="The ETag of the job that was read.")] = None,
) -> JobDetail:
    """Change arguments or priority of a job that has not begun."""
    job = await call.control.jobs.edit_async(
        job_id,
        version=required_version(if_match),
        arguments=body.arguments,
        priority=body.priority,
        reason=body.reason,
    )
    response.headers["ETag"] = etag(job.version)
    return JobDetail.of(job)


@router.post("/stack", operation_id="get_job_stack", responses=problems(404, 408, 409, 413, 415))
async def get_job_stack(
    call: Operating, job_id: JobId, body: MaybeReasonBody | None = None, prefer: Prefer = None
) -> StackRecord:
    """Where the handler of a running job is: lines of code and no values. It also needs the role view-payload. Its instance has 10 s to
    respond, or the time of `Prefer: wait=N`."""
    seconds = wanted_wait(prefer, call.settings.max_wait) or STACK_WAIT
    reason = None if body is None else body.reason
    return StackRecord.of(await call.control.jobs.stack_async(job_id, reason, timeout=seconds))


@router.delete("", operation_id="delete_job", status_code=204, responses=problems(404, 409))
async def delete_job(
    call: Operating,
    job_id: JobId,
    reason: Annotated[str, Query(max_length=1000, description="For the audit trail.")],
) -> None:
    """Remove an ended job with everything that is kept of it."""
    await call.control.jobs.delete_async(job_id, reason)
