"""Acts on many jobs, and on instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.client import records
from windlass.client.asks.ask import AnyFilter, Ask, as_json, given, name_of, part, post, text
from windlass.client.records import each, one
from windlass.control.system_views import InstanceView, Pool
from windlass.operations.operation import Operation, OperationPage
from windlass.operations.request import InstanceRequest


def start(
    act: str,
    only: AnyFilter = None,
    reason: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    all: bool = False,
    dry_run: bool = False,
) -> Ask[Operation]:
    """Act on all jobs that a filter finds now."""
    facts = given(act=act, filter=text(only), reason=reason, all=all, dry_run=dry_run)
    return post("/v1/operations", {**facts, **(options or {})}, records.operation_of)


def get_operation(operation_id: str) -> Ask[Operation]:
    """One operation with its progress; ``OperationNotFoundError`` if there is none."""
    return Ask("GET", f"/v1/operations/{part(operation_id)}", records.operation_of)


def list_operations(
    *, state: str | None = None, cursor: str | None = None, limit: int = 50
) -> Ask[OperationPage]:
    """Operations from newest to oldest, a page at a time."""
    query = given(state=state, cursor=cursor, limit=limit)
    return Ask("GET", "/v1/operations", records.operations_of, query)


def stop(operation_id: str, reason: str | None = None) -> Ask[bool]:
    """Stop a running operation; what was done stays done. False if it was over already."""
    path = f"/v1/operations/{part(operation_id)}/stop"
    return post(path, given(reason=reason), records.changed)


def list_instances() -> Ask[Sequence[InstanceView]]:
    """All instances that the database knows, newest first."""
    return Ask("GET", "/v1/instances", each("instances", one(InstanceView)))


def drain(instance: str, reason: str, *, grace: float | None = None) -> Ask[InstanceRequest]:
    """Have an instance claim nothing more, finish its running jobs, and stop."""
    body = given(reason=reason, grace=grace)
    return post(f"/v1/instances/{part(instance)}/drain", body, one(InstanceRequest))


def set_processors(instance: str, phase: str, count: int, reason: str | None = None) -> Ask[InstanceRequest]:
    """Give a phase of an instance so many processors, until the instance starts again."""
    path = f"/v1/instances/{part(instance)}/processors/{name_of(phase)}"
    return Ask("PUT", path, one(InstanceRequest), body=as_json(given(count=count, reason=reason)))


def get_request(request_id: str) -> Ask[InstanceRequest]:
    """What an instance was asked to do, and what became of it."""
    return Ask("GET", f"/v1/instance-requests/{part(request_id)}", one(InstanceRequest))


def list_pools() -> Ask[Sequence[Pool]]:
    """The processors of each phase on all living instances."""
    return Ask("GET", "/v1/pools", each("pools", one(Pool)))


def list_requests(instance: str) -> Ask[Sequence[InstanceRequest]]:
    """The last 50 requests to an instance, newest first."""
    return Ask("GET", f"/v1/instances/{part(instance)}/requests", each("requests", one(InstanceRequest)))
