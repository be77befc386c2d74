"""Failed jobs by their cause."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failed jobs with one cause: how many in the last hour, day and week, and in all that were searched; ``sample`` is one of their ids."""

    kind: str
    phase: str
    type: str
    code: str
    place: str | None
    message: str
    hour: int
    day: int
    week: int
    total: int
    first_at: datetime
    last_at: datetime
    sample: str


@dataclass(frozen=True, slots=True)
class Failures:
    """Groups of failed jobs, the latest first. ``searched`` failed jobs that the actor may see were read, newest first; ``more`` says that further
    failed jobs were not read."""

    groups: list[FailureGroup]
    searched: int
    more: bool
