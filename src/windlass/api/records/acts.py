"""What requests that change something get: operations, requests to instances, records of the audit trail."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field

from windlass.api.records.record import Id, Moment, Record
from windlass.model import CancelResult
from windlass.operations.operation import Operation, OperationState
from windlass.operations.request import RequestState


class CancelRecord(Record):
    """What became of a cancel."""

    result: CancelResult = Field(
        description="cancelled: the job has ended. requested: the instance that runs it was asked to stop it."
    )


class RefusalRecord(Record):
    """A job that an operation could not act on."""

    job_id: Id
    code: str
    message: str


class OperationRecord(Record):
    """An act on all jobs of a filter."""

    id: str | None = Field(description="Null of a dry run.")
    act: str
    filter: str
    state: OperationState
    actor: str
    reason: str | None = None
    options: dict[str, Any] = Field(default={})
    matched: int
    is_exact: bool = Field(description="If false, there are at least so many.")
    done: int
    refused: int
    refusals: list[RefusalRecord] = Field(description="The first 100.")
    created_at: Moment
    updated_at: Moment
    finished_at: Moment | None = None

    @classmethod
    def of(cls, found: Operation) -> Self:
        facts = {name: getattr(found, name) for name in cls.model_fields}
        return cls.model_validate(
            {
                **facts,
                "id": found.id or None,
                "refusals": RefusalRecord.each(found.refusals),
                "options": dict(found.options),
            }
        )


class OperationPageRecord(Record):
    """A page of operations, newest first."""

    operations: list[OperationRecord]
    next_cursor: str | None = None


class StoppedRecord(Record):
    """Whether the act changed anything."""

    changed: bool = Field(description="False if it was over, or not paused, already.")


class InstanceRequestRecord(Record):
    """What an instance was asked to do, and what became of it."""

    id: str
    instance: str
    act: str
    phase: str | None = Field(default=None, description="Of the act stack, the id of the job.")
    number: float | None = Field(default=None, description="Processors, or the seconds of grace of a drain.")
    actor: str
    reason: str | None = None
    state: RequestState
    outcome: str | None = None
    at: Moment
    done_at: Moment | None = None


class StackRecord(Record):
    """What the handler of a running job did at a time."""

    job: Id
    phase: str
    instance: str
    at: Moment
    text: str = Field(description="A line for each frame and one for its code, the innermost frame last.")


class DeployRecord(Record):
    """When which code began to run."""

    at: Moment
    text: str = Field(examples=["release 41"])
    actor: str
    is_code: bool = Field(
        description="Whether a worker started with a version that no other one had; else a person or a script marked it."
    )


class DeploysRecord(Record):
    """Marks of deploys, newest first."""

    deploys: list[DeployRecord]


class InstanceRequestsRecord(Record):
    """The last requests to an instance, newest first."""

    requests: list[InstanceRequestRecord]


class AuditEntryRecord(Record):
    """One act of the audit trail."""

    id: str
    at: Moment | None = None
    actor: str
    act: str = Field(examples=["job.cancel"])
    target: str = Field(examples=["job"])
    name: str
    reason: str | None = None
    before: Any = None
    after: Any = None
    subject: str | None = None
    issuer: str | None = None
    tenant: str | None = None


class AuditPageRecord(Record):
    """A page of the audit trail, newest first."""

    records: list[AuditEntryRecord]
    next_cursor: str | None = None
