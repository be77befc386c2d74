"""Detects that no work is left: for workers that end then, and for tests."""

from __future__ import annotations

import time

from windlass.engine.engine import Engine
from windlass.errors import StoreUnreachableError
from windlass.features import Store
from windlass.model import Counts
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.store.feature import features

HORIZON = 60.0


class Drain:
    """Checks this instance first, and reads the database only when the instance holds no job."""

    def __init__(self, engine: Engine, store: Store, *, horizon: float = HORIZON) -> None:
        self._engine = engine
        self._store = store
        self._horizon = horizon
        self._reported: set[str] = set()

    def is_over(self) -> bool:
        """Whether no job of the phases served here is queued, running (here or elsewhere), about to be admitted, or due within the
        horizon. Jobs that no instance serves are not waited for; the log names them."""
        if not self._engine.is_idle:
            return False
        try:
            return self._is_over()
        except StoreUnreachableError:
            return False  # the engine logs it, and continues when the database is back

    def _is_over(self) -> bool:
        # First the work that fills queues, then the queues: a job that moves between the two reads is seen by one of them.
        agenda = self._store.upkeep.agenda()
        counts = self._store.phases.counts()
        self._report_paused({phase: counts[phase].queued for phase in self._engine.phases if phase in counts})
        ours = [counts.get(phase, Counts()) for phase in self._engine.phases]
        if any(count.queued or count.processing for count in ours):
            return False
        has_waiting = any(count.waiting for count in ours)
        if any(feature.will_queue(agenda, has_waiting=has_waiting) for feature in features()):
            return False
        # None: the job was scheduled between the two reads.
        if any(count.scheduled for count in ours) and (
            agenda.due_in is None or agenda.due_in <= self._horizon
        ):
            return False
        self._engine.report_unserved()
        return True

    def _report_paused(self, queued: dict[str, int]) -> None:
        """Log once for each paused phase that the drain waits for its jobs, which cannot be claimed."""
        if not any(count and phase not in self._reported for phase, count in queued.items()):
            return
        for pause in self._store.phases.paused():
            if queued.get(pause.phase) and pause.phase not in self._reported:
                self._reported.add(pause.phase)
                ends = f"until {pause.until:%Y-%m-%d %H:%M:%S} UTC" if pause.until else "until it is resumed"
                count = queued[pause.phase]
                emit(events.DRAIN_HELD_UP, ends, phase=pause.phase, queued=count, reason=pause.reason)

    def wait(self, timeout: float = 60.0, every: float = 0.02) -> bool:
        """Wait until no work is left; False when the time ran out."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.is_over():
                return True
            time.sleep(every)
        return False
