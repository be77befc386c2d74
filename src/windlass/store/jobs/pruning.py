"""Removes ended jobs that are past their time, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from windlass.errors import ConfigError
from windlass.model import Archived, Attempt, Retention
from windlass.store.database import Database, Row, Transaction, never
from windlass.store.feature import features
from windlass.store.ids import SMALLEST
from windlass.store.jobs.rows import to_attempt, to_job

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
Archive = Callable[[Sequence[Archived]], None]


class Pruning:
    """One pass over history. Each ``step`` removes a page in a transaction of its own, until ``is_over``; ``removed`` is how many jobs.

    The retention counts from the first step on. A pass that is left before its end has removed what its steps removed, and nothing else.
    A step during which ``is_stopping`` begins to return True ends early: after the day that it is dropping, or its page.
    """

    def __init__(
        self,
        db: Database,
        keep: Retention,
        *,
        archive: Archive | None = None,
        page: int = 1000,
        is_stopping: Callable[[], bool] = never,
    ) -> None:
        if page < 1:
            raise ConfigError("page", page, "a whole number of 1 or more")
        self._db = db
        self._keep = keep
        self._archive = archive
        self._page = page
        self._is_stopping = is_stopping
        self._before: dict[str, Any] = {}
        self._after = SMALLEST
        self.removed = 0
        self.is_over = False

    def step(self) -> None:
        """Remove the next page; the first step also removes whole days, where the database can do that and there is no archive."""
        if not self._before:
            self._begin()
        if self._is_stopping():
            return
        remove = self._remove_page if self._db.low_water else self._remove_read_page
        count, self._after = remove()
        self.removed += count
        if not self._after and not self._is_stopping():
            self._end()

    def _begin(self) -> None:
        keep, now = self._keep, self._db.now()
        lasting = {"completed": keep.completed, "failed": keep.failed, "cancelled": keep.cancelled}
        self._before = {
            f"{state}_before": BEGINNING if lasts is None else now - lasts for state, lasts in lasting.items()
        }
        if self._archive is None:
            self.removed += self._db.drop_history(keep, is_stopping=self._is_stopping)

    def _end(self) -> None:
        if self._archive is not None:
            self._db.drop_history(self._keep, only_empty=True, is_stopping=self._is_stopping)
        for feature in features():
            feature.on_pruned(self._db)
        self.is_over = True

    # ------------------------------------------------------------------ a page

    def _remove_page(self) -> tuple[int, str]:
        return self._db.transact(self._find_and_remove)

    def _find_and_remove(self, tx: Transaction) -> tuple[int, str]:
        page = tx.run("prune.page", after=self._after, limit=self._page, **self._before)
        if page and self._archive is not None:
            self._archive(self._whole(tx.run, [row[0] for row in page]))
        return self._remove(page, tx), self._last(page)

    def _remove_read_page(self) -> tuple[int, str]:
        """Find and archive a page before the write lock is taken, since both may take long."""
        page = self._db.read("prune.page", after=self._after, limit=self._page, **self._before)
        if not page:
            return 0, ""
        if self._archive is not None:
            self._archive(self._whole(self._db.read, [row[0] for row in page]))
        return self._db.transact(partial(self._remove, page)), self._last(page)

    def _remove(self, page: Sequence[Row], tx: Transaction) -> int:
        """Remove the jobs of a page that are still past their time and that nothing needs, checked again under the locks: those of the page's rows,
        or the one write lock. Another job is in the archive and is not removed."""
        times = [at for row in page if (at := self._db.moment(row[1])) is not None]
        if not times:
            return 0
        bounds = {"oldest": min(times), "newest": max(times)}
        again = tx.run("prune.again", ids=[row[0] for row in page], **bounds, **self._before)
        if not again:
            return 0
        return int(tx.run("prune.delete", ids=[row[0] for row in again], **bounds)[0][0])

    def _last(self, page: Sequence[Row]) -> str:
        """Where the next page begins; empty if there is none."""
        return str(page[-1][0]) if len(page) == self._page else ""

    def _whole(self, run: Callable[..., list[Row]], ids: Sequence[str]) -> list[Archived]:
        attempts: dict[str, list[Attempt]] = defaultdict(list)
        for row in run("prune.attempts", ids=list(ids)):
            attempts[row[0]].append(to_attempt(self._db, row))
        return [
            Archived(job, attempts[job.id])
            for job in (to_job(self._db, row) for row in run("prune.read", ids=list(ids)))
        ]
