"""Views for people: counts, per-minute statistics, lists, and retention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from windlass.model.job import Job, State


@dataclass(frozen=True, slots=True)
class Counts:
    """Jobs per state of one phase."""

    waiting: int = 0
    scheduled: int = 0
    queued: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


class Rollup(NamedTuple):
    """The statistics of one minute of a phase. ``wait`` and ``run`` are histograms: how many jobs fell into each bucket; the
    buckets are the engine's. A chart has thousands of them, so it is a tuple, which is made in a third of the time of a dataclass."""

    minute: datetime
    phase: str
    completed: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    released: int = 0
    wait: tuple[int, ...] = ()
    run: tuple[int, ...] = ()
    wait_ms_sum: int = 0
    run_ms_sum: int = 0


@dataclass(frozen=True, slots=True)
class PhasePause:
    """Why and how long a phase is not served."""

    phase: str
    since: datetime
    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list shows; fields that are None do not filter."""

    state: State | None = None
    kind: str | None = None
    phase: str | None = None
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A slice of a list, newest first; ``next_cursor`` is None at the end."""

    jobs: Sequence[Job]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class MergeStep:
    """One piece of work on a month of history: how many ``jobs`` it copied, and, where it was the swap, how many jobs the month had ``merged``. One
    ``is_waiting`` did nothing: what keeps it from going on is in ``what``."""

    month: str = ""
    jobs: int = 0
    merged: int | None = None
    is_waiting: bool = False
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended jobs stay; None keeps them forever."""

    completed: timedelta | None = timedelta(days=7)
    failed: timedelta | None = timedelta(days=90)
    cancelled: timedelta | None = timedelta(days=30)
