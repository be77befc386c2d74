"""Phases, pools of processors, and pipelines."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from windlass.api.problems.documented import problems
from windlass.api.problems.problem import ProblemError
from windlass.api.records.acts import StoppedRecord
from windlass.api.records.system import (
    OverviewRecord,
    PhaseRecord,
    PhasesRecord,
    PipelineRecord,
    PipelinesRecord,
    PoolRecord,
    PoolsRecord,
)
from windlass.api.requests.acts import MaybeReasonBody, PauseBody
from windlass.api.requests.body import StrictRoute
from windlass.api.routes.dependencies import Operating, Viewing

router = APIRouter(prefix="/v1", tags=["phases"], route_class=StrictRoute)
PhaseName = Annotated[str, Path(description="The name of a phase.")]


@router.get("/overview", operation_id="get_overview", responses=problems())
async def get_overview(call: Viewing) -> OverviewRecord:
    """All phases, the instances, and what is wrong."""
    return OverviewRecord.of(await call.control.overview.read_async())


@router.get("/phases", operation_id="list_phases", responses=problems())
async def list_phases(call: Viewing) -> PhasesRecord:
    """All phases: their jobs by state, their processors, and why their jobs wait."""
    overview = await call.control.overview.read_async()
    return PhasesRecord(phases=PhaseRecord.each(overview.phases))


@router.post(
    "/phases/{phase:path}/pause",
    operation_id="pause_phase",
    status_code=204,
    responses=problems(404, 408, 413, 415),
)
async def pause_phase(call: Operating, phase: PhaseName, body: PauseBody) -> None:
    """Stop claims of a phase on every instance; running jobs continue."""
    await call.control.phases.pause_async(phase, body.reason, lasts=body.lasts)


@router.post(
    "/phases/{phase:path}/resume", operation_id="resume_phase", responses=problems(404, 408, 413, 415)
)
async def resume_phase(
    call: Operating, phase: PhaseName, body: MaybeReasonBody | None = None
) -> StoppedRecord:
    """Serve a phase again."""
    reason = None if body is None else body.reason
    return StoppedRecord(changed=await call.control.phases.resume_async(phase, reason))


@router.get("/phases/{phase:path}", operation_id="get_phase", responses=problems(404))
async def get_phase(call: Viewing, phase: PhaseName) -> PhaseRecord:
    """One phase."""
    overview = await call.control.overview.read_async()
    for found in overview.phases:
        if found.name == phase:
            return PhaseRecord.of(found)
    raise ProblemError("phase-not-found", f"there is no phase {phase[:200]!r}")


@router.get("/pools", operation_id="list_pools", responses=problems())
async def list_pools(call: Viewing) -> PoolsRecord:
    """The processors of each phase on all living instances."""
    return PoolsRecord(pools=PoolRecord.each(await call.control.instances.pools_async()))


@router.get("/pipelines", operation_id="list_pipelines", tags=["pipelines"], responses=problems())
async def list_pipelines(call: Viewing) -> PipelinesRecord:
    """All kinds that the application of this server defines; a plain job is a pipeline of one phase."""
    return PipelinesRecord(pipelines=PipelineRecord.each(call.control.pipelines.list()))


@router.get(
    "/pipelines/{name:path}", operation_id="get_pipeline", tags=["pipelines"], responses=problems(404)
)
async def get_pipeline(call: Viewing, name: str) -> PipelineRecord:
    """One kind: its phases in order, and its arguments."""
    found = call.control.pipelines.get(name)
    if found is None:
        raise ProblemError("pipeline-not-found", f"there is no kind {name[:200]!r}")
    return PipelineRecord.of(found)
