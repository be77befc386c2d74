"""One act on all jobs of a filter, as the database has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class OperationState(StrEnum):
    """RUNNING: jobs are left. DONE: all jobs were acted on or refused. STOPPED: an actor stopped it; what was done stays done. DRY_RUN: jobs were
    counted, and nothing was stored."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    DRY_RUN = "dry_run"


ACTS = ("cancel", "retry", "run_now", "delete", "priority")
"""What an operation does to each job."""

MAX_REFUSALS = 100
"""How many refusals are kept with an operation; all are counted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that an operation could not act on, and why."""

    job_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An act on all jobs that a filter found when it began.

    ``matched`` is how many those were, at least that many if not ``is_exact``. ``done`` were acted on, ``refused`` could not be; ``refusals`` are the
    first 100 of them. A job that no longer meets the filter when its turn comes is in neither. ``after`` is how far it came: ids go down.
    """

    id: str
    act: str
    filter: str
    actor: str
    state: OperationState
    matched: int
    is_exact: bool
    reason: str | None
    options: Mapping[str, Any]
    scope: Mapping[str, str | None]
    created_at: datetime
    updated_at: datetime
    after: str
    finished_at: datetime | None = None
    done: int = 0
    refused: int = 0
    refusals: Sequence[Refusal] = field(default=())
    subject: str | None = None
    issuer: str | None = None
    tenant: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether no more jobs will be acted on."""
        return self.state is not OperationState.RUNNING


@dataclass(frozen=True, slots=True)
class OperationPage:
    """A slice of the operations, newest first; ``next_cursor`` is None at the end."""

    operations: Sequence[Operation]
    next_cursor: str | None
