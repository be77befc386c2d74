"""Logs a summary every ten seconds, so that a busy instance is visible without a line per job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from windlass.observe import events
from windlass.observe.emit import emit
from windlass.observe.report import OUTCOMES, StatsReport

EVERY = 10.0
EARLY = 0.8  # a caller with an interval of ten seconds may be a little early
MAX_PHASES = 8


class Summary:
    """Call ``log`` often: it writes a line at most every ``every`` seconds, and only if jobs ended since."""

    def __init__(
        self,
        stats: Callable[[], StatsReport],
        waiting: Callable[[], Mapping[str, int]],
        *,
        every: float = EVERY,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stats = stats
        self._waiting = waiting
        self._every = every
        self._monotonic = monotonic
        self._logged_at = monotonic()
        self._logged: Mapping[str, int] = {}

    def log(self, *, is_last: bool = False) -> bool:
        """Write the line if it is due, or the last one; returns whether it was written."""
        now = self._monotonic()
        seconds = now - self._logged_at
        if seconds < self._every * EARLY and not is_last:
            return False
        report = self._stats()
        totals = {name: report.outcome(name) for name in OUTCOMES}
        done = {name: number - self._logged.get(name, 0) for name, number in totals.items()}
        self._logged_at, self._logged = now, totals
        if not any(done.values()):
            return False
        ended = done["completed"] + done["failed"] + done["cancelled"]
        rate = (ended + done["retried"] + done["advanced"]) / max(seconds, 0.001)
        waiting = {phase: number for phase, number in self._waiting().items() if number}
        emit(
            events.SUMMARY,
            f"{_counts(done)} in {seconds:.{0 if seconds >= 2 else 1}f} s; {rate:,.{0 if rate >= 10 else 1}f} jobs/s{_queues(waiting)}",
            seconds=round(seconds, 1),
            jobs_per_second=round(rate, 1),
            waiting=waiting,
            **dict[str, Any](done),
        )
        return True


def _counts(done: Mapping[str, int]) -> str:
    """The three most important outcomes, and the others if there were any."""
    always = ("completed", "retried", "failed")
    names = [*always, *(name for name in OUTCOMES if name not in always and done[name])]
    return ", ".join(f"{done[name]:,} {name}" for name in names)


def _queues(waiting: Mapping[str, int]) -> str:
    if not waiting:
        return ""
    longest = sorted(waiting.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{phase} {number:,}" for phase, number in longest[:MAX_PHASES])
    more = f" and {len(longest) - MAX_PHASES} more" if len(longest) > MAX_PHASES else ""
    return f"; queue {listed}{more}"
