"""Whether there is anything left to do: for workers that end when there is not, and for tests."""

from __future__ import annotations

import time

from windlass.engine.engine import Engine
from windlass.errors import StoreUnreachableError
from windlass.features import Store
from windlass.model import Counts
from windlass.observe import events
from windlass.observe.emit import emit

HORIZON = 60.0


class Drain:
    """Looks at what this instance holds first, and asks the database only when that is nothing."""

    def __init__(self, engine: Engine, store: Store, *, horizon: float = HORIZON) -> None:
        self._engine = engine
        self._store = store
        self._horizon = horizon
        self._told: set[str] = set()

    def is_over(self) -> bool:
        """Whether no job of the phases served here is queued, running (here or elsewhere), about to be let in, or due within the
        horizon. Jobs that nobody serves are not waited for, and the log says so."""
        if not self._engine.is_idle:
            return False
        try:
            return self._is_over()
        except StoreUnreachableError:
            return False  # the engine says so, and goes on when it is back

    def _is_over(self) -> bool:
        # First what leads into the queues, then the queues: a job that moves between the two reads is seen by one of them.
        agenda = self._store.upkeep.agenda()
        counts = self._store.phases.counts()
        self._tell_paused({phase: counts[phase].queued for phase in self._engine.phases if phase in counts})
        ours = [counts.get(phase, Counts()) for phase in self._engine.phases]
        if (
            any(count.queued or count.processing for count in ours)
            or agenda.has("unlinked")
            or agenda.has("settling")
        ):
            return False
        if (agenda.has("parked") or agenda.has("paced")) and any(count.waiting for count in ours):
            return False
        # None: it came between the two reads.
        if any(count.scheduled for count in ours) and (
            agenda.due_in is None or agenda.due_in <= self._horizon
        ):
            return False
        self._engine.tell_unserved()
        return True

    def _tell_paused(self, queued: dict[str, int]) -> None:
        """Say once of each phase that its jobs are waited for though nobody may claim them."""
        if not any(count and phase not in self._told for phase, count in queued.items()):
            return
        for pause in self._store.phases.paused():
            if queued.get(pause.phase) and pause.phase not in self._told:
                self._told.add(pause.phase)
                ends = f"until {pause.until:%Y-%m-%d %H:%M:%S} UTC" if pause.until else "until it is resumed"
                count = queued[pause.phase]
                emit(events.DRAIN_HELD_UP, ends, phase=pause.phase, queued=count, reason=pause.reason)

    def wait(self, timeout: float = 60.0, every: float = 0.02) -> bool:
        """Wait until it is over; False when the time ran out."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.is_over():
                return True
            time.sleep(every)
        return False
