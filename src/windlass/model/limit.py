"""How many at once and how fast: what a phase allows, what a job brings along, and how its gates stand."""

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
    """What a job brings along for one of its phases: how many jobs with this ``key`` may be admitted at once, and the phase's rate.

    Stored with the job, so that instances that lack this handler's code apply the same limit.
    """

    phase: str
    key: str = ""
    limit: int | None = None
    rate: Rate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a phase allows: ``limit`` jobs at once per key, ``rate`` over the fleet, and one priority more for every ``age`` waited.

    ``limit_key`` is a path into the arguments (``args.customer``), or a fixed text; None is one key for the whole phase.
    """

    phase: str
    limit: int | None = None
    limit_key: str | None = None
    rate: Rate | None = None
    age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """One key of a limited phase: how many may be in, how many are, how many wait. ``limit`` is None where it was lifted."""

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
