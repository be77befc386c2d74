"""Makes history's partitions ahead of time, and keeps their number small: a piece of a month at a time, beside everything else that upkeep
has to do."""

from __future__ import annotations

import time
from collections.abc import Callable

from windlass.errors import StoreNotAllowedError
from windlass.features import Store
from windlass.model.history import PartitionsLeft, partition_warning

LEAST, MOST = 100, 10_000
SHORT, LONG = 0.1, 0.3
"""Seconds that a piece should take: other duties wait for it."""
SOON, SELDOM = 10.0, 600.0
"""Seconds until it is tried again behind another session's lock or transaction: more and more, since each try keeps others waiting for a moment."""


class History:
    """Merges old days into months: a duty of every instance, done by one at a time. If there is nothing to do it is one read of the catalogue an hour."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._upkeep = store.upkeep
        self._monotonic = monotonic
        self._page = 1_000
        self._has_begun = False
        self._pause = SOON
        self._partitions: int | None = None
        self._left: PartitionsLeft | None = None

    def make_ahead(self) -> None:
        """Make the partitions of the next days, as every instance does whose role may; a role that may not notes how many are left."""
        self._left = self._upkeep.maintain()

    def run(self) -> float | None:
        """Do a piece; returns the seconds until the next one, which are as many as this one took, so that jobs keep their share of the database."""
        began = self._monotonic()
        try:
            step = self._upkeep.merge_history(always=self._has_begun, page=self._page)
        except StoreNotAllowedError:
            step = None  # with two roles it is the owner's to do, by `windlass db merge-history`
        took = self._monotonic() - began
        if step is None or step.merged is not None or self._partitions is None:
            self._partitions = self._upkeep.partitions()
        if step is None:
            self._has_begun, self._pause = False, SOON
            return None
        if step.is_waiting:
            pause, self._pause = self._pause, min(SELDOM, 2 * self._pause)
            return pause
        self._has_begun, self._pause = True, SOON
        if step.jobs:
            self._page = min(MOST, 2 * self._page) if took < SHORT else self._page
            self._page = max(LEAST, self._page // 2) if took > LONG else self._page
        return took

    def lines(self) -> list[str]:
        """For the instance's report: a line where there are too many partitions, and one where the owner should have made more."""
        found = partition_warning(self._partitions or 0)
        lines = [f"history: {found}"] if found else []
        return [*lines, f"partitions: {self._left.text}"] if self._left and self._left.is_late else lines

    def notes(self) -> list[str]:
        """For the instance's report: that partitions are the owner's to make, while there are enough."""
        return [f"partitions: {self._left.text}"] if self._left and not self._left.is_late else []
