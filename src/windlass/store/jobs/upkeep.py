"""Duties that every instance does a share of: promote what is due, fold counts, prune history. None waits for a lock."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from windlass.errors import ConfigError
from windlass.model import Archived, Attempt, MergeStep, Retention
from windlass.store.database import Database, Row, Transaction
from windlass.store.feature import features
from windlass.store.ids import SMALLEST, is_id
from windlass.store.jobs.low_water import LowWaterMarks, as_text
from windlass.store.jobs.rows import to_attempt, to_job
from windlass.store.schema.statements import columns

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
Archive = Callable[[Sequence[Archived]], None]


@dataclass(frozen=True, slots=True)
class AgendaItems:
    """The work that is due. ``due_in`` is None when nothing is scheduled, ``resume_in`` when no pause ends by itself, ``expires_in`` (when
    the next lease can run out) when no instance lives. ``features`` has what features say of themselves, by the names of their columns
    (``-- column: agenda.NAME`` in their SQL)."""

    due_in: float | None
    has_dead: bool
    has_counts: bool
    resume_in: float | None = None
    expires_in: float | None = None
    features: Mapping[str, Any] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether a feature has something to do, by the name of its column."""
        return bool(self.features.get(name))


class Upkeep:
    """The store's share of an instance's housekeeping."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._marks = LowWaterMarks(1)

    def promote(self, limit: int = 1000) -> dict[str, int]:
        """Move due jobs into their queues; returns how many per phase. Call again while the sum reaches ``limit``."""
        if not self._db.is_worth("promote"):
            return {}
        if not self._db.low_water:
            return {row[0]: int(row[1]) for row in self._db.run("promote", limit=limit)}
        scan, marks = self._marks.plan()
        began = time.monotonic()
        rows = self._db.run("promote", limit=limit, mark=as_text(marks)[0])
        moved = {row[0]: int(row[1]) for row in rows}
        found = [(0, at) for row in rows if (at := self._db.moment(row[2])) is not None]
        self._marks.learn(scan, began, found, sum(moved.values()) < limit)
        return moved

    def make_due(self, job_id: str) -> bool:
        """Make a scheduled or retrying job due now; False if it is neither."""
        return is_id(job_id) and bool(self._db.run("make_due", id=job_id))

    def agenda(self, *, own: str | None = None) -> AgendaItems:
        """Read what is due on this database, in one statement. The instance ``own`` is alive, however late its heartbeat is."""
        ((due_in, dead, counted, resume_in, expires_in, *rest),) = self._db.read("agenda", own=own)
        names = columns(self._db.dialect, "agenda")
        return AgendaItems(
            due_in, bool(dead), bool(counted), resume_in, expires_in, dict(zip(names, rest, strict=True))
        )

    def fold(self, limit: int = 10_000) -> None:
        """Fold counts that verbs left behind into the tally."""
        while self._db.is_worth("fold") and self._db.run("fold", limit=limit):
            pass

    def maintain(self) -> None:
        """Do the database's own periodic work; on PostgreSQL, make history partitions ahead of time."""
        self._db.upkeep()

    def merge_history(self, *, always: bool = False, page: int = 2000) -> MergeStep | None:
        """Do a piece of the work that makes months of old days of history, on PostgreSQL; None when there is nothing to do.

        It begins where there are more than 120 partitions, or ``always``. A piece copies at most ``page`` jobs in one transaction.
        """
        return self._db.merge_history(always=always, page=page)

    def partitions(self) -> int:
        """How many partitions history has; 0 on SQLite."""
        return self._db.partitions()

    def prune(
        self,
        keep: Retention,
        *,
        archive: Archive | None = None,
        batch: int = 1000,
        pause: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Remove ended jobs that are past their time, in short transactions; returns how many.

        Whole days past every retention go at once where the database can do that. ``archive`` is called with each batch, jobs
        with their attempts, before it is removed, in the same transaction: if it raises, that batch stays. A job that a
        child still waits for is kept. After each batch it sleeps as long as the batch took, so that claims
        keep their share of the database (``pause`` sets other seconds); ``progress`` is called with how many were removed.
        """
        if batch < 1:
            raise ConfigError("batch", batch, "a whole number of 1 or more")
        now = self._db.now()
        before = {
            f"{state}_before": BEGINNING if lasts is None else now - lasts
            for state, lasts in (
                ("completed", keep.completed),
                ("failed", keep.failed),
                ("cancelled", keep.cancelled),
            )
        }
        removed, after = 0 if archive else self._db.drop_history(keep), SMALLEST
        while True:
            began = time.monotonic()
            # Where there is one write lock, the archive is written before it is taken.
            only = (
                self._archive_first(before, archive, after, batch)
                if archive and not self._db.low_water
                else None
            )
            inside = archive if only is None else None
            count, after = self._db.transact(partial(self._prune, before, inside, after, batch, only))
            removed += count
            if progress:
                progress(removed)
            if not after:
                break
            time.sleep(time.monotonic() - began if pause is None else pause)
        if archive:
            self._db.drop_history(keep, only_empty=True)
        for feature in features():
            feature.on_pruned(self._db)
        return removed

    def _prune(
        self,
        before: dict[str, Any],
        archive: Archive | None,
        after: str,
        batch: int,
        only: set[str] | None,
        tx: Transaction,
    ) -> tuple[int, str]:
        page = tx.run("prune.page", after=after, limit=batch, **before)
        if not page:
            return 0, ""
        last = page[-1][0] if len(page) == batch else ""
        page = [row for row in page if only is None or row[0] in only]
        if not page:
            return 0, last
        ids = [row[0] for row in page]
        if archive is not None:
            archive(self._whole(tx.run, ids))
        times = [at for row in page if (at := self._db.moment(row[1])) is not None]
        removed = tx.run("prune.delete", ids=ids, oldest=min(times), newest=max(times))
        return int(removed[0][0]), last

    def _archive_first(self, before: dict[str, Any], archive: Archive, after: str, batch: int) -> set[str]:
        """Archive a page by reading; returns the ids, and only those may be removed then. A job that is retried by hand in
        between is in the archive and is not removed."""
        ids = [row[0] for row in self._db.read("prune.page", after=after, limit=batch, **before)]
        if ids:
            archive(self._whole(self._db.read, ids))
        return set(ids)

    def _whole(self, run: Callable[..., list[Row]], ids: Sequence[str]) -> list[Archived]:
        attempts: dict[str, list[Attempt]] = defaultdict(list)
        for row in run("prune.attempts", ids=list(ids)):
            attempts[row[0]].append(to_attempt(self._db, row))
        return [
            Archived(job, attempts[job.id])
            for job in (to_job(self._db, row) for row in run("prune.read", ids=list(ids)))
        ]
