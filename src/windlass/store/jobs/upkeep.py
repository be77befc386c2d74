"""Duties that every instance does a share of: promote what is due, fold counts, prune history. Only dropping whole days
of history may wait, for readers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.model import MergeStep, Retention
from windlass.model.history import PartitionsLeft
from windlass.store.database import Database, never
from windlass.store.ids import is_id
from windlass.store.jobs.low_water import LowWaterMarks, as_text
from windlass.store.jobs.pruning import Archive, Pruning
from windlass.store.schema.statements import columns


@dataclass(frozen=True, slots=True)
class AgendaItems:
    """The work that is due. ``due_in`` is None when nothing is scheduled, ``resume_in`` when no pause ends by itself, ``expires_in`` (when
    the next lease can run out) when no instance lives, ``resumed_at`` (when the last pause with an end was over, in seconds since 1970) when
    no pause ended by itself. ``features`` has what features say of themselves, by the names of their columns
    (``-- column: agenda.NAME`` in their SQL)."""

    due_in: float | None
    has_dead: bool
    has_counts: bool
    resume_in: float | None = None
    expires_in: float | None = None
    resumed_at: float | None = None
    features: Mapping[str, Any] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether a feature has something to do, by the name of its column."""
        return bool(self.features.get(name))

    def seconds(self, name: str) -> float | None:
        """The seconds until a feature has something to do, by the name of its column; None if there is nothing."""
        left: float | None = self.features.get(name)
        return left


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
        ((due_in, dead, counted, resume_in, expires_in, resumed_at, *rest),) = self._db.read(
            "agenda", own=own
        )
        names = columns(self._db.dialect, "agenda")
        return AgendaItems(
            due_in,
            bool(dead),
            bool(counted),
            resume_in,
            expires_in,
            resumed_at,
            dict(zip(names, rest, strict=True)),
        )

    def fold(self, limit: int = 10_000) -> None:
        """Fold counts that verbs left behind into the tally."""
        while self._db.is_worth("fold") and self._db.run("fold", limit=limit):
            pass

    def maintain(self) -> PartitionsLeft | None:
        """Do the database's own periodic work; on PostgreSQL, make history partitions ahead of time. If this role may not make them,
        returns how many the owner's last run has left; None everywhere else."""
        return self._db.upkeep()

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
        page: int = 1000,
        pause: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Remove ended jobs that are past their time, in short transactions; returns how many.

        Whole days past every retention go at once where the database can do that. ``archive`` is called with each page, jobs
        with their attempts, before it is removed: if it raises, that page stays. A job that a child still waits for is kept, and so is one that a
        child comes to wait for at that moment, or (on SQLite) that is retried by hand then: such a job is in the archive and stays. After each page it sleeps as long as the page took, so that claims
        keep their share of the database (``pause`` sets other seconds); ``progress`` is called with how many were removed.
        """
        work = self.pruning(keep, archive=archive, page=page)
        while not work.is_over:
            began = time.monotonic()
            work.step()
            if progress:
                progress(work.removed)
            if not work.is_over:
                time.sleep(time.monotonic() - began if pause is None else pause)
        return work.removed

    def pruning(
        self,
        keep: Retention,
        *,
        archive: Archive | None = None,
        page: int = 1000,
        is_stopping: Callable[[], bool] = never,
    ) -> Pruning:
        """A pass of ``prune`` whose pages the caller removes one by one, with ``step``, until ``is_over``, or leaves."""
        return Pruning(self._db, keep, archive=archive, page=page, is_stopping=is_stopping)

    def take_turn(self, name: str, holder: str, seconds: float) -> bool:
        """Take the turn of work that one instance does for all of them, for so many seconds, or take it again; False if another holder has
        it. A turn that is not taken again ends by itself, so that the work of a dead instance goes on elsewhere."""
        if not self._db.is_worth("turn.take", name=name, holder=holder):
            return False
        return bool(self._db.run("turn.take", name=name, holder=holder, seconds=seconds))
