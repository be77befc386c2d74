"""Fires schedules when their ticks are due, on a thread of its own: other duties may take longer than a tick may be late.

It sleeps until the next tick by the database's clock. When that is it is told by the agenda, which every instance reads anyway, and
by its own look after it fired; so without schedules it asks the database nothing. Every instance fires: whoever locks a schedule
first has its tick, and the others find it moved on.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from windlass.model import Fired
from windlass.store import Store
from windlass.upkeep.caretaker import Caretaker, Duty
from windlass.upkeep.troubles import Troubles

LIMIT = 100
AGAIN = 0.02
"""Something is due and somebody else has it: its commit is on its way, or its process died."""

PRUNE_EVERY = 600.0
NEVER = 1e9
_DUTY = "tick"


class Ticker:
    """Owns the ticker thread."""

    def __init__(
        self,
        store: Store,
        *,
        on_fired: Callable[[Fired], None],
        monotonic: Callable[[], float] = time.monotonic,
        troubles: Troubles | None = None,
    ) -> None:
        self._store = store
        self._on_fired = on_fired
        self._monotonic = monotonic
        self._prune_at = monotonic() + PRUNE_EVERY
        self._caretaker = Caretaker(
            [Duty(_DUTY, self.run, NEVER, jitter=0.0)], "windlass-ticker", troubles=troubles
        )

    def start(self) -> None:
        self._caretaker.start()

    def stop(self, wait: float = 1.0) -> None:
        self._caretaker.stop(wait)

    def expect(self, seconds: float) -> None:
        """A tick is due in so many seconds; from any thread."""
        self._caretaker.ask(_DUTY, seconds)

    def run(self) -> float | None:
        """Fire what is due, a batch of it; seconds until there is more, None when no schedule fires."""
        fired = self._store.schedules.fire_due(LIMIT)
        for item in fired:
            self._on_fired(item)
        if fired and self._monotonic() >= self._prune_at:
            self._prune_at = self._monotonic() + PRUNE_EVERY
            self._store.schedules.prune_ticks()
        tick_in = self._store.schedules.tick_in()
        return None if tick_in is None else max(tick_in, 0.0 if fired else AGAIN)
