"""Enforces time limits and the lease, and detects jobs that do not stop and a blocked event loop. Never uses the database.

In a process of the worker command it also adapts the switch interval of the interpreter to what runs (``tuning.py``).

Time limits are checked in one pass over the busy processors, several times a second, without a timer per job. A lease that could not be
renewed ends here by the local monotonic clock, a margin before it ends in the database, even when the heartbeat hangs in a call to a
frozen server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from windlass.engine.executors.choice import Executors
from windlass.engine.executors.loop import LoopExecutor
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.running_attempt import OVERDUE, RunningAttempt, Stop
from windlass.engine.stats import Stats
from windlass.engine.stopper import Stopper
from windlass.engine.tuning import SwitchInterval
from windlass.engine.workload import Workload
from windlass.handlers.registry import Phase
from windlass.observe import events
from windlass.observe.logger import get_logger, thread
from windlass.settings import Settings

log = get_logger("windlass.engine")

LONGEST_TICK, SHORTEST_TICK = 0.25, 0.02
# A cancelled job may run for the rest of its time limit.
_FORCED = (*OVERDUE, Stop.LEASE_LOST, Stop.NOT_BEGUN)


class Watchdog:
    """Owns the watchdog thread."""

    def __init__(
        self,
        phases: Mapping[str, Phase],
        settings: Settings,
        stats: Stats,
        workload: Workload,
        executors: Executors,
        heartbeat: Heartbeat,
        stopper: Stopper,
    ) -> None:
        self._workload = workload
        self._executors = executors
        self._heartbeat = heartbeat
        self._stopper = stopper
        self._settings = settings
        self._stats = stats
        limits = [phase.timeout for phase in phases.values() if phase.timeout]
        self._totals = {name: limit for name, phase in phases.items() if (limit := phase.total_timeout)}
        shortest = min(
            [
                *limits,
                *self._totals.values(),
                settings.cancel_grace or LONGEST_TICK,
                settings.lease - settings.margin,
            ]
        )
        self._tick = max(SHORTEST_TICK, min(LONGEST_TICK, shortest / 5))
        self._pong: threading.Event | None = None
        self._pinged_at = 0.0
        self._is_blocked = False
        self.loop_lag = 0.0
        self._interval = SwitchInterval(0, time.monotonic())
        self._over = threading.Event()
        self._thread = thread(self._run, "windlass-watchdog")

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait: float = 5.0) -> None:
        self._over.set()
        self._thread.join(wait)

    def _run(self) -> None:
        while not self._over.wait(self._tick):
            try:
                self._check()
            except Exception:
                log.exception("unexpected error in the watchdog; it continues")

    def _check(self) -> None:
        now = time.monotonic()
        heartbeat = self._heartbeat
        if heartbeat.has_lease and heartbeat.left <= self._settings.margin:
            heartbeat.has_lease = False
            self._stopper.lease_over()
        stubborn = []
        for running in self._workload.running():
            limit = running.phase.timeout if running.phase else None
            is_late = limit is not None and now - running.processor.progress_at > limit
            total = self._exceeded_total(running, now) if self._totals else None
            if running.stop is None:
                if total is not None and running.phase is not None:
                    self._stats.count("time_limits")
                    events.overdue(running, total, running.phase.where, is_total=True)
                    self._stopper.stop(running, Stop.TOTAL_TIME_LIMIT)
                elif is_late and running.begun and running.phase is not None and limit is not None:
                    self._stats.count("time_limits")
                    events.overdue(running, limit, running.phase.where)
                    self._stopper.stop(running, Stop.TIME_LIMIT)
                elif is_late:  # not the job's fault: another instance may have a place for it
                    self._stopper.stop(running, Stop.NOT_BEGUN)
            elif (
                is_late or total is not None or running.stop in _FORCED
            ) and now - running.stopped > self._settings.cancel_grace:
                stubborn.append(running)
        if stubborn:
            self._stopper.give_up(stubborn)
        self._executors.catch_up()
        self._interval.follow(self._executors.busy_threads, self._stats.ended, now)
        if self._executors.loop is not None:
            self._check_loop(self._executors.loop, now)

    def _exceeded_total(self, running: RunningAttempt, now: float) -> float | None:
        """The total time limit of a job, if the job has exceeded it. The time before the job begins does not count."""
        limit = self._totals.get(running.lease.phase)
        if limit is None:
            return None
        if not running.begun:
            running.counts_from = now
        return limit if now - running.counts_from > limit else None

    def _check_loop(self, loop: LoopExecutor, now: float) -> None:
        if self._pong is None:
            self._pong, self._pinged_at = threading.Event(), now
            loop.ping(self._pong)
            return
        lag = now - self._pinged_at
        if self._pong.is_set():
            self._pong = None
            self._is_blocked = False
            self.loop_lag = 0.0
            return
        self.loop_lag = lag
        if lag >= self._settings.blocked_after and not self._is_blocked:
            self._is_blocked = True  # report it once
            self._stats.count("loop_blocked")
            blocker, stack = loop.blocker()
            events.loop_blocked(blocker.lease if blocker else None, lag, stack)
