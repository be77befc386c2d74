"""Instances, and requests to them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from windlass.api.problems.documented import problems
from windlass.api.problems.problem import ProblemError
from windlass.api.records.acts import InstanceRequestRecord, InstanceRequestsRecord
from windlass.api.records.system import InstanceRecord, InstancesRecord
from windlass.api.requests.acts import DrainBody, ProcessorsBody
from windlass.api.requests.body import StrictRoute
from windlass.api.routes.dependencies import Operating, Viewing
from windlass.operations.request import InstanceRequest

router = APIRouter(prefix="/v1", tags=["instances"], route_class=StrictRoute)


@router.get("/instances", operation_id="list_instances", responses=problems())
async def list_instances(call: Viewing) -> InstancesRecord:
    """All instances that the database knows, newest first, with their processors as of their last heartbeats."""
    return InstancesRecord(instances=InstanceRecord.each(await call.control.instances.list_async()))


@router.get("/instances/{instance}", operation_id="get_instance", responses=problems(404))
async def get_instance(call: Viewing, instance: str) -> InstanceRecord:
    """One instance."""
    for found in await call.control.instances.list_async():
        if found.id == instance:
            return InstanceRecord.of(found)
    raise ProblemError("instance-not-found")


@router.get("/instances/{instance}/requests", operation_id="list_instance_requests", responses=problems())
async def list_instance_requests(call: Viewing, instance: str) -> InstanceRequestsRecord:
    """The last 50 requests to an instance, newest first."""
    found = await call.control.instances.requests_async(instance)
    return InstanceRequestsRecord(requests=InstanceRequestRecord.each(found))


@router.post(
    "/instances/{instance}/drain",
    operation_id="drain_instance",
    status_code=202,
    responses=problems(404, 408, 413, 415),
)
async def drain_instance(
    call: Operating, instance: str, body: DrainBody, response: Response
) -> InstanceRequestRecord:
    """Have an instance claim nothing more, let its running jobs finish, and stop."""
    made = await call.control.instances.drain_async(instance, body.reason, grace=body.grace)
    return _accepted(response, call.path(f"/v1/instance-requests/{made.id}"), made)


@router.put(
    "/instances/{instance}/processors/{phase:path}",
    operation_id="set_processors",
    status_code=202,
    responses=problems(404, 408, 413, 415),
)
async def set_processors(
    call: Operating, instance: str, phase: str, body: ProcessorsBody, response: Response
) -> InstanceRequestRecord:
    """Give a phase of an instance so many processors, until the instance starts again."""
    made = await call.control.instances.set_processors_async(instance, phase, body.count, body.reason)
    return _accepted(response, call.path(f"/v1/instance-requests/{made.id}"), made)


@router.get("/instance-requests/{request_id}", operation_id="get_instance_request", responses=problems(404))
async def get_instance_request(call: Viewing, request_id: str) -> InstanceRequestRecord:
    """A request to an instance, with its outcome."""
    return InstanceRequestRecord.of(await call.control.instances.request_async(request_id))


def _accepted(response: Response, path: str, made: InstanceRequest) -> InstanceRequestRecord:
    response.headers["Location"] = path
    return InstanceRequestRecord.of(made)
