"""What a request that submits jobs gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from windlass.api.records.record import Id, Record
from windlass.model import Enqueued


class SubmittedRecord(Record):
    """A job that was submitted."""

    id: Id
    created: bool = Field(description="False if a unique key found the job already there.")
    replaced: bool = Field(
        default=False, description="Whether a job that still waited has these arguments now (debounce)."
    )


class SubmittedManyRecord(Record):
    """Jobs that were submitted, in the order of the request."""

    jobs: list[SubmittedRecord]


class BatchRecord(Record):
    """A batch: its members in the order of the request, and the job that runs when all of them have ended."""

    members: list[SubmittedRecord]
    then: SubmittedRecord

    @classmethod
    def of(cls, found: Sequence[Enqueued]) -> Self:
        *members, then = SubmittedRecord.each(found)
        return cls(members=members, then=then)


class BatchProgressRecord(Record):
    """How many members a batch has, and how those ended that have ended."""

    total: int
    completed: int
    failed: int
    cancelled: int
    ended: int
    left: int
