"""Publishes what only this instance knows: the states of its processors, and which jobs it holds back and why.

The board of an instance is a JSON object. Readers treat every fact as optional: instances of other releases publish other facts.

state                 starting, running, stopping or stopped
phases                for each phase: ``size`` (processors), ``busy``, ``error``, ``queue`` (claimed jobs that wait in memory), and, while the
                      phase is held back by the one behind it, ``held``: ``next`` (that phase), ``queued``, ``most``
max_concurrent_calls  the limit of this instance, or null; ``running`` jobs count; ``full``: no further job begins
isolated              how many suspects run in a process of their own; ``isolated_waiting``: the ids of those that wait for a place
lock_refused          job ids whose lock another process held a moment ago, each with the holder or null; ``lock_fault``: no lock can be acquired
quiet                 seconds that a job must have been unchanged before it is claimed
degraded              the parts whose health is not ok: ``part``, ``state`` (degraded or down), ``seen`` and ``advice``
counters              rarer events since the start of the instance, by the names of their metrics: ``retries``, ``stuck_released``, ``lock_skips``, ...
waits                 for each phase, how long jobs that the instance claimed since its start had been ready in the database: ``counts`` of each
                      bucket, and their sum in ``ms``
processors            the processors that are busy or in error: ``name``, ``state``, ``job`` and ``since``; the others are idle
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Set
from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.engine.instance import Instance
from windlass.engine.job_locks import JobLocks
from windlass.engine.workload import Workload
from windlass.observe import health
from windlass.observe.report import EngineReport, StatsReport
from windlass.settings import Settings
from windlass.upkeep.backpressure import FullPhase, Pressure

SAME_FOR = 60.0
"""Seconds for which a board that did not change is not written again; a crash of PostgreSQL loses all boards."""
SWEEP_EVERY = 3600.0
LONGEST_WATCH = 60.0
"""Seconds that one request to watch counts at most; watchers repeat it."""
WATCHED_EVERY = 1.0
"""Seconds between two writes of a board while people watch."""
MOST_PROCESSORS = 1000
"""Processors that a board lists."""


class BoardPublisher:
    """Writes the board of an instance with every heartbeat, and every second while people watch, if it changed. An idle instance writes its
    board once a minute."""

    def __init__(
        self,
        instance: Instance,
        settings: Settings,
        workload: Workload,
        pressure: Pressure,
        locks: JobLocks | None,
        report: Callable[[], EngineReport],
        stats: Callable[[], StatsReport],
    ) -> None:
        self._stats = stats
        self._instance = instance
        self._settings = settings
        self._workload = workload
        self._pressure = pressure
        self._locks = locks
        self._report = report
        self._began = datetime.now(UTC) - timedelta(seconds=time.monotonic())
        self._last: tuple[str, str] = ("", "")
        self._faults: Set[str] = frozenset()
        self._written_at = self._swept_at = self._watched_until = float("-inf")

    @property
    def is_watched(self) -> bool:
        """Whether people watch."""
        return time.monotonic() < self._watched_until

    def watched(self, seconds: float) -> bool:
        """Note that people watch for so many seconds; returns whether that is new. From any thread."""
        is_new = not self.is_watched
        self._watched_until = max(self._watched_until, time.monotonic() + min(seconds, LONGEST_WATCH))
        return is_new

    def run(self) -> float | None:
        """Publish the board, unless the database has it; returns the seconds until the next time while people watch."""
        now = time.monotonic()
        board = self._instance.id, json.dumps(self.facts())
        if board != self._last or now >= self._written_at + SAME_FOR:
            self._instance.store.boards.put(*board)
            self._last, self._written_at = board, now
        if now >= self._swept_at + SWEEP_EVERY:
            self._instance.store.boards.sweep()
            self._swept_at = now
        return WATCHED_EVERY if self.is_watched else None

    def facts(self) -> dict[str, Any]:
        """The board as it is now."""
        work, settings, locks = self._workload.facts(), self._settings, self._locks
        held, report, stats = self._pressure.held, self._report(), self._stats()
        return {
            "state": report.state,
            "phases": {
                name: {
                    "size": size,
                    "busy": pool.busy,
                    "error": len(pool.in_error),
                    "queue": waiting,
                    **_held_back(held.get(name)),
                }
                for name, (pool, size, waiting) in work.phases.items()
            },
            "max_concurrent_calls": settings.max_concurrent_calls,
            "running": work.running,
            "full": work.is_full,
            "isolated": work.isolated,
            "isolated_waiting": list(work.suspects),
            "lock_refused": {} if locks is None else locks.refused(3 * settings.heartbeat),
            "lock_fault": locks is not None and locks.is_away,
            "quiet": settings.quiet,
            "degraded": self._degraded(report),
            "counters": dict(stats.shared()),
            "waits": {
                name: {"counts": phase.queue.counts, "ms": round(phase.queue.sum_ms)}
                for name, phase in stats.phases.items()
                if phase.queue.count
            },
            "processors": self._processors(),
        }

    def _degraded(self, report: EngineReport) -> list[dict[str, str]]:
        """The faults that the board before had, too: at its start an instance does not listen yet, and one refused connection is no fault."""
        faults = {one.name: one for one in health.faults(report)}
        lasting, self._faults = self._faults & faults.keys(), faults.keys()
        return [
            {"part": name, "state": one.state, "seen": one.seen, "advice": one.advice}
            for name, one in faults.items()
            if name in lasting
        ]

    def _processors(self) -> list[dict[str, str | None]]:
        now = time.monotonic()
        busy = [
            # By the second, so that a board that says the same is the same text.
            {"name": name, "state": state, "job": job, "since": self._time(now - seconds)}
            for name, state, job, seconds in self._workload.processors()
            if state != "idle"
        ]
        return busy[:MOST_PROCESSORS]

    def _time(self, monotonic: float) -> str:
        return (self._began + timedelta(seconds=round(monotonic, 1))).isoformat(timespec="seconds")


def _held_back(full: FullPhase | None) -> Mapping[str, Any]:
    if full is None:
        return {}
    return {"held": {"next": full.name, "queued": full.queued, "most": full.most}}
