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


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedGroup:
    """Jobs of one kind and state on one level: 0 is the job itself, -1 are the jobs that lead to it, 1 those behind it, and so on. ``sample`` is
    the oldest of them."""

    level: int
    kind: str
    state: str
    count: int
    sample: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedEdge:
    """How many edges lead from one group to another; both are places in the list of groups."""

    parent: int
    child: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedJobs:
    """The groups by level, kind and state, with the edges between them. ``is_cut``: there are more jobs than were read."""

    groups: Sequence[RelatedGroup]
    edges: Sequence[RelatedEdge]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStack:
    """What a handler did at a time: ``text`` has a line for each frame and one for its code, the innermost frame last."""

    job: str
    phase: str
    instance: str
    at: datetime
    text: str
