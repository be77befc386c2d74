"""Reports of an instance: plain frozen values, made by the engine, read by logs, metrics, health and the API.

Nothing here depends on the modules of the engine, so that readers need only this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

OUTCOMES = ("completed", "failed", "retried", "cancelled", "advanced", "released", "lost")
"""The outcomes of an attempt. ``lost``: its lease was lost, so its outcome was not recorded."""

BOUNDS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000,
)  # fmt: skip
"""Upper bounds of the histograms' buckets in milliseconds, each inclusive; one bucket more holds everything above."""

BUCKETS = len(BOUNDS_MS) + 1


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """Processors of one phase by state, claimed jobs that wait in memory for one, and the names of the processors in error."""

    idle: int
    busy: int
    error: int
    waiting: int
    in_error: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """The state of one instance.

    ``state`` is starting, running, stopping or stopped. ``degraded`` has one line for each part that has a fault:
    ``part: reason``; ``notes`` has lines of the same form for what people should know although it is no fault. While ``lock_fault`` says
    why required locks cannot be acquired, no job runs. ``last_step_seconds_ago`` counts from the last step of the step thread, with or without work;
    from ``step_limit`` seconds on the thread counts as hung (None: never). From ``loop_limit`` seconds of ``loop_lag`` on the event loop
    counts as blocked.
    """

    instance: str
    started_at: datetime
    state: str
    phases: Mapping[str, PhaseReport] = field(default_factory=dict)
    lease_left: float
    last_step_seconds_ago: float
    store_reachable: bool
    listening: bool
    degraded: Sequence[str] = ()
    notes: Sequence[str] = ()
    lock_fault: str = ""
    loop_lag: float = 0.0
    loop_limit: float = 1.0
    step_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of durations in each bucket of ``BOUNDS_MS`` (not cumulative), and their sum in milliseconds."""

    counts: tuple[int, ...]
    sum_ms: float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class PhaseStats:
    """The outcomes of a phase's attempts on this instance since it started, how long they waited in memory and ran, and how long claimed
    jobs were in their queue."""

    outcomes: Mapping[str, int]
    wait: Histogram
    run: Histogram
    queue: Histogram


STUCK = ("released", "retried")
"""The verdicts of recovery after which a job runs again."""
SHARED = {
    "lock_held": "lock_skips",
    "redis_errors": "redis_errors",
    "duplicates_prevented": "duplicates_prevented",
    "locks_lost": "locks_lost",
    "lease_lost": "lease_lost",
    "time_limits": "time_limits",
    "crashes": "crashes",
    "loop_blocked": "loop_blocked",
    "reconnects": "reconnects",
}
"""Counters of ``Stats.count`` that an instance shows to other processes, by the names of their metrics."""


@dataclass(frozen=True, slots=True)
class StatsReport:
    """All counters of an instance at one moment. ``counts`` has the rarer events under (name, label)."""

    phases: Mapping[str, PhaseStats] = field(default_factory=dict)
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def outcome(self, name: str) -> int:
        """How many attempts of all phases had this outcome."""
        return sum(phase.outcomes.get(name, 0) for phase in self.phases.values())

    @property
    def stuck_released(self) -> int:
        """Stuck jobs that were freed: recovered jobs that run again, and jobs that exceeded their time limit."""
        recovered = sum(self.counts.get(("recovered", verdict), 0) for verdict in STUCK)
        return recovered + self.count("time_limits")

    def shared(self) -> Mapping[str, int]:
        """The counters of rarer events since the start that other processes can read."""
        counts = {metric: self.count(name) for name, metric in SHARED.items()}
        retries = self.outcome("retried")
        return {"retries": retries, "stuck_released": self.stuck_released, **counts}

    def count(self, name: str) -> int:
        """How often a rarer event happened, with any label."""
        return sum(number for (found, _), number in self.counts.items() if found == name)
