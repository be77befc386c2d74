"""What reading jobs returns: pages, counts and events. Nothing here needs a database, so that a client without one has them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.model import Job, Progress


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of a list, newest first. ``searched`` is how many rows were read for it; while rows are left, ``next_cursor`` continues the
    list, also behind a page that is short or empty because its search had reached its limit."""

    jobs: Sequence[Job]
    next_cursor: str | None
    searched: int

    @property
    def more(self) -> bool:
        """Whether rows are left that were not searched."""
        return self.next_cursor is not None


@dataclass(frozen=True, slots=True)
class JobCount:
    """How many jobs a filter finds. ``count`` is all of them if it ``exact``, else a lower bound, found among ``searched`` rows."""

    count: int
    exact: bool
    searched: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One event of a job. ``type`` is created, started, progress, or how an attempt or the job ended: completed, failed, cancelled, retried,
    advanced (to its next phase) or recovered. ``id`` is where ``after`` continues; a progress has the id of the event before it."""

    id: str
    job: str
    type: str
    at: datetime
    phase: str
    attempt: int
    generation: int
    instance: str | None = None
    error: Mapping[str, Any] | None = None
    progress: Progress | None = None
    is_last: bool = False
    """Whether the job has ended with this event."""
