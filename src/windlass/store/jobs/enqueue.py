"""Stores new jobs; every job passes through here.

An enqueue only inserts. It locks and updates no row that the engine or another enqueue may update, because it may run
inside a caller's transaction that stays open for half a minute; unique keys are the one exception, since uniqueness is
a wait (and a debounced enqueue changes the job that its key leads to, if that one still waits for its time). Plain jobs
are one statement; limits, keys, dependencies and ids given by the caller add a statement each.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from windlass.errors import EnqueueUnknownError, StoreError, StoreUnreachableError, UnknownParentError
from windlass.model import HIGHEST_PRIORITY, Enqueued, Flag, Json, NewJob, has_flag
from windlass.store.database import LATER, Also, Database, Transaction, nothing
from windlass.store.feature import Insertion, features
from windlass.store.jobs import lines
from windlass.store.jobs.checked import ALONE, PLAIN, CheckedJob, check
from windlass.store.jobs.copy import CopyStream, SameKindJobs, lines_of, phases_json
from windlass.store.jobs.notify_throttle import INBOX, NotifyThrottle
from windlass.store.jobs.rows import array, created_results
from windlass.urls import without_secrets


class Inserter:
    """Inserts jobs in transactions that the caller opened; ``notify_throttle`` decides which enqueues notify."""

    def __init__(
        self,
        stamp: Callable[[datetime], Any],
        monotonic: Callable[[], float] = time.monotonic,
        *,
        notifies: bool = True,
    ) -> None:
        self.stamp = stamp
        self._notifies = notifies
        self.monotonic = monotonic
        self.notify_throttle = NotifyThrottle(monotonic)
        self.memory: dict[str, Any] = {}
        """Values that features cache for this database."""

    def enqueue_in(self, tx: Transaction, jobs: Sequence[NewJob], *, notify: bool = True) -> list[Enqueued]:
        """Store jobs inside a transaction that is not ours and may commit late: they pass through the inbox. ``notify`` is False if
        the transaction must not notify, because it will be prepared."""
        return self.insert(tx, check(jobs), inbox=True, is_repeat=any(job.id for job in jobs), notify=notify)

    def enqueue_group_in(
        self, tx: Transaction, entries: Sequence[CheckedJob], *, notify: bool = True
    ) -> list[Enqueued]:
        """Store jobs that belong together inside a transaction that is not ours."""
        return self.insert(tx, entries, inbox=True, is_repeat=has_own_ids(entries), notify=notify)

    def insert(
        self,
        tx: Transaction,
        entries: Sequence[CheckedJob],
        *,
        inbox: bool,
        is_repeat: bool,
        is_ours: bool = False,
        notify: bool = True,
    ) -> list[Enqueued]:
        """The long way: features are called before and after the insert, and repeated ids are detected.

        ``is_ours`` says that the store makes these jobs by itself, and not an application that knows what their phases allow.
        """
        if is_repeat:
            # Two enqueues with one id take turns: the table alone cannot show a first enqueue that is not committed and whose job went
            # to another table.
            tx.run("enqueue.lock", ids=sorted(entry.id for entry in entries))
        present = self._present(tx, entries) if is_repeat else set()
        call = Insertion(tx, self, is_ours, notify=notify)
        fresh = [entry for entry in entries if entry.id not in present]
        for feature in features():
            fresh = feature.before_insert(call, fresh)
        if fresh:
            self._insert(tx, fresh, inbox=inbox, notify=notify)
        for feature in features():
            feature.after_insert(call, fresh)
        if fresh and is_repeat:
            # Insert first, read after: a first job that moved on meanwhile is visible to this later snapshot.
            doubled = [row[0] for row in tx.run("enqueue.present", ids=[e.id for e in fresh]) if row[1] > 1]
            if doubled:
                raise RepeatRaced(doubled)
        if fresh and lines.log.isEnabledFor(lines.DEBUG):
            lines.enqueued(fresh, inbox=inbox)
        made = {entry.id for entry in fresh}
        return [
            Enqueued(call.instead.get(entry.id, entry.id), entry.id in made, entry.id in call.replaced)
            for entry in entries
        ]

    def parents_of(self, call: Insertion, entries: Sequence[CheckedJob]) -> dict[str, tuple[str, bool]]:
        """The jobs that these come from and that are not of this call, with their correlation ids and whether they have a principal; one
        that does not exist is refused."""
        own = {entry.id for entry in entries}
        parents = {after.parent for entry in entries for after in entry.job.after} - own
        parents |= {parent for entry in entries for parent in entry.job.heir_of}
        known: dict[str, tuple[str, bool]] = call.notes.setdefault("parents", {})
        if parents - known.keys():
            known |= {
                row[0]: (row[1] or row[0], has_flag(row[2], Flag.PRINCIPAL))
                for row in call.tx.run("enqueue.parents", ids=sorted(parents))
            }
        if parents - known.keys():
            raise UnknownParentError(sorted(parents - known.keys()))
        return known

    def _insert(
        self, tx: Transaction | Database, entries: Sequence[CheckedJob], *, inbox: bool, notify: bool = True
    ) -> None:
        began = self.monotonic()
        rows = tx.run("enqueue", jobs=self.rows(entries, inbox=inbox, notify=notify))
        if rows and inbox:
            self.notify_throttle.note_notified([INBOX])  # its commit is the caller's
        elif rows:
            self.notify_throttle.note_notified([row[0] for row in rows], self.monotonic() - began)

    def hint_later(self, tx: Transaction) -> None:
        """Hint, when ``tx`` commits, that upkeep has to do something at a time that it does not know yet."""
        if self._notifies:
            tx.run("notify", phases=[LATER], prefix="")

    def rows(self, entries: Sequence[CheckedJob], *, inbox: bool, notify: bool = True) -> str:
        """The JSON rows for the verb ``enqueue``."""
        loud = self.notify_throttle.among(entries, inbox=inbox) if notify and self._notifies else ()
        return array(self.row(entry, inbox=inbox, notify=entry.id in loud) for entry in entries)

    def row(self, entry: CheckedJob, *, inbox: bool, notify: bool) -> str:
        job = entry.job
        parts = [
            f'"id":"{entry.id}","kind":{json.dumps(job.kind)},"phase":{json.dumps(entry.phase)}',
            f'"lane":{HIGHEST_PRIORITY - job.priority},"max_attempts":{job.max_attempts}',
            f'"pending":{entry.pending}',
            f'"flags":{entry.flags}',
        ]
        if job.correlation_id is not None and job.correlation_id != entry.id:
            parts.append(f'"correlation":{json.dumps(job.correlation_id)}')
        if job.delay is not None:
            parts.append(f'"delay":{job.delay.total_seconds()!r}')
        if job.run_at is not None:
            parts.append(f'"run_at":{json.dumps(self.stamp(job.run_at))}')
        if inbox:
            parts.append('"inbox":true')
        if notify:
            parts.append('"notify":true')
        parts.append(f'"args":{entry.args}')
        return f"{{{','.join(parts)}}}"

    def _present(self, tx: Transaction, entries: Sequence[CheckedJob]) -> set[str]:
        return {row[0] for row in tx.run("enqueue.present", ids=[entry.id for entry in entries])}


class Enqueuer(Inserter):
    """Inserts jobs in transactions of its own, too. One per process and database."""

    def __init__(self, db: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(db.stamp, monotonic, notifies=db.notifies)
        self._db = db

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs durably, all or none; returns in the order given.

        Repeating a call with the same ids makes no second job. When the connection breaks in the middle it is unknown
        whether the jobs are there: they are read back and the call is repeated once. Where that fails, too, it stays unknown, and
        ``EnqueueUnknownError`` has the ids.
        """
        return self.enqueue_checked(check(jobs))

    def enqueue_checked(self, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        """``enqueue`` for requests that were checked already."""
        if not entries:
            return []
        way = max([entry.way for entry in entries])
        try:
            if way == PLAIN:
                self._insert_plain(entries)
                if lines.log.isEnabledFor(lines.DEBUG):
                    lines.enqueued(entries)
                if len(entries) == 1:
                    return [Enqueued(entries[0].id, created=True)]
                return created_results([entry.id for entry in entries])
            return self._db.transact(
                lambda tx: self.insert(tx, entries, inbox=False, is_repeat=way == ALONE),
                waits=any(map(_may_wait, entries)),
            )
        except StoreUnreachableError as lost:
            return self._repeated(entries, lost)

    def enqueue_group(self, entries: Sequence[CheckedJob], before: Also = nothing) -> list[Enqueued]:
        """Store jobs that belong together, all or none, as ``enqueue`` does. Ids that were made for this call are not searched for: in
        ten thousand jobs that would take longer than to store them. ``before`` is called first, in the same
        transaction."""

        def work(tx: Transaction, *, is_repeat: bool) -> list[Enqueued]:
            before(tx)
            return self.insert(tx, entries, inbox=False, is_repeat=is_repeat)

        try:
            return self._db.transact(
                partial(work, is_repeat=has_own_ids(entries)), waits=any(map(_may_wait, entries))
            )
        except StoreUnreachableError as lost:
            return self._repeated(entries, lost, partial(work, is_repeat=True))

    def enqueue_alike(self, alike: SameKindJobs) -> list[Enqueued]:
        """``enqueue`` for jobs that differ only in their arguments; many of them are streamed as their arguments are encoded."""
        count = len(alike.calls)
        if count < self._db.bulk_from:
            return self.enqueue(alike.jobs())
        (like,) = check([alike.job])
        if like.way != PLAIN or alike.job.delay or alike.job.run_at:
            return self.enqueue(alike.jobs())
        stream = CopyStream(replace(alike, job=like.job))
        loud = {like.phase} if self.notify_throttle.among([like], inbox=False) else set()
        try:
            text = partial(stream.lines, flags=_flags_of_kinds(self._db).get(like.job.kind, 0))
            notified = self._db.bulk(text, phases_json({like.phase: count}, loud))
        except StoreUnreachableError as lost:
            entries = [
                CheckedJob(replace(like.job, args=Json(args)), job, like.phase, args)
                for job, args in stream.all()
            ]
            return self._repeated(entries, lost)
        self.notify_throttle.note_notified([row[0] for row in notified])
        lines.streamed(like, (made.id for made in stream.results))
        return stream.results

    def _repeated(
        self,
        entries: Sequence[CheckedJob],
        lost: StoreUnreachableError,
        work: Callable[[Transaction], list[Enqueued]] | None = None,
    ) -> list[Enqueued]:
        """Repeat an enqueue whose reply was lost."""
        if lost.is_unsent:
            raise lost
        try:
            return self._db.transact(
                work or (lambda tx: self.insert(tx, entries, inbox=False, is_repeat=True))
            )
        except StoreError as error:  # even if this try failed, the first one may have stored them
            why = str(error.__cause__ or lost.__cause__ or type(error).__name__).partition("\n")[0]
            raise EnqueueUnknownError([entry.id for entry in entries], without_secrets(why)) from error

    def _insert_plain(self, entries: Sequence[CheckedJob]) -> None:
        """One statement; many jobs that are all ready now are streamed instead, which is twice as fast."""
        if len(entries) == 1 and entries[0].job.delay is None and entries[0].job.run_at is None:
            self._insert_one(entries[0])
            return
        if len(entries) < self._db.bulk_from or any(entry.job.delay or entry.job.run_at for entry in entries):
            self._insert(self._db, entries, inbox=False)
            return
        flags = _flags_of_kinds(self._db)
        notify_throttle = self.notify_throttle.among(entries, inbox=False)
        loud = {entry.phase for entry in entries if entry.id in notify_throttle}
        counts = Counter(entry.phase for entry in entries)
        notified = self._db.bulk(lambda tail: [lines_of(entries, flags, tail)], phases_json(counts, loud))
        self.notify_throttle.note_notified([row[0] for row in notified])

    def _insert_one(self, entry: CheckedJob) -> None:
        """The most frequent enqueue: the fewest calls and the least work for the database."""
        job = entry.job
        began = self.monotonic()
        correlation = None if job.correlation_id == entry.id else job.correlation_id
        notified = self._db.run(
            "enqueue.one",
            id=entry.id,
            kind=job.kind,
            phase=entry.phase,
            lane=HIGHEST_PRIORITY - job.priority,
            max_attempts=job.max_attempts,
            correlation=correlation,
            args=entry.args,
            notify=self._notifies and self.notify_throttle.may_notify(entry.phase),
        )
        if notified:
            self.notify_throttle.note_notified([entry.phase], self.monotonic() - began)


class RepeatRaced(Exception):  # noqa: N818  a signal between this module and the database, never seen by callers
    """A repeated enqueue found its first job in the middle of a move; the transaction starts again."""


def has_own_ids(entries: Sequence[CheckedJob]) -> bool:
    """Whether a request brought its id, so that its job may be stored already."""
    return any(entry.job.id is not None for entry in entries)


def _may_wait(entry: CheckedJob) -> bool:
    """Whether another session's open transaction can keep a job from being stored: uniqueness is a wait."""
    return entry.job.id is not None or any(feature.may_wait(entry.job) for feature in features())


def _flags_of_kinds(db: Database) -> dict[str, int]:
    """Flags that streamed jobs get by their kind."""
    found: Counter[str] = Counter()
    for feature in features():
        for kind, flags in feature.kind_flags(db).items():
            found[kind] |= flags
    return found
