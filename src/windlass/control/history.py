"""Statistics over time for charts: minutes, hours and days, for each phase."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from windlass.control.given import check_texts
from windlass.control.noun import Noun, off_loop
from windlass.control.system_views import HistoryPoint as HistoryPoint
from windlass.errors import ConfigError
from windlass.model import Rollup
from windlass.observe.report import BOUNDS_MS
from windlass.ranges import is_time

MINUTE, HOUR, DAY = 60, 3600, 86_400
MOST_POINTS = 5000
"""How many points one call returns at most for one phase."""
MOST_OF_ALL = 1000
"""How many points one call returns at most for each phase, if it reads all phases: 16 hours of minutes, 41 days of hours. A chart shows no more,
and with ten phases the call takes less than 100 ms."""
Percentiles = tuple[float | None, float | None]
_UPPER = (*map(float, BOUNDS_MS), float(BOUNDS_MS[-1]))
"""The upper bound of each bucket."""


class HistoryControl(Noun):
    """Reads statistics over time."""

    def read(
        self,
        *,
        since: datetime,
        until: datetime | None = None,
        phase: str | None = None,
        step: int = MINUTE,
    ) -> Sequence[HistoryPoint]:
        """The points that began at ``since`` or later, and before ``until``, in order. ``step`` is 60, 3600 or 86400 seconds; minutes are kept
        for ``worker.rollup_days``, hours for 90 days, days for two years."""
        self._actor.require_all("read the statistics of phases")
        if step not in (MINUTE, HOUR, DAY):
            raise ConfigError("step", step, f"{MINUTE}, {HOUR} or {DAY} seconds")
        check_texts(phase=phase)
        end = self._store.now() if until is None else until
        for name, given in (("since", since), ("until", end)):
            if not is_time(given):
                raise ConfigError(name, given, "a time with a time zone")
        most = MOST_OF_ALL if phase is None else MOST_POINTS
        if (end - since) / timedelta(seconds=step) > most:
            cure = "use a larger step" + (", or name a phase" if phase is None else "")
            raise ConfigError("since", since.isoformat(), f"at most {most} points of {step} s; {cure}")
        if since >= end:
            return []
        rollups = self._store.rollups
        if step == MINUTE:
            rows = rollups.each(since=since, until=until, phase=phase)
        else:
            rows = rollups.each_span(step, since=since, until=end, phase=phase)
        return _points(rows, step)

    read_async = off_loop(read)


def _points(rows: Iterable[Rollup], seconds: int) -> Sequence[HistoryPoint]:
    """A chart has tens of thousands of histograms: of those that are equal, the percentiles are found once."""
    known: dict[Sequence[int], Percentiles] = {}
    points = []
    for row in rows:
        at, phase, completed, failed, retried, cancelled, released, wait, run, *_ = row
        if (waited := known.get(wait)) is None:
            waited = known[wait] = _percentiles(wait)
        if (ran := known.get(run)) is None:
            ran = known[run] = _percentiles(run)
        points.append(
            HistoryPoint(at, seconds, phase, completed, failed, retried, cancelled, released, *waited, *ran)
        )
    return points


def _percentiles(counts: Sequence[int]) -> Percentiles:
    """The upper bounds of the buckets in which 50 % and 95 % of all values are reached; the last bucket has none, so its lower bound."""
    reached = [*accumulate(counts)]
    if not reached or not reached[-1]:
        return None, None
    count = reached[-1]
    return _UPPER[bisect_left(reached, (count + 1) // 2)], _UPPER[
        bisect_left(reached, (19 * count + 19) // 20)
    ]
