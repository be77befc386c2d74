"""Reads in one statement which duties have something to do, and runs those.

The duties: recover jobs of dead instances, move due jobs into their queues, fold counts, and the duties of the features (link children,
admit limited jobs, flag jobs of kinds that have new rules). A duty that fails does not stop the others. The ticker is notified of the next
tick of a schedule, the board of people who watch. An instance with nothing to do reads one row every few seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from windlass.features import Store
from windlass.store.feature import FeatureDuty, features
from windlass.store.jobs.upkeep import AgendaItems
from windlass.upkeep.recoverer import Recoverer
from windlass.upkeep.troubles import Troubles

LIMIT = 1000
FOLD_EVERY = 2.0
SPREAD = 0.25  # seconds over which the instances of a fleet check a lease that may have run out


class Agenda:
    """The recurring duties of an instance."""

    def __init__(
        self,
        store: Store,
        recoverer: Recoverer,
        *,
        every: float,
        on_promoted: Callable[[str, int], None],
        on_tick: Callable[[float], None] = lambda _seconds: None,
        on_resumed: Callable[[], None] = lambda: None,
        on_operations: Callable[[], None] = lambda: None,
        on_requests: Callable[[], None] = lambda: None,
        on_watched: Callable[[float], None] = lambda _seconds: None,
        troubles: Troubles | None = None,
    ) -> None:
        self._store = store
        self._recoverer = recoverer
        self._every = every
        self._on_promoted = on_promoted
        self._on_tick = on_tick
        self._on_resumed = on_resumed
        self._on_operations = on_operations
        self._on_requests = on_requests
        self._on_watched = on_watched
        self._do = (troubles or Troubles()).attempt
        self._resumed_at: float | None = None
        self._folded_at = 0.0
        self._features = [
            duty for feature in features() for duty in feature.duties(store.db, store.enqueuer, every)
        ]

    def run(self) -> float:
        """Run every duty that is due; returns the seconds until there is more, as far as is known."""
        read_at = time.monotonic()
        agenda = self._store.upkeep.agenda(own=self._recoverer.own)
        due_in, expires_in = agenda.due_in, agenda.expires_in
        self._resume(agenda.resumed_at)
        if (tick_in := agenda.features["tick_in"]) is not None:
            self._on_tick(max(0.0, tick_in))
        if agenda.has("operations"):
            self._on_operations()
        if agenda.has("requests"):
            self._on_requests()
        if (watched_for := agenda.seconds("watched_for")) is not None and watched_for > 0:
            self._on_watched(watched_for)
        # First: no other duty takes over what a dead instance held.
        self._do("recovery", agenda.has_dead, self._recoverer.run)
        if self._do("promotion", due_in is not None and due_in <= 0, self._promote):
            agenda = self._store.upkeep.agenda(own=self._recoverer.own)
            due_in = agenda.due_in
        elif due_in is not None and due_in <= 0:
            due_in = None  # it failed: no sooner than the rest
        wanted = [self._run(duty, agenda) for duty in self._features if not duty.is_long]
        if agenda.has_counts and time.monotonic() - self._folded_at >= FOLD_EVERY:
            self._folded_at = time.monotonic()
            self._do("counts", True, self._store.upkeep.fold)
        wanted += [self._run(duty, agenda) for duty in self._features if duty.is_long]
        times = [seconds for seconds in (due_in, agenda.resume_in, *wanted) if seconds is not None]
        if (
            expires_in is not None
        ):  # the timer is the safety net: recovery is due when the next lease can have run out
            times.append(expires_in + SPREAD * random.random() - (time.monotonic() - read_at))
        return max(0.0, min([self._every, *times]))

    def _run(self, duty: FeatureDuty, agenda: AgendaItems) -> float | None:
        return self._do(duty.name, duty.is_due(agenda), lambda: duty.run(agenda))

    def _resume(self, resumed_at: float | None) -> None:
        """Have all queues scanned when a pause with an end is over: nothing else notifies of that.

        The database says which pause ended last, because a short pause can begin and end between two reads of the agenda.
        """
        if resumed_at is not None and resumed_at != self._resumed_at:
            self._on_resumed()
        self._resumed_at = resumed_at

    def _promote(self) -> bool:
        while True:
            moved = self._store.upkeep.promote(LIMIT)
            for phase, count in moved.items():
                self._on_promoted(phase, count)
            if sum(moved.values()) < LIMIT:
                return True
