"""The one function through which jobs come into being.

An enqueue only inserts. It locks and updates no row that the engine or another enqueue may update, because it may run
inside a caller's transaction that stays open for half a minute; unique keys are the one exception, since uniqueness is
a wait (and a debounced enqueue changes the job that its key leads to, if that one still waits for its time). Plain jobs
are one statement; limits, keys, dependencies and ids given by the caller add a statement each.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from windlass.arguments.encoding import body_hash
from windlass.errors import (
    EnqueueUnknownError,
    KeyConflictError,
    StoreError,
    StoreUnreachableError,
    UnknownParentError,
)
from windlass.keys import debounce as debouncing
from windlass.limits import store as limits
from windlass.model import HIGHEST_PRIORITY, After, Enqueued, Flag, Flow, Json, KeyScope, NewJob, has_flag
from windlass.principals.inheritance import Heir, inherit
from windlass.principals.store import principal_row, read_all
from windlass.store.database import Database, Transaction
from windlass.store.jobs import lines
from windlass.store.jobs.checked import ALONE, PLAIN, CheckedJob, check
from windlass.store.jobs.copy import CopyStream, SameKindJobs, kinds_with_rules, lines_of, made, phases_json
from windlass.store.jobs.notify_throttle import INBOX, NotifyThrottle
from windlass.store.jobs.rows import array
from windlass.urls import without_secrets

FLOWS_EVERY = 5.0


class Inserter:
    """Inserts jobs in transactions that somebody else opened. What it may tell whom is its ``speakers``' business."""

    def __init__(
        self, stamp: Callable[[datetime], Any], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._stamp = stamp
        self._monotonic = monotonic
        self.notify_throttle = NotifyThrottle(monotonic)
        self._flows: tuple[float, list[Flow]] = (float("-inf"), [])

    def enqueue_in(self, tx: Transaction, jobs: Sequence[NewJob], *, tell: bool = True) -> list[Enqueued]:
        """Store jobs inside a transaction that is not ours and may commit late: they pass through the inbox. ``tell`` is False where
        nobody may be told, because the transaction will be prepared."""
        return self.insert(tx, check(jobs), inbox=True, is_repeat=any(job.id for job in jobs), tell=tell)

    def insert(
        self,
        tx: Transaction,
        entries: Sequence[CheckedJob],
        *,
        inbox: bool,
        is_repeat: bool,
        is_ours: bool = False,
        tell: bool = True,
    ) -> list[Enqueued]:
        """The long way: keys, dependencies and repeated ids are looked at before and after the insert.

        ``is_ours`` says that the store makes these jobs by itself, and not an application that knows what their phases allow.
        """
        if is_ours:
            entries = self._with_limits(tx, entries)
        if is_repeat:
            # Two enqueues with one id take turns: the table alone cannot see a first self that is not committed and went
            # to another table.
            tx.run("enqueue.lock", ids=sorted(entry.id for entry in entries))
        present = self._present(tx, entries) if is_repeat else set()
        fresh = [entry for entry in entries if entry.id not in present]
        winners = self._take_keys(tx, fresh)
        fresh = [entry for entry in fresh if winners.get(entry.id, entry.id) == entry.id]
        fresh, replaced, debounced = self._debounce(tx, fresh)
        fresh = [_with_parents(entry, winners) for entry in fresh]
        parents = self._parents_of(tx, fresh)
        fresh = _with_inherited(fresh, {job: correlation for job, (correlation, _) in parents.items()})
        fresh = self._with_principals(tx, fresh, {job for job, (_, has_one) in parents.items() if has_one})
        if fresh:
            self._put_principals(tx, fresh)
            self._insert(tx, fresh, inbox=inbox, tell=tell)
            edges = [
                f'{{"parent":"{after.parent}","child":"{entry.id}","policy":"{after.policy}"}}'
                for entry in fresh
                for after in _unique_parents(entry)
            ]
            if edges:
                tx.run("enqueue.edges", edges=array(edges))
            if is_repeat:
                # Insert first, look after: a first self that moved on meanwhile is visible to this later snapshot.
                doubled = [
                    row[0] for row in tx.run("enqueue.present", ids=[e.id for e in fresh]) if row[1] > 1
                ]
                if doubled:
                    raise RepeatRaced(doubled)
            if lines.log.isEnabledFor(lines.DEBUG):
                lines.enqueued(fresh, inbox=inbox)
        for name, holder in sorted(debounced.items()):
            tx.run("debounce.keep", key=name, job=holder)
        made = {entry.id for entry in fresh}
        answers = winners | replaced
        return [
            Enqueued(answers.get(entry.id, entry.id), entry.id in made, entry.id in replaced)
            for entry in entries
        ]

    def _insert(
        self, tx: Transaction | Database, entries: Sequence[CheckedJob], *, inbox: bool, tell: bool = True
    ) -> None:
        rows = tx.run("enqueue", jobs=self.rows(entries, inbox=inbox, tell=tell))
        self.notify_throttle.note_told([INBOX] if inbox and rows else [row[0] for row in rows])
        brought = [
            row
            for entry in entries
            if entry.job.limits
            for row in limits.job_rows(entry.id, entry.job.limits)
        ]
        if brought:
            tx.run("enqueue.limits", limits=array(brought))

    def rows(self, entries: Sequence[CheckedJob], *, inbox: bool, tell: bool = True) -> str:
        """What the verb ``enqueue`` is given."""
        notify_throttle = self.notify_throttle.among(entries, inbox=inbox) if tell else ()
        return array(self._row(entry, inbox=inbox, tell=entry.id in notify_throttle) for entry in entries)

    def _row(self, entry: CheckedJob, *, inbox: bool, tell: bool) -> str:
        job = entry.job
        parts = [
            f'"id":"{entry.id}","kind":{json.dumps(job.kind)},"phase":{json.dumps(entry.phase)}',
            f'"lane":{HIGHEST_PRIORITY - job.priority},"max_attempts":{job.max_attempts}',
            f'"pending":{len(_unique_parents(entry)) if job.after else 0}',
            f'"flags":{_flags(entry)}',
        ]
        if job.correlation_id is not None and job.correlation_id != entry.id:
            parts.append(f'"correlation":{json.dumps(job.correlation_id)}')
        if job.delay is not None:
            parts.append(f'"delay":{job.delay.total_seconds()!r}')
        if job.run_at is not None:
            parts.append(f'"run_at":{json.dumps(self._stamp(job.run_at))}')
        if inbox:
            parts.append('"inbox":true')
        if tell:
            parts.append('"tell":true')
        parts.append(f'"args":{entry.args}')
        return f"{{{','.join(parts)}}}"

    def _present(self, tx: Transaction, entries: Sequence[CheckedJob]) -> set[str]:
        return {row[0] for row in tx.run("enqueue.present", ids=[entry.id for entry in entries])}

    def _take_keys(self, tx: Transaction, entries: Sequence[CheckedJob]) -> dict[str, str]:
        """For each keyed or throttled entry the id of the job that holds its key; the same key twice in one call goes to the first."""
        keyed = [(entry, hold) for entry in entries if (hold := debouncing.hold_of(entry.job)) is not None]
        if not keyed:
            return {}
        bodies = {entry.id: body_hash(entry.job.kind, entry.args) for entry, _ in keyed}
        first: dict[tuple[str, str], str] = {}
        rows = [
            hold.row(entry.id, bodies[entry.id])
            for entry, hold in keyed
            if first.setdefault((hold.scope, hold.name), entry.id) == entry.id
        ]
        holders = {(row[0], row[1]): (row[2], row[3]) for row in tx.run("enqueue.keys", keys=array(rows))}
        winners = {}
        for entry, hold in keyed:
            holder, body = holders[(hold.scope, hold.name)]
            if hold.is_strict and body != bodies[entry.id]:
                raise KeyConflictError(hold.name.removeprefix(f"{entry.job.kind}:"), holder)
            winners[entry.id] = holder
        return winners

    def _debounce(
        self, tx: Transaction, entries: Sequence[CheckedJob]
    ) -> tuple[list[CheckedJob], dict[str, str], dict[str, str]]:
        """What is left to insert; for each entry that changed a waiting job instead, that job's id; and each key's job.

        The row of the key is locked from here on, so of two submits one is the later one. It leads to the job that was made
        last; whether that one still waits is decided by the update itself, which waits for whoever is promoting it.
        """
        groups: dict[str, list[CheckedJob]] = defaultdict(list)
        for entry in entries:
            if entry.job.debounce is not None:
                groups[f"{entry.job.kind}:{entry.job.debounce.key}"].append(entry)
        if not groups:
            return list(entries), {}, {}
        keys = [debouncing.key_row(name, group[0].id) for name, group in groups.items()]
        holders = {row[1]: row[2] for row in tx.run("enqueue.keys", keys=array(keys))}
        fresh = [entry for entry in entries if entry.job.debounce is None]
        replaced: dict[str, str] = {}
        for name, group in sorted(groups.items()):
            first, last = group[0], group[-1]
            if holders[name] != first.id and self._replace(tx, holders[name], last):
                replaced |= dict.fromkeys((entry.id for entry in group), holders[name])
                continue
            holders[name] = first.id
            fresh.append(replace(last, id=first.id))
            replaced |= dict.fromkeys((entry.id for entry in group[1:]), first.id)
        return fresh, replaced, holders

    def _replace(self, tx: Transaction, holder: str, entry: CheckedJob) -> bool:
        """Give a waiting job what a later submit says; False where it waits no longer."""
        if not tx.run("debounce.replace", id=holder, job=self._row(entry, inbox=False, tell=False)):
            return False
        tx.run("limits.forget", ids=[holder])
        if entry.job.limits:
            tx.run("enqueue.limits", limits=array(limits.job_rows(holder, entry.job.limits)))
        tx.run("erase", ids=[holder])  # who asked last has the rights of the job, no more
        self._put_principals(tx, [replace(entry, id=holder)])
        return True

    def _with_limits(self, tx: Transaction, entries: Sequence[CheckedJob]) -> Sequence[CheckedJob]:
        """Jobs with the limits that their phases are known to have. What is known is read every few seconds."""
        read_at, flows = self._flows
        if self._monotonic() - read_at >= FLOWS_EVERY:
            flows = limits.read_flows(tx)
            self._flows = self._monotonic(), flows
        if not flows:
            return entries
        return [
            replace(
                entry,
                job=replace(entry.job, limits=limits.known(flows, entry.job.kind, entry.phase, entry.args)),
            )
            for entry in entries
        ]

    def _parents_of(self, tx: Transaction, entries: Sequence[CheckedJob]) -> dict[str, tuple[str, bool]]:
        """Parents that are no jobs of this call, with their correlation ids and whether they have a principal; one that does
        not exist is refused."""
        own = {entry.id for entry in entries}
        parents = {after.parent for entry in entries for after in entry.job.after} - own
        parents |= {parent for entry in entries for parent in entry.job.heir_of}
        if not parents:
            return {}
        known = {
            row[0]: (row[1] or row[0], has_flag(row[2], Flag.PRINCIPAL))
            for row in tx.run("enqueue.parents", ids=sorted(parents))
        }
        if parents - known.keys():
            raise UnknownParentError(sorted(parents - known.keys()))
        return known

    def _with_principals(
        self, tx: Transaction, entries: list[CheckedJob], with_one: Collection[str]
    ) -> list[CheckedJob]:
        """Jobs that brought no principal, with that of the jobs they come from."""
        if not with_one and all(entry.claims is None for entry in entries):
            return entries
        heirs = [
            Heir(
                entry.id, [after.parent for after in entry.job.after], entry.job.heir_of, entry.job.principal
            )
            for entry in entries
        ]
        found = inherit(heirs, read_all(tx, sorted(with_one)), with_one)
        return [
            entry
            if entry.claims is not None or entry.id not in found
            else replace(
                entry,
                job=replace(entry.job, principal=found[entry.id]),
                claims=found[entry.id].to_json(),
            )
            for entry in entries
        ]

    def _put_principals(self, tx: Transaction, entries: Sequence[CheckedJob]) -> None:
        """Before the jobs: what is inserted into a queue should be committed at once."""
        rows = [
            principal_row(entry.id, entry.job.principal, entry.claims, entry.job.sealed, self._stamp)
            for entry in entries
            if entry.job.principal is not None and entry.claims is not None
        ]
        if rows:
            tx.run("enqueue.principals", principals=array(rows))


class Enqueuer(Inserter):
    """Inserts jobs in transactions of its own, too. One per process and database."""

    def __init__(self, db: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(db.stamp, monotonic)
        self._db = db

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs durably, all or none; answers in the order given.

        Repeating a call with the same ids makes no second job. When the connection breaks in the middle it is unknown
        whether the jobs are there: they are looked up and the call is repeated once. Where that fails, too, it stays unknown, and
        ``EnqueueUnknownError`` has the ids.
        """
        entries = check(jobs)
        if not entries:
            return []
        way = max([entry.way for entry in entries])
        try:
            if way == PLAIN:
                self._insert_plain(entries)
                if lines.log.isEnabledFor(lines.DEBUG):
                    lines.enqueued(entries)
                return made([entry.id for entry in entries])
            return self._db.transact(
                lambda tx: self.insert(tx, entries, inbox=False, is_repeat=way == ALONE),
                waits=any(map(_may_wait, entries)),
            )
        except StoreUnreachableError as lost:
            return self._repeated(entries, lost)

    def enqueue_alike(self, alike: SameKindJobs) -> list[Enqueued]:
        """The same for jobs that differ in nothing but their arguments; many of them are streamed as their arguments are encoded."""
        count = len(alike.calls)
        if count < self._db.bulk_from:
            return self.enqueue(alike.jobs())
        (like,) = check([alike.job])
        if like.way != PLAIN or alike.job.delay or alike.job.run_at:
            return self.enqueue(alike.jobs())
        stream = CopyStream(replace(alike, job=like.job))
        loud = {like.phase} if self.notify_throttle.among([like], inbox=False) else set()
        try:
            text = partial(stream.lines, has_rules=like.job.kind in kinds_with_rules(self._db))
            told = self._db.bulk(text, phases_json({like.phase: count}, loud))
        except StoreUnreachableError as lost:
            entries = [
                CheckedJob(replace(like.job, args=Json(args)), job, like.phase, args)
                for job, args in stream.all()
            ]
            return self._repeated(entries, lost)
        self.notify_throttle.note_told([row[0] for row in told])
        lines.streamed(like, (answer.id for answer in stream.answers))
        return stream.answers

    def _repeated(self, entries: Sequence[CheckedJob], lost: StoreUnreachableError) -> list[Enqueued]:
        """What an enqueue whose reply was lost comes to when it is made again."""
        if lost.is_unsent:
            raise lost
        try:
            return self._db.transact(lambda tx: self.insert(tx, entries, inbox=False, is_repeat=True))
        except StoreError as error:  # whatever it says of this try, the first one may have stored them
            why = str(error.__cause__ or lost.__cause__ or type(error).__name__).partition("\n")[0]
            raise EnqueueUnknownError([entry.id for entry in entries], without_secrets(why)) from error

    def _insert_plain(self, entries: Sequence[CheckedJob]) -> None:
        """One statement; many jobs that are all ready now are streamed instead, which is twice as fast."""
        if len(entries) < self._db.bulk_from or any(entry.job.delay or entry.job.run_at for entry in entries):
            self._insert(self._db, entries, inbox=False)
            return
        ruled = kinds_with_rules(self._db)
        notify_throttle = self.notify_throttle.among(entries, inbox=False)
        loud = {entry.phase for entry in entries if entry.id in notify_throttle}
        counts = Counter(entry.phase for entry in entries)
        told = self._db.bulk(lambda tail: [lines_of(entries, ruled, tail)], phases_json(counts, loud))
        self.notify_throttle.note_told([row[0] for row in told])


class RepeatRaced(Exception):  # noqa: N818  a signal between this module and the database, never seen by callers
    """A repeated enqueue met its first self in the middle of a move; the transaction starts again."""


def _with_parents(entry: CheckedJob, winners: Mapping[str, str]) -> CheckedJob:
    """A child whose parent of the same call met its key taken waits for the job that holds the key."""
    if not any(winners.get(after.parent, after.parent) != after.parent for after in entry.job.after):
        return entry
    after = [replace(item, parent=winners.get(item.parent, item.parent)) for item in entry.job.after]
    return replace(entry, job=replace(entry.job, after=after))


def _with_inherited(entries: Sequence[CheckedJob], known: Mapping[str, str]) -> list[CheckedJob]:
    """Children that were given no correlation id, with that of their first parent, which may have it from its own."""
    own = {entry.id: entry for entry in entries}
    found = {entry.id: entry.job.correlation_id for entry in entries if entry.job.correlation_id}
    found |= {entry.id: entry.id for entry in entries if not entry.job.after and entry.id not in found}
    found |= known
    for entry in entries:
        line = [entry.id]
        while line[-1] not in found:  # parents of one call may be given in any order, and never in a circle
            line.append(own[line[-1]].job.after[0].parent)
        found |= dict.fromkeys(line, found[line[-1]])
    return [
        replace(entry, job=replace(entry.job, correlation_id=found[entry.id])) if entry.job.after else entry
        for entry in entries
    ]


def _flags(entry: CheckedJob) -> int:
    key = entry.job.key
    has_key = key is not None and key.scope is KeyScope.LIVE
    flags = (int(Flag.KEY) if has_key else 0) | (0 if entry.claims is None else int(Flag.PRINCIPAL))
    return flags | int(Flag.LIMIT) if entry.job.limits else flags


def _may_wait(entry: CheckedJob) -> bool:
    """Whether somebody else's open transaction can keep a job from being stored: uniqueness is a wait."""
    job = entry.job
    return any(each is not None for each in (job.key, job.debounce, job.throttle, job.id))


def _unique_parents(entry: CheckedJob) -> list[After]:
    return list({after.parent: after for after in entry.job.after}.values())
