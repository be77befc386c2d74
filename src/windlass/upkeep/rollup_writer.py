"""Writes per-minute statistics, so that graphs survive the process that made them.

Rows are absolute: the same minute is written again, with larger numbers, until it is over. So a write whose reply was lost is simply
repeated, and rows that could not be written wait here for the next time. Minutes are the database's. When its clock is set back, a minute
may come a second time and count from zero again: it is written under another id, because readers add up all ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol
from uuid import uuid4

from windlass.errors import FAULTS_OF_THE_STORE, StoreError
from windlass.model import Rollup

PRUNE_EVERY = 3600.0
BATCH = 1000
MAX_UNWRITTEN = 20_000
"""Rows that are kept while the database takes none; the oldest go first."""
SET_BACK = 30.0
"""Seconds by which the database's clock falls behind before another id is taken. The source stays in its minute up to 60."""

_Key = tuple[str, datetime, str]


class Source(Protocol):
    """The source of the numbers (engine/stats.py)."""

    @property
    def is_changed(self) -> bool: ...

    def take_rollups(self, now: datetime, *, restart: bool = False) -> list[Rollup]: ...


class Rollups(Protocol):
    """The store's side."""

    def put(self, instance: str, rows: Sequence[Rollup]) -> None: ...

    def fold(self, now: datetime) -> None: ...

    def prune(self, before: datetime) -> object: ...


class RollupStore(Protocol):
    @property
    def rollups(self) -> Rollups: ...

    def now(self) -> datetime: ...


class RollupWriter:
    """A duty of every instance. An instance that ended no job since the last time sends no statement."""

    def __init__(
        self,
        store: RollupStore,
        stats: Source,
        instance: Callable[[], str],
        *,
        every: float,
        keep_days: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._stats = stats
        self._instance = instance
        self.every = every
        self._keep = timedelta(days=keep_days)
        self._monotonic = monotonic
        self._counted_for: str | None = None
        self._written_as = ""
        # How far the database's clock was ahead of the monotonic one, at most, under this id.
        self._ahead = float("-inf")
        self._unwritten: dict[_Key, Rollup] = {}
        self._prune_at = float("-inf")

    def run(self) -> None:
        """Write what changed, and once an hour make hours and days of it and remove what is too old. Raises what the store raises, and loses nothing
        but what the database refused."""
        if not self._stats.is_changed and not self._unwritten:
            return
        now = self._store.now()
        self._take(now)
        self._write()
        if self._monotonic() >= self._prune_at:
            self._store.rollups.fold(now)
            self._store.rollups.prune(now - self._keep)
            self._prune_at = self._monotonic() + PRUNE_EVERY

    def _take(self, now: datetime) -> None:
        current = self._instance()
        ahead = now.timestamp() - self._monotonic()
        if self._counted_for is None:
            self._counted_for = self._written_as = current
        # After a lost lease the process goes on as another instance. The counts of this minute so far are stored under the old id.
        is_another = current != self._counted_for
        is_new = is_another or ahead < self._ahead - SET_BACK
        for row in self._stats.take_rollups(now, restart=is_new):
            key = (self._written_as, row.minute, row.phase)
            self._unwritten.pop(key, None)  # so that the newest are last
            self._unwritten[key] = row
        if is_new:
            self._written_as = current if is_another else str(uuid4())
        self._counted_for = current
        self._ahead = ahead if is_new else max(ahead, self._ahead)
        while len(self._unwritten) > MAX_UNWRITTEN:
            del self._unwritten[next(iter(self._unwritten))]

    def _write(self) -> None:
        while self._unwritten:
            instance = next(iter(self._unwritten))[0]
            keys = list(islice((key for key in self._unwritten if key[0] == instance), BATCH))
            try:
                self._store.rollups.put(instance, [self._unwritten[key] for key in keys])
            except FAULTS_OF_THE_STORE:
                raise  # they wait
            except StoreError:
                self._forget(
                    keys
                )  # refused once, refused forever: they must not keep later ones from being written
                raise
            self._forget(keys)

    def _forget(self, keys: Sequence[_Key]) -> None:
        for key in keys:
            del self._unwritten[key]
