"""Counters and histograms of this instance since its start, and the values of each minute for the roll-ups.

The hot path is ``ended_many`` and ``claimed`` (0.2 µs a job each), called by the step thread. Only totals are kept there; the
values of a minute are the difference to the totals at its beginning. All totals are under one lock that is held for microseconds,
so that readers see whole jobs and nothing is ever lost between two minutes. Counters of rarer events (``count``) have a lock of their own.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from windlass.model import Lease, Rollup, Run
from windlass.observe.report import BOUNDS_MS, BUCKETS, OUTCOMES, Histogram, PhaseStats, StatsReport

MINUTE = timedelta(minutes=1)
MS = timedelta(milliseconds=1)
MAX_CLOSED = 10_000
"""Rows of past minutes that are kept while they cannot be written."""


class Stats:
    """Counts events. Every method may be called from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._phases: dict[str, _Totals] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._count_lock = threading.Lock()
        self._is_changed = False
        self._minute: datetime | None = None
        self._minute_ends = float(
            "inf"
        )  # by the monotonic clock; unknown until the database's clock was read
        self._closed: deque[Rollup] = deque(maxlen=MAX_CLOSED)

    # ------------------------------------------------------------------ counting

    def ended_many(self, phase: str, outcome: str, runs: Iterable[Run | None]) -> None:
        """Count attempts of one phase that ended with the same outcome. Attempts that never ran (None), were released or lost are counted
        without their times."""
        with self._lock:
            if self._monotonic() >= self._minute_ends:
                self._next_minute()
            totals = self._phases.get(phase)
            if totals is None:
                totals = self._phases[phase] = _Totals()
            wait, run, bounds, find = totals.wait, totals.run, BOUNDS_MS, bisect_left
            is_timed = outcome not in _UNTIMED
            count = wait_ms = run_ms = 0
            for item in runs:
                count += 1
                if item is not None and is_timed:
                    _, waited, ran = item
                    wait[find(bounds, waited)] += 1
                    run[find(bounds, ran)] += 1
                    wait_ms += waited
                    run_ms += ran
            totals.outcomes[outcome] += count
            totals.wait_ms += wait_ms
            totals.run_ms += run_ms
            self._is_changed = True

    def claimed(self, leases: Sequence[Lease]) -> None:
        """Count claimed jobs, those of a phase behind each other, with the time each spent in its queue, by the database's clock."""
        with self._lock:
            phases, bounds, find = self._phases, BOUNDS_MS, bisect_left
            totals, phase = phases.get(leases[0].phase), leases[0].phase
            for lease in leases:
                if totals is None or lease.phase != phase:
                    phase = lease.phase
                    if (totals := phases.get(phase)) is None:
                        totals = phases[phase] = _Totals()
                stood = (lease.claimed_at - lease.ready_at) / MS
                totals.queue[find(bounds, stood)] += 1
                if stood > 0:  # jobs of one call are ready a microsecond apart
                    totals.queue_ms += stood

    def count(self, name: str, n: int = 1, label: str = "") -> None:
        """Count a rarer event; observe/metrics.py has the names."""
        with self._count_lock:
            self._counts[name, str(label)] += n

    # ------------------------------------------------------------------ reading

    @property
    def ended(self) -> int:
        """How many attempts have ended, in any way."""
        with self._lock:
            return sum(sum(totals.outcomes.values()) for totals in self._phases.values())

    def report(self) -> StatsReport:
        """All counters at this moment."""
        with self._count_lock:
            counts = dict(self._counts)
        with self._lock:
            phases = {name: totals.report() for name, totals in self._phases.items()}
        return StatsReport(phases, counts)

    @property
    def is_changed(self) -> bool:
        """Whether ``take_rollups`` would return a value that it has not returned before."""
        return self._is_changed

    def take_rollups(self, now: datetime, *, restart: bool = False) -> list[Rollup]:
        """Rows that changed since they were last taken, each with the whole minute so far.

        ``now`` is the database's clock. Between two calls the monotonic clock separates the minutes. A minute that is over is
        returned once more with its final values. With ``restart`` the next rows count from here: another instance id writes them.
        """
        with self._lock:
            moment = self._monotonic()
            if moment >= self._minute_ends:
                self._next_minute()
            minute = now.replace(second=0, microsecond=0)
            if self._minute is None:
                self._minute = minute
            elif minute > self._minute or minute < self._minute - MINUTE:  # or the clock was set back
                self._close(self._minute)
                self._minute = minute
            self._minute_ends = moment + (self._minute + MINUTE - now).total_seconds()
            rows = [*self._closed, *self._changed(self._minute)]
            self._closed.clear()
            self._is_changed = False
            if restart:
                self._begin()
            return rows

    def _next_minute(self) -> None:
        """Begin the next minute: the last one is over by the local clock."""
        assert self._minute is not None
        passed = 1 + int((self._monotonic() - self._minute_ends) // 60)
        self._close(self._minute)
        self._minute += passed * MINUTE
        self._minute_ends += passed * 60

    def _close(self, minute: datetime) -> None:
        self._closed.extend(self._changed(minute))
        self._begin()

    def _begin(self) -> None:
        for totals in self._phases.values():
            totals.begin()

    def _changed(self, minute: datetime) -> list[Rollup]:
        rows = []
        for name, totals in self._phases.items():
            row = totals.rollup(minute, name)
            if row is not None:
                rows.append(row)
        return rows


_UNTIMED = frozenset({"released", "lost"})


class _Totals:
    """The totals of one phase: now, at the beginning of the minute, and when they were last taken."""

    __slots__ = ("_base", "_taken", "outcomes", "queue", "queue_ms", "run", "run_ms", "wait", "wait_ms")

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.wait, self.run, self.queue = [0] * BUCKETS, [0] * BUCKETS, [0] * BUCKETS
        self.wait_ms: float = 0
        self.run_ms: float = 0
        self.queue_ms: float = 0
        self._base = self._taken = self._now()

    def _now(self) -> tuple[float, ...]:
        """What roll-ups count. Their wait is that in the queue, which is what a person asks for; the wait in memory is a metric."""
        return (*self.outcomes.values(), *self.queue, *self.run, self.queue_ms, self.run_ms)

    def begin(self) -> None:
        """Begin a minute."""
        self._base = self._taken = self._now()

    def rollup(self, minute: datetime, phase: str) -> Rollup | None:
        """The minute so far; None if it was taken already."""
        current = self._now()
        if current == self._taken:
            return None
        self._taken = current
        spent = [int(after - before) for after, before in zip(current, self._base, strict=True)]
        number = dict(zip(OUTCOMES, spent, strict=False))
        if number.pop("lost") and not any(number.values()):
            return None
        first = len(OUTCOMES)
        return Rollup(
            minute=minute,
            phase=phase,
            completed=number["completed"] + number["advanced"],
            failed=number["failed"],
            retried=number["retried"],
            cancelled=number["cancelled"],
            released=number["released"],
            wait=tuple(spent[first : first + BUCKETS]),
            run=tuple(spent[first + BUCKETS : first + 2 * BUCKETS]),
            wait_ms_sum=spent[-2],
            run_ms_sum=spent[-1],
        )

    def report(self) -> PhaseStats:
        return PhaseStats(
            dict(self.outcomes),
            Histogram(tuple(self.wait), self.wait_ms),
            Histogram(tuple(self.run), self.run_ms),
            Histogram(tuple(self.queue), self.queue_ms),
        )
