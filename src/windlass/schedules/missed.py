"""Decides which missed due times get a job.

A tick that fires within ``GRACE`` of its due time is late at most; it gets its job under every policy. Older ones were
missed: no instance ran. The policy is about those.

    skip    none of them gets a job
    once    one job makes up for all: that of the first tick that is not missed, or else of the last one that is
    all     each gets its job, oldest first, as far as the cap goes; the others are skipped
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice

from windlass.model import Missed
from windlass.schedules.cron import SECOND
from windlass.schedules.times import Times

GRACE = timedelta(seconds=10)
MOST_COUNTED = 1000
"""Missed ticks that get no job are counted up to here: a schedule of every second, down for a day, has 86,400."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Due:
    """The ticks that get a job, each with how many due times it stands for; how many get none; when the next one is due."""

    ticks: list[tuple[datetime, int]]
    skipped: int
    is_capped: bool
    next_at: datetime


def due(times: Times, missed: Missed, cap: int, first: datetime, now: datetime) -> Due:
    """The due ticks of a schedule whose first unfired tick is ``first``, at ``now``."""
    following = times.next_after(now)
    edge = now - GRACE
    if first >= edge:
        late = [first, *times.between(first, now)]
        return Due([(at, 1) for at in late], 0, False, following)
    late = list(times.between(edge - _INSTANT, now))
    most = MOST_COUNTED + (cap if missed is Missed.ALL else 0)
    count = sum(1 for _ in islice(_missed(times, first, edge), most))
    match missed:
        case Missed.SKIP:
            return Due([(at, 1) for at in late], count, False, following)
        case Missed.ONCE:
            if not late:
                last = times.latest(first - SECOND, edge - _INSTANT) or first
                return Due([(last, count)], count - 1, False, following)
            return Due([(late[0], count + 1), *((at, 1) for at in late[1:])], count, False, following)
        case Missed.ALL:
            made_up = islice(_missed(times, first, edge), cap)
            ticks = [(at, 1) for at in chain(made_up, late)]
            return Due(ticks, max(0, count - cap), count > cap, following)


def _missed(times: Times, first: datetime, edge: datetime) -> Iterator[datetime]:
    yield first
    yield from times.between(first, edge - _INSTANT)
