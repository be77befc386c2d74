"""Unique keys, debounce and throttle, as a feature of jobs.

The row of a key is the one thing that an enqueue waits for: uniqueness is a wait. Of two requests with one key the later one is given the
job of the first; of two debounced requests the later one changes the job that still waits.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from windlass.arguments.encoding import body_hash
from windlass.errors import ActRefusedError, ConfigError, KeyConflictError
from windlass.keys import debounce as debouncing
from windlass.model import Flag, Key, KeyScope, NewJob
from windlass.store.database import Database, Transaction
from windlass.store.feature import EditedJob, EndedJob, Feature, Insertion, RetriedJob, Retrying, features
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.rows import array
from windlass.store.validators import LONGEST_DELAY, MAX_LABEL, is_label


class Keys(Feature):
    """Takes the keys of new jobs, and frees and takes them again as jobs end and are retried."""

    name = "keys"
    flag = Flag.KEY
    is_alone = True

    def is_asked(self, job: NewJob) -> bool:
        return job.key is not None or job.debounce is not None or job.throttle is not None

    def check(self, job: CheckedJob) -> CheckedJob:
        if job.job.key is not None:
            _check_key(job.job.key)
        if job.job.debounce is not None or job.job.throttle is not None:
            job = replace(job, job=debouncing.check(job.job))
        is_live = job.job.key is not None and job.job.key.scope is KeyScope.LIVE
        return replace(job, flags=job.flags | int(Flag.KEY)) if is_live else job

    def may_wait(self, job: NewJob) -> bool:
        return self.is_asked(job)

    def before_insert(self, call: Insertion, jobs: list[CheckedJob]) -> list[CheckedJob]:
        call.instead |= self._take(call.tx, jobs)
        return self._debounce(call, [job for job in jobs if call.instead.get(job.id, job.id) == job.id])

    def after_insert(self, call: Insertion, jobs: Sequence[CheckedJob]) -> None:
        for name, holder in sorted(call.notes.get(self.name, {}).items()):
            call.tx.run("debounce.keep", key=name, job=holder)

    def on_cancel(self, tx: Transaction, job_ids: Sequence[str]) -> None:
        tx.run("cancel.throttle", ids=list(job_ids))

    def on_retried(self, call: Retrying, jobs: Sequence[RetriedJob]) -> None:
        """A retried job needs its live key again; if another job took it meanwhile, the retry is refused."""
        for job in jobs:
            if job.flags & Flag.KEY:
                body = body_hash(job.kind, job.args)
                row = {
                    "scope": KeyScope.LIVE,
                    "key": job.key,
                    "job": job.id,
                    "body_hash": body,
                    "lasts": None,
                }
                holder = call.tx.run("enqueue.keys", keys=f"[{json.dumps(row)}]")[0][2]
                if holder != job.id:
                    raise KeyConflictError(str(job.key), holder)

    def on_edited(self, tx: Transaction, job: EditedJob) -> None:
        """A key is a text that the application made, as a rule of the arguments: only the application can make it anew."""
        for scope, name in tx.run("keys.of", id=job.id):
            what = {"live": "unique key", "idempotent": "idempotent key"}.get(scope, f"{scope} key")
            cure = (
                "submit the job again with the same key, which replaces its arguments"
                if scope == debouncing.DEBOUNCE
                else "cancel the job, and submit a new one with its own key"
            )
            why = f"it holds the {what} {name.removeprefix(f'{job.kind}:')!r}, which may have been made of its arguments; {cure}"
            raise ActRefusedError(job.id, "edit", job.state, why)

    def on_deleted(self, tx: Transaction, jobs: Sequence[EndedJob]) -> None:
        tx.run("keys.drop", ids=[job.id for job in jobs])

    def on_pruned(self, db: Database) -> None:
        db.run("prune.keys")

    def _take(self, tx: Transaction, jobs: Sequence[CheckedJob]) -> dict[str, str]:
        """For each keyed or throttled job the id of the job that holds its key; the same key twice in one call goes to the first."""
        keyed = [(job, taken) for job in jobs if (taken := debouncing.key_of(job.job)) is not None]
        if not keyed:
            return {}
        bodies = {job.id: body_hash(job.job.kind, job.args) for job, _ in keyed}
        first: dict[tuple[str, str], str] = {}
        rows = [
            taken.row(job.id, bodies[job.id])
            for job, taken in keyed
            if first.setdefault((taken.scope, taken.name), job.id) == job.id
        ]
        holders = {(row[0], row[1]): (row[2], row[3]) for row in tx.run("enqueue.keys", keys=array(rows))}
        winners = {}
        for job, taken in keyed:
            holder, body = holders[(taken.scope, taken.name)]
            if taken.is_strict and body != bodies[job.id]:
                raise KeyConflictError(taken.name.removeprefix(f"{job.job.kind}:"), holder)
            winners[job.id] = holder
        return winners

    def _debounce(self, call: Insertion, jobs: list[CheckedJob]) -> list[CheckedJob]:
        """Change the waiting jobs of debounced keys; returns the jobs that are left to insert.

        The row of the key is locked from here on, so of two requests one is the later one. It leads to the job that was made
        last; the update itself finds out whether that job still waits, and waits for a transaction that moves it into its queue.
        """
        groups: dict[str, list[CheckedJob]] = defaultdict(list)
        for job in jobs:
            if job.job.debounce is not None:
                groups[f"{job.job.kind}:{job.job.debounce.key}"].append(job)
        if not groups:
            return jobs
        keys = [debouncing.key_row(name, group[0].id) for name, group in groups.items()]
        holders = {row[1]: row[2] for row in call.tx.run("enqueue.keys", keys=array(keys))}
        fresh = [job for job in jobs if job.job.debounce is None]
        for name, group in sorted(groups.items()):
            first, last = group[0], group[-1]
            if holders[name] != first.id and _replace(call, holders[name], last):
                replaced = group
            else:
                holders[name] = first.id
                fresh.append(replace(last, id=first.id))
                replaced = group[1:]
            call.instead |= {job.id: holders[name] for job in replaced}
            call.replaced |= {job.id for job in replaced}
        call.notes[self.name] = holders
        return fresh


def holders(tx: Transaction, jobs: Sequence[CheckedJob]) -> set[str]:
    """The jobs that hold the keys of these jobs, other than these; keys that are free are taken for these, as storing them will do. Other
    sessions wait for the keys until the transaction ends."""
    rows: dict[tuple[str, str], str] = {}
    for job in jobs:
        taken = debouncing.key_of(job.job)
        if taken is not None:
            row = taken.row(job.id, body_hash(job.job.kind, job.args))
            rows.setdefault((taken.scope, taken.name), row)
        elif job.job.debounce is not None:
            name = f"{job.job.kind}:{job.job.debounce.key}"
            rows.setdefault((debouncing.DEBOUNCE, name), debouncing.key_row(name, job.id))
    if not rows:
        return set()
    found = {row[2] for row in tx.run("enqueue.keys", keys=array(rows.values()))}
    return found - {job.id for job in jobs}


def _replace(call: Insertion, holder: str, job: CheckedJob) -> bool:
    """Give a waiting job the content of a later request; False if the job waits no longer."""
    row = call.inserter.row(job, inbox=False, notify=False)
    if not call.tx.run("debounce.replace", id=holder, job=row):
        return False
    for feature in features():
        feature.on_replaced(call, replace(job, id=holder))
    return True


def _check_key(key: object) -> None:
    if not isinstance(key, Key):
        raise ConfigError("key", key, "a Key, for example Key('order-7')")
    if not is_label(key.value):
        raise ConfigError("key", key.value, f"1 to {MAX_LABEL} printable characters")
    if not isinstance(key.scope, KeyScope):
        raise ConfigError("key scope", key.scope, "KeyScope.LIVE or KeyScope.IDEMPOTENT")
    if not timedelta(0) < key.lasts <= LONGEST_DELAY:
        raise ConfigError("key lasts", key.lasts, "a timedelta above zero")
