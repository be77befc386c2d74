"""The report of one instance, for health and metrics: collected from the parts of its engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from windlass.engine.duties import Duties
from windlass.engine.executors.choice import Executors
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.job_locks import JobLocks
from windlass.engine.listener import Listening
from windlass.engine.step import Stepper
from windlass.engine.watchdog import Watchdog
from windlass.engine.workload import Workload
from windlass.features import Store
from windlass.observe import events
from windlass.observe.report import EngineReport, PhaseReport
from windlass.settings import Settings
from windlass.upkeep.troubles import Troubles


@dataclass(frozen=True, slots=True)
class Reporter:
    """Asks the parts of an engine; the parts belong to one start."""

    store: Store
    settings: Settings
    workload: Workload
    heartbeat: Heartbeat
    stepper: Stepper
    listening: Listening
    executors: Executors
    watchdog: Watchdog
    duties: Duties
    troubles: Troubles
    locks: JobLocks | None
    degraded: Callable[[], Iterable[str]]
    started_at: datetime

    def report(self, instance: str, state: str) -> EngineReport:
        """The report of the instance with this id, in this state of the engine."""
        has_begun = state != "starting"
        return EngineReport(
            instance=instance if has_begun else "",
            started_at=self.started_at,
            state=state,
            phases={
                name: PhaseReport(pool.idle, pool.busy, len(pool.in_error), waiting, list(pool.in_error))
                for name, (pool, waiting) in self.workload.report().items()
            },
            lease_left=self.heartbeat.left if has_begun else 0.0,
            last_step_seconds_ago=time.monotonic() - self.stepper.stepped_at if has_begun else 0.0,
            step_limit=max(90.0, 3 * self.settings.scan),
            store_reachable=has_begun and self.stepper.is_reachable,
            listening=has_begun and self.listening.is_listening,
            degraded=[*self.degraded(), *(self._faults() if has_begun else ())],
            lock_fault=self.locks.fault if self.locks else "",
            notes=self.duties.history.notes(),
            loop_lag=self.watchdog.loop_lag,
            loop_limit=self.settings.blocked_after,
        )

    def _faults(self) -> Iterator[str]:
        """Faults of the parts, one line each."""
        if not self.stepper.is_reachable:
            yield "store: the database does not answer or refuses writes; outcomes wait in memory"
        if self.listening.is_missing:
            yield "listener: no notifications; polling instead"
        if not self.heartbeat.has_lease:
            yield "lease: not renewed in time; no jobs are claimed"
        for name, count in self.duties.unserved.phases.items():
            yield f"phase {name}: {events.jobs_wait(count)}, and no instance serves it"
        for name, reason in self.executors.faults():
            yield f"executor {name}: {reason}"
        yield from self.troubles.lines()
        yield from self.duties.history.lines()
        for name, reason in self.store.schedules.left().items():
            yield f"schedule {name}: {reason}"
        if self.watchdog.loop_lag >= self.settings.blocked_after:
            yield "loop: a handler blocks the event loop"
