"""Low-water marks: where a scan of the queue's index may start.

While any session holds an old snapshot, PostgreSQL cannot remove the dead index entries of finished jobs, and every claim
that starts at the head of the queue walks over all of them: 33–57k jobs/s fell to 1.3k within a minute. So an instance
starts where its last scan ended. A mark is only a hint: rows can appear behind it (a commit that came late, a release, a
clock that went back), so

* a scan that came back short, or every 250 ms, starts one second behind the mark (at most 10 % of the time);
* a full scan from the beginning is the safety net that correctness depends on: every half second where it is cheap, and never
  more than 5 % of the time where it is not;
* a verb that puts a row back behind the marks says so, and the marks are forgotten (``nudge``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import Enum

from windlass.model import HIGHEST_PRIORITY

LANES = HIGHEST_PRIORITY + 1
"""A queue has one for each priority."""
FULL_EVERY = 0.5
FULL_SHARE = 20  # a full scan may take 1/20 of the time
RECENT_EVERY = 0.25
RECENT_SHARE = 10
RECENT = timedelta(seconds=1)


class Scan(Enum):
    """The start of a scan: at the mark, a second before it, or at the beginning."""

    MARK = "mark"
    RECENT = "recent"
    FULL = "full"


class LowWaterMarks:
    """The marks of one phase (one per lane), or of the promoter (a single one)."""

    def __init__(self, lanes: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._marks: list[datetime | None] = [None] * lanes
        self._monotonic = monotonic
        self._full_at = self._recent_at = float("-inf")
        self._full_took = self._recent_took = 0.0
        self._short = False
        self._lock = threading.Lock()

    def plan(self) -> tuple[Scan, list[datetime | None]]:
        """How to scan now, and from where in each lane; None is the beginning."""
        now = self._monotonic()
        with self._lock:
            if now - self._full_at >= max(FULL_EVERY, self._full_took * FULL_SHARE):
                return Scan.FULL, [None] * len(self._marks)
            since = now - self._recent_at
            if (self._short or since >= RECENT_EVERY) and since >= self._recent_took * RECENT_SHARE:
                return Scan.RECENT, [mark and mark - RECENT for mark in self._marks]
            return Scan.MARK, list(self._marks)

    def learn(self, scan: Scan, began: float, found: Iterable[tuple[int, datetime]], is_short: bool) -> None:
        """Move the marks by what a scan found: (lane, time) of each row, and whether there was room for more."""
        now = self._monotonic()
        with self._lock:
            if scan is Scan.FULL:
                self._full_at = now
                self._full_took = _assumed_cost(now - began, self._full_took, FULL_EVERY / FULL_SHARE)
            if scan is not Scan.MARK:
                self._recent_at = now
                self._recent_took = _assumed_cost(now - began, self._recent_took, RECENT_EVERY / RECENT_SHARE)
            self._short = is_short
            last: dict[int, datetime] = {}
            for lane, at in found:
                if lane not in last or at > last[lane]:
                    last[lane] = at
            # A rescan that came back full has not seen the rest of its window: it goes on from its last row, even where
            # that lies before the mark, or 500 released jobs would come back ten at a time, twice a second.
            resumed = max(last, default=None) if scan is not Scan.MARK and not is_short else None
            for lane, at in last.items():
                mark = self._marks[lane]
                if mark is None or at > mark or lane == resumed:
                    self._marks[lane] = at

    def forget(self) -> None:
        """Make the next scan a full one, as soon as its share of time allows: rows went back behind the marks."""
        with self._lock:
            self._full_at = min(self._full_at, self._monotonic() - FULL_EVERY)


def _assumed_cost(took: float, before: float, free: float) -> float:
    """The assumed cost of a scan: at most twice what it cost before, so that one in a busy moment (70 ms instead
    of 3) does not delay the next one for more than a second; ``free`` is the cost that needs no pause anyway."""
    return min(took, max(2 * before, free))


def as_text(marks: Sequence[datetime | None]) -> list[str]:
    """Marks as PostgreSQL reads them."""
    return ["-infinity" if mark is None else mark.isoformat() for mark in marks]
