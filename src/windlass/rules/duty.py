"""Flags the jobs of kinds that have new rules, in the background."""

from __future__ import annotations

import time

from windlass.rules.store import Rules
from windlass.store.feature import Agenda

SOONEST = 0.1
"""Seconds until the second scan, when the first one met locked jobs."""


class CatchUp:
    """Scans the jobs of kinds that have new rules. A scan that met locked jobs is repeated: soon, then less and less often, and never in less
    than twice the time that it took."""

    def __init__(self, rules: Rules, *, every: float) -> None:
        self._rules = rules
        self._every = every
        self._pause, self._next_at = SOONEST, 0.0

    def run(self, agenda: Agenda) -> float:
        """Scan, if it is time; returns the seconds until the next scan."""
        if not agenda.has("new_kinds"):
            self._pause, self._next_at = SOONEST, 0.0
            return self._every
        began = time.monotonic()
        if began >= self._next_at:
            self._rules.catch_up()
            ended = time.monotonic()
            self._next_at = ended + max(self._pause, 2 * (ended - began))
            self._pause = min(2 * self._pause, self._every)
        return self._next_at - time.monotonic()
