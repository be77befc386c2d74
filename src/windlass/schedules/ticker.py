"""Creates the jobs of schedules whose ticks are due.

The engine runs this duty on a thread of its own: other duties may take longer than a tick may be late. The thread sleeps until the
next tick by the database's clock. The agenda, which every instance reads anyway, says when the next tick is, and so does a scan
after each tick; without schedules the ticker sends no statement. Every instance fires: the instance that locks a schedule first
creates the jobs of the tick, and the others find the schedule moved on.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from windlass.model import Fired
from windlass.schedules.store import Schedules

LIMIT = 100
AGAIN = 0.02
"""Seconds to wait while another instance has locked a due schedule: it is about to commit, or its process died."""

PRUNE_EVERY = 600.0


class Ticker:
    """Fires due schedules, a page at a time."""

    def __init__(
        self,
        schedules: Schedules,
        *,
        on_fired: Callable[[Fired], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schedules = schedules
        self._on_fired = on_fired
        self._monotonic = monotonic
        self._prune_at = monotonic() + PRUNE_EVERY

    def run(self) -> float | None:
        """Fire what is due, a page of it; returns the seconds until there is more, None when no schedule fires."""
        fired = self._schedules.fire_due(LIMIT)
        for item in fired:
            self._on_fired(item)
        if fired and self._monotonic() >= self._prune_at:
            self._prune_at = self._monotonic() + PRUNE_EVERY
            self._schedules.prune_ticks()
        tick_in = self._schedules.tick_in()
        return None if tick_in is None else max(tick_in, 0.0 if fired else AGAIN)
