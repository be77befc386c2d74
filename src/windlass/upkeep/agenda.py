"""Reads in one statement which duties have something to do, and runs those.

The duties: recover jobs of dead instances, move due jobs into their queues, link children to their parents, let limited jobs in, fold
counts, and flag jobs of kinds that have new rules. A duty that fails does not stop the others. The ticker is told when the next tick of a
schedule is due. An instance with nothing to do reads one row every few seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from windlass.features import Store
from windlass.limits.duty import LimitsDuty
from windlass.upkeep.recoverer import Recoverer
from windlass.upkeep.troubles import Troubles

LIMIT = 1000
FOLD_EVERY = 2.0
SOONEST_LOOK = 0.1
SPREAD = 0.25  # seconds over which the instances of a fleet come to look at a lease that may have run out


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
        troubles: Troubles | None = None,
    ) -> None:
        self._store = store
        self._recoverer = recoverer
        self._every = every
        self._on_promoted = on_promoted
        self._on_tick = on_tick
        self._on_resumed = on_resumed
        self._do = (troubles or Troubles()).attempt
        self._resumes_at: float | None = None
        self._folded_at = 0.0
        self._look_pause, self._look_at = SOONEST_LOOK, 0.0
        self._limits_duty = LimitsDuty(store.limits, every=every)

    def run(self) -> float:
        """See to everything that is due; seconds until there is more, as far as is known."""
        looked = time.monotonic()
        agenda = self._store.upkeep.agenda()
        due_in, expires_in = agenda.due_in, agenda.expires_in
        self._resume(agenda.resume_in)
        if agenda.tick_in is not None:
            self._on_tick(max(0.0, agenda.tick_in))
        # First: nobody else takes over what a dead instance held.
        self._do("recovery", agenda.has_dead, self._recoverer.run)
        if self._do("promotion", due_in is not None and due_in <= 0, self._promote):
            agenda = self._store.upkeep.agenda()
            due_in = agenda.due_in
        elif due_in is not None and due_in <= 0:
            due_in = None  # it failed: no sooner than the rest
        self._do("links", agenda.has_unlinked, self._store.dependencies.link)
        if self._do("dependents", agenda.has_settling, self._store.dependencies.settle):
            due_in = 0.0  # there is more
        let_in = self._do("limits", True, lambda: self._limits_duty.run(agenda))
        if agenda.has_counts and time.monotonic() - self._folded_at >= FOLD_EVERY:
            self._folded_at = time.monotonic()
            self._do("counts", True, self._store.upkeep.fold)
        # Last: it may take long.
        look_in = self._do("rules", True, lambda: self._look(agenda.has_new_kinds))
        times = [seconds for seconds in (due_in, agenda.resume_in, let_in, look_in) if seconds is not None]
        if (
            expires_in is not None
        ):  # the timer is the net: recovery is due when the next lease can have run out
            times.append(expires_in + SPREAD * random.random() - (time.monotonic() - looked))
        return max(0.0, min([self._every, *times]))

    def _look(self, has_new_kinds: bool) -> float:
        """Have jobs of kinds that have got rules told of it. A look may have met locked ones and come back: soon, then less and less often,
        and never in less than twice the time that it took, however often there is something else to see to."""
        if not has_new_kinds:
            self._look_pause, self._look_at = SOONEST_LOOK, 0.0
            return self._every
        began = time.monotonic()
        if began >= self._look_at:
            self._store.rules.catch_up()
            ended = time.monotonic()
            self._look_at = ended + max(self._look_pause, 2 * (ended - began))
            self._look_pause = min(2 * self._look_pause, self._every)
        return self._look_at - time.monotonic()

    def _resume(self, resume_in: float | None) -> None:
        """Have all queues looked at when a pause is over that had an end: nobody else says so."""
        if self._resumes_at is not None and time.monotonic() >= self._resumes_at:
            self._on_resumed()
        self._resumes_at = None if resume_in is None else time.monotonic() + resume_in

    def _promote(self) -> bool:
        while True:
            moved = self._store.upkeep.promote(LIMIT)
            for phase, count in moved.items():
                self._on_promoted(phase, count)
            if sum(moved.values()) < LIMIT:
                return True
