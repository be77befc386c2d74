"""Admits limited jobs to their queues: those that were parked just now, those that a phase's rate allows, and those that were missed.

The transaction that ends a job that has a place admits the next one. This duty does the rest: jobs that came since, buckets that filled,
free places that were not given (the safety net), and jobs whose priority rises with waiting. Every instance does this, and without limits
it costs nothing: the agenda's one read says whether there is anything to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from windlass.limits.store import Limits
from windlass.observe.logger import get_logger
from windlass.store.feature import Agenda

log = get_logger("windlass.upkeep")

FOREVER = float("inf")


class LimitsDuty:
    """A part of the agenda. ``every`` is how often counts are checked and waiting jobs rise."""

    def __init__(
        self, limits: Limits, *, every: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._every = every
        self._monotonic = monotonic
        self._check_at = float("-inf")

    def run(self, agenda: Agenda) -> float:
        """Admit the jobs that can be; returns the seconds until there may be more."""
        began = self._monotonic()
        wait = self._limits.let_in() if agenda.has("parked") or agenda.has("paced") else None
        if agenda.has("flowing") and self._monotonic() >= self._check_at:
            self._check_at = self._monotonic() + self._every
            self._limits.mend()
            self._limits.age()
        return (
            FOREVER if wait is None else max(0.0, wait - (self._monotonic() - began))
        )  # buckets fill meanwhile
