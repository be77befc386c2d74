"""The search for jobs: how far it goes, and where the next page continues.

A search reads its sources (sources.py) a window at a time, from newest to oldest. It ends when the page is full, when no rows are left, or when
the budget is used; then the page has the cursor from which the next page continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.control.actor import Scope
from windlass.control.filters.conditions import Conditions
from windlass.control.sources import Read, Sources
from windlass.features import Store
from windlass.model import State
from windlass.store.ids import LARGEST, SMALLEST

_SMALLEST_WINDOW = 50
_SHARE = 0.6
"""Of the time that is left, for the next window: the machine may be busier then."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How far a search goes before it ends with what it has."""

    rows: int = 100_000
    seconds: float = 0.07
    window: int = 5_000
    """Rows of a window of a scan."""
    lookups: int = 500
    """Rows of a window whose jobs are found by their ids."""


UNLIMITED = Budget(rows=2**62, seconds=float("inf"))


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: ids from newest to oldest, how many rows were searched, and where the next page continues (None: nowhere)."""

    ids: Sequence[str]
    searched: int
    next_cursor: str | None


@dataclass(slots=True)
class _Source:
    """A source and how far it was read."""

    read: Read
    lowest: str
    size: int
    largest: int
    is_over: bool = False
    found: list[str] = field(default_factory=list)

    def advance(self, seconds: float) -> int:
        """Read the next window; returns how many rows were searched. The window after it is larger, as far as it takes no more than the seconds
        that are left."""
        began = time.monotonic()
        window = self.read(self.lowest, self.size)
        spent = time.monotonic() - began
        self.found += window.found
        self.lowest, self.is_over = window.lowest, window.is_last
        left = _SHARE * self.size * (seconds - spent) / max(spent, 0.000_1)
        self.size = int(max(_SMALLEST_WINDOW, min(4 * self.size, self.largest, left)))
        return window.searched

    def taken(self, border: str) -> Sequence[str]:
        """The ids that were found from the border on, which all sources have been read to; each is returned once."""
        count = sum(job >= border for job in self.found)
        taken, self.found = self.found[:count], self.found[count:]
        return taken


class Search:
    """One search with the rights of one actor."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        only: Conditions,
        budget: Budget,
        kinds: Callable[[], Collection[str]],
    ) -> None:
        self._only = only
        self._budget = budget
        self.parameters: dict[str, Any] = {**only.parameters, **scope.parameters()}
        """The bound parameters of the statements."""
        self._choice = Sources(store, scope, only, self.parameters, kinds)

    def run(self, cursor: str | None, limit: int) -> Found:
        """The newest ids before the cursor, at most ``limit``."""
        if self._only.is_nothing:
            return Found((), 0, None)
        ends_at = time.monotonic() + self._budget.seconds
        sources = list(self._sources(cursor or LARGEST, limit))
        searched = sum(source.advance(ends_at - time.monotonic()) for source in sources)
        ids: list[str] = []
        while True:
            reading = [source for source in sources if not source.is_over]
            border = max((source.lowest for source in reading), default=SMALLEST)
            ids += sorted({job for source in sources for job in source.taken(border)}, reverse=True)
            if len(ids) > limit or (len(ids) == limit and reading):
                return Found(ids[:limit], searched, ids[limit - 1])
            if not reading:
                return Found(ids, searched, None)
            seconds = ends_at - time.monotonic()
            if searched >= self._budget.rows or seconds <= 0:
                return Found(ids, searched, border)
            searched += max(reading, key=lambda source: source.lowest).advance(seconds)

    def _sources(self, before: str, limit: int) -> Iterator[_Source]:
        most = self._budget
        indexed = self._choice.indexed()
        if indexed is not None:
            for read in indexed:
                yield _Source(read, before, min(max(limit + 1, 100), most.lookups), most.lookups)
            return
        first = min(limit + 1 if self._is_plain else max(limit + 1, 500), most.window)
        for read in self._choice.scans():
            yield _Source(read, before, first, most.window)

    @property
    def _is_plain(self) -> bool:
        """Whether nearly every row that is read is found."""
        is_half = len(self._only.states & {State.QUEUED, State.PROCESSING}) == 1  # of one table
        return self._only.keys <= {"state"} and not is_half
