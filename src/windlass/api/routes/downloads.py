"""Results and outputs of jobs as JSON documents."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Response

from windlass.api.problems.documented import problems
from windlass.api.problems.problem import ProblemError
from windlass.api.records.jobs import OutputRecord, OutputsRecord
from windlass.api.requests.body import StrictRoute
from windlass.api.routes.dependencies import JobId, ViewingPayload
from windlass.model import State

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"], route_class=StrictRoute)
_ANY_JSON: dict[int | str, dict[str, Any]] = {
    200: {"description": "The value, as JSON.", "content": {"application/json": {"schema": {}}}}
}


@router.get(
    "/result",
    operation_id="get_job_result",
    responses={**_ANY_JSON, **problems(404, 409)},
    response_model=None,
)
async def get_job_result(call: ViewingPayload, job_id: JobId) -> Response:
    """The result of a completed job, for download."""
    job = await call.control.jobs.get_async(job_id)
    if job.state is not State.COMPLETED:
        raise ProblemError(
            "illegal-transition",
            f"job {job.id} is {job.state}, and only a completed job has a result",
            state=str(job.state),
            job=job.id,
        )
    return _document(job.result_json or "null", f"{job.id}.json")


@router.get("/outputs", operation_id="list_job_outputs", responses=problems(404))
async def list_job_outputs(call: ViewingPayload, job_id: JobId) -> OutputsRecord:
    """What the phases of a job produced, in the order in which it was stored."""
    return OutputsRecord(outputs=OutputRecord.each(await call.control.jobs.outputs_async(job_id)))


@router.get(
    "/outputs/{phase}",
    operation_id="get_phase_output",
    responses={**_ANY_JSON, **problems(404)},
    response_model=None,
)
async def get_phase_output(call: ViewingPayload, job_id: JobId, phase: str) -> Response:
    """What a phase of a pipeline returned, for download."""
    return await _output(call, job_id, phase, "")


@router.get(
    "/outputs/{phase}/{name}",
    operation_id="get_job_output",
    responses={**_ANY_JSON, **problems(404)},
    response_model=None,
)
async def get_job_output(call: ViewingPayload, job_id: JobId, phase: str, name: str) -> Response:
    """One named output of a phase, for download."""
    return await _output(call, job_id, phase, name)


async def _output(call: ViewingPayload, job_id: JobId, phase: str, name: str) -> Response:
    for output in await call.control.jobs.outputs_async(job_id):
        if (output.phase, output.name) == (phase, name):
            return _document(json.dumps(output.value), f"{job_id}.json")
    raise ProblemError("output-not-found", job=job_id)


def _document(text: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text.encode(), media_type="application/json", headers=headers)
