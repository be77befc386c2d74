"""A request to one instance, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

STACK = "stack"
"""The act of a request for the stack of a running handler; its ``phase`` is the id of the job."""


class RequestState(StrEnum):
    """ASKED: the instance has not read it. ACCEPTED: the instance is doing it. DONE, REFUSED: ``outcome`` says more."""

    ASKED = "asked"
    ACCEPTED = "accepted"
    DONE = "done"
    REFUSED = "refused"

    @property
    def is_over(self) -> bool:
        return self in (RequestState.DONE, RequestState.REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRequest:
    """What an instance was asked to do, and what became of it. ``number`` is the number of processors, or the seconds of grace of a drain."""

    id: str
    instance: str
    act: str
    phase: str | None
    number: float | None
    actor: str
    reason: str | None
    state: RequestState
    outcome: str | None
    at: datetime
    done_at: datetime | None
