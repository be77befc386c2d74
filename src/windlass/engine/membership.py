"""Being an instance without an engine: a lease with a heartbeat for jobs that are run in the caller's own threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from windlass.engine.heartbeat import Heartbeat
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.engine.stats import Stats
from windlass.features import Store
from windlass.observe.report import EngineReport
from windlass.settings import Settings
from windlass.store.jobs.holder import CancelAsked, Holder


class Membership:
    """Joins when it is first needed, and renews its lease until it is closed. ``running`` are the jobs to stop when that is lost."""

    def __init__(
        self, store: Store, settings: Settings, stats: Stats, degraded: Callable[[], Iterable[str]]
    ) -> None:
        self.running: dict[str, RunningAttempt] = {}
        self._store = store
        self._settings = settings
        self._stats = stats
        self._degraded = degraded
        self._lock = threading.Lock()
        self._heartbeat: Heartbeat | None = None
        self._started_at = datetime.now(UTC)
        self._is_closed = False

    @property
    def holder(self) -> Holder:
        """What claims and records in this instance's name."""
        with self._lock:
            if self._heartbeat is None:
                lease = timedelta(seconds=self._settings.lease)
                self._heartbeat = Heartbeat(
                    join=lambda: self._store.join(lease=lease, info={"requests": True}),
                    settings=self._settings,
                    stats=self._stats,
                    on_cancelled=self._cancelled,
                    on_lost=lambda why: self._stop_all(Stop.LEASE_LOST),
                    on_good=lambda is_new: None,
                )
                self._heartbeat.start()
            return self._heartbeat.holder

    def report(self) -> EngineReport:
        """How it is doing, for health and metrics. Before the first job there is no lease to lose."""
        heartbeat = self._heartbeat
        left = heartbeat.left if heartbeat is not None else self._settings.lease
        return EngineReport(
            instance=heartbeat.holder.id if heartbeat is not None else "",
            started_at=self._started_at,
            state="stopped" if self._is_closed else "running",
            lease_left=left,
            last_step_seconds_ago=0.0,
            store_reachable=left > 0,
            listening=True,
            degraded=list(self._degraded()),
        )

    def _cancelled(self, asked: Iterable[CancelAsked]) -> None:
        for job, token in asked:
            running = self.running.get(job)
            if running is not None and running.lease.token == token:
                _stop(running, Stop.CANCELLED)

    def _stop_all(self, reason: Stop) -> None:
        for running in list(self.running.values()):
            _stop(running, reason)

    def close(self) -> None:
        """Stop what runs and leave."""
        self._is_closed = True
        self._stop_all(Stop.SHUTDOWN)
        with self._lock:
            heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.stop()
            heartbeat.holder.step()
            heartbeat.holder.leave()


def _stop(running: RunningAttempt, reason: Stop) -> None:
    running.stop = reason
    if running.context is not None:
        running.context.ask_to_stop()
