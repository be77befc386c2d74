"""An instance without an engine: a lease with a heartbeat, for jobs that run in the caller's own threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from windlass.engine.heartbeat import Heartbeat
from windlass.engine.instance import Instance
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.engine.stats import Stats
from windlass.features import Store
from windlass.observe.report import EngineReport
from windlass.settings import Settings
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.holder_results import CancelRequest


class Membership:
    """Joins when it is first needed, and renews its lease until it is closed. ``running`` has the jobs to stop when the lease is lost."""

    def __init__(
        self, store: Store, settings: Settings, stats: Stats, degraded: Callable[[], Iterable[str]]
    ) -> None:
        self.running: dict[str, RunningAttempt] = {}
        self._settings = settings
        self._stats = stats
        self._degraded = degraded
        self._lock = threading.Lock()
        self._instance = Instance(store, settings.lease, {"requests": True})
        self._heartbeat = Heartbeat(
            self._instance,
            settings,
            stats,
            on_cancelled=self._cancelled,
            on_lost=lambda why: self._stop_all(Stop.LEASE_LOST),
            on_good=lambda is_restored: None,
        )
        self._started_at = datetime.now(UTC)
        self._is_closed = False

    @property
    def store(self) -> Store:
        return self._instance.store

    @property
    def holder(self) -> Holder:
        """The holder that claims and records for this instance."""
        with self._lock:
            if not self._instance.id:
                self._heartbeat.join()
                self._heartbeat.start()
            return self._instance.holder

    def report(self) -> EngineReport:
        """The state of this instance, for health and metrics. Before the first job it has no lease to lose."""
        has_lease = bool(self._instance.id) and not self._is_closed
        left = self._heartbeat.left if has_lease else self._settings.lease
        return EngineReport(
            instance=self._instance.id,
            started_at=self._started_at,
            state="stopped" if self._is_closed else "running",
            lease_left=left,
            last_step_seconds_ago=0.0,
            store_reachable=left > 0,
            listening=True,
            degraded=list(self._degraded()),
        )

    def _cancelled(self, asked: Iterable[CancelRequest]) -> None:
        for job, token in asked:
            running = self.running.get(job)
            if running is not None and running.lease.token == token:
                _stop(running, Stop.CANCELLED)

    def _stop_all(self, reason: Stop) -> None:
        for running in list(self.running.values()):
            _stop(running, reason)

    def close(self) -> None:
        """Stop running jobs and leave."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._stop_all(Stop.SHUTDOWN)
        if self._instance.id:
            self._heartbeat.stop()
            self._instance.holder.step()
            self._instance.holder.leave()


def _stop(running: RunningAttempt, reason: Stop) -> None:
    running.stop = reason
    if running.context is not None:
        running.context.ask_to_stop()
