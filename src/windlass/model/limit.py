"""Concurrency limits and rates: of a phase, of a job, and the state of its gates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Rate:
    """How many jobs of a phase may begin: ``per_second`` on average over the fleet, ``burst`` at once after a pause."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimit:
    """The limit of a job in one of its phases: how many jobs with this ``key`` may be admitted at once, and the phase's rate.

    Stored with the job, so that instances that lack this handler's code apply the same limit.
    """

    phase: str
    key: str = ""
    limit: int | None = None
    rate: Rate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The flow control of a phase: ``limit`` jobs at once per key, ``rate`` over the fleet, and one priority more for every ``age`` waited.

    ``limit_key`` is a path into the arguments (``args.customer``), or a fixed text; None is one key for the whole phase.
    """

    phase: str
    limit: int | None = None
    limit_key: str | None = None
    rate: Rate | None = None
    age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """One key of a limited phase: how many may be in, how many are, how many wait. ``limit`` is None if it was lifted."""

    phase: str
    key: str
    limit: int | None
    admitted: int
    waiting: int


@dataclass(frozen=True, slots=True)
class GateDrift:
    """A gate whose numbers do not agree: its count, the places given, and the jobs that really have one."""

    phase: str
    key: str
    admitted: int
    given: int
    used: int
