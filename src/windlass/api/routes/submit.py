"""Submitting jobs: one, many, and batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from windlass.api.idempotency import keyed, request_key
from windlass.api.problems.documented import problems
from windlass.api.problems.handlers import problem_of
from windlass.api.records.jobs import JobDetail
from windlass.api.records.submits import (
    BatchProgressRecord,
    BatchRecord,
    SubmittedManyRecord,
    SubmittedRecord,
)
from windlass.api.requests.body import StrictRoute
from windlass.api.requests.prefer import Prefer, wanted_wait
from windlass.api.requests.submits import NDJSON, BatchBody, JobBody, check_count, many_jobs
from windlass.api.routes.dependencies import JobId, Submitting, Viewing
from windlass.control.jobs import JobControl
from windlass.control.submitting import JobOrder, KeyedJobs, SubmitControl
from windlass.errors import JobNotFoundError, WindlassError
from windlass.idempotency.store import RequestKey

router = APIRouter(prefix="/v1", tags=["submit"], route_class=StrictRoute)
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A text of the client's: a repeat of the request with it gets the same response.",
        examples=["4f9c0a3e"],
    ),
]
_MANY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/JobBody"}},
                "example": [{"kind": "welcome", "arguments": {"user_id": 7}}],
            },
            NDJSON: {
                "schema": {"type": "string"},
                "example": '{"kind": "welcome", "arguments": {"user_id": 7}}\n{"kind": "welcome", "arguments": {"user_id": 8}}\n',
            },
        },
    }
}


@router.post(
    "/jobs",
    operation_id="submit_job",
    status_code=202,
    response_model=None,
    responses={
        200: {"model": JobDetail, "description": "With `Prefer: wait`: the job has ended."},
        202: {"model": SubmittedRecord, "description": "The job is stored."},
        **problems(404, 408, 409, 413, 415, 429),
    },
)
async def submit_job(
    call: Submitting,
    body: JobBody,
    request: Request,
    response: Response,
    idempotency_key: Key = None,
    prefer: Prefer = None,
) -> SubmittedRecord | JobDetail:
    """Submit a job. With `Prefer: wait=N` the response is the job with its result, if it ends in time. A repeat with the same `Idempotency-Key`
    gets the status, `Location` and id of the first response at once, and does not wait: 202, or 200 with the job if the first request did."""
    seconds = wanted_wait(prefer, call.settings.max_wait)
    key = await request_key(request, call.caller)
    with keyed():
        kept = await _submitted(call.control.submits, body.order(), key)
    (made,) = kept.jobs
    response.headers["Location"] = call.path(f"/v1/jobs/{made.id}")
    if kept.is_repeat:
        if kept.has_ended and (job := await _found(call.control.jobs, made.id)) is not None:
            response.status_code = 200
            return job
    elif seconds:
        response.headers["Preference-Applied"] = "wait"
        with call.waits.one(call.caller):
            if await call.control.submits.ended_async(made.id, seconds) is not None:
                if key is not None:
                    await call.control.submits.note_end_async(kept, key)
                response.status_code = 200
                return JobDetail.of(await call.control.jobs.get_async(made.id))
    response.headers["Retry-After"] = "1"
    return SubmittedRecord.of(made)


@router.post(
    "/jobs/many",
    operation_id="submit_jobs",
    status_code=202,
    responses=problems(404, 408, 409, 413, 415),
    openapi_extra=_MANY,
)
async def submit_jobs(call: Submitting, request: Request, idempotency_key: Key = None) -> SubmittedManyRecord:
    """Submit many jobs, all or none: a JSON array, or a stream of lines of JSON."""
    jobs = many_jobs(
        await request.body(),
        request.headers.get("content-type", ""),
        depth=call.settings.max_depth,
        most=call.settings.max_jobs,
    )
    key = await request_key(request, call.caller)
    with keyed(), _numbered(request):
        made = await call.control.submits.many_async([job.order() for job in jobs], key)
    return SubmittedManyRecord(jobs=SubmittedRecord.each(made))


@router.post(
    "/batches",
    operation_id="submit_batch",
    status_code=202,
    responses=problems(404, 408, 409, 413, 415),
)
async def submit_batch(
    call: Submitting, body: BatchBody, request: Request, response: Response, idempotency_key: Key = None
) -> BatchRecord:
    """Submit jobs, and one that runs once when all of them have ended, in any way; all are stored, or none."""
    check_count(len(body.jobs), call.settings.max_jobs)
    key = await request_key(request, call.caller)
    members = [one if isinstance(one, str) else one.order() for one in body.jobs]
    with keyed():
        made = await call.control.submits.batch_async(members, body.then.order(), key)
    response.headers["Location"] = call.path(f"/v1/batches/{made[-1].id}")
    return BatchRecord.of(made)


@router.get("/batches/{job_id}", operation_id="get_batch", responses=problems(404))
async def get_batch(call: Viewing, job_id: JobId) -> BatchProgressRecord:
    """How many members a batch has, and how those ended that have ended; the id is that of the job that runs last."""
    return BatchProgressRecord.of(await call.control.jobs.batch_async(job_id))


async def _submitted(submits: SubmitControl, order: JobOrder, key: RequestKey | None) -> KeyedJobs:
    if key is None:
        return KeyedJobs(await submits.many_async([order]), is_repeat=False)
    return await submits.keyed_async(order, key)


async def _found(jobs: JobControl, job_id: str) -> JobDetail | None:
    """A job; None for one that was removed since it ended."""
    try:
        return JobDetail.of(await jobs.get_async(job_id))
    except JobNotFoundError:
        return None


@contextmanager
def _numbered(request: Request) -> Iterator[None]:
    """Have the pointers of a problem begin with the number of the job."""
    try:
        yield
    except WindlassError as error:
        problem = problem_of(error, request)
        if error.number is not None:
            problem.errors = [
                (where.replace("#", f"#/{error.number}", 1), what) for where, what in problem.errors
            ]
        raise problem from error
