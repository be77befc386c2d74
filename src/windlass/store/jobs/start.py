"""Stores the start of held jobs, before their handlers are entered.

Most jobs need no such note: their claim says that they may be running. Where a feature decides whether a job may begin (flags ``UNBEGUN``), it
does so under the lock of the job's row, in the transaction that stores the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from windlass.model import UNBEGUN, Lease, has_flag
from windlass.store.database import Database, Transaction
from windlass.store.feature import Recording, features
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.rows import leases_json


def start(db: Database, enqueuer: Enqueuer, leases: Sequence[Lease]) -> set[str]:
    """Note durably that these jobs begin; returns those that are still held and may begin."""
    if not any(has_flag(lease.flags, UNBEGUN) for lease in leases):
        return {row[0] for row in db.run("start", leases=leases_json(leases))}
    held, after_commit = db.transact(partial(_start, db, enqueuer, leases))
    for call in after_commit:
        call()
    return held


def _start(
    db: Database, enqueuer: Enqueuer, leases: Sequence[Lease], tx: Transaction
) -> tuple[set[str], Sequence[Callable[[], None]]]:
    call = Recording(tx, enqueuer, db)
    locked = {row[0]: row[2] for row in tx.run("record.lock", leases=leases_json(leases))}
    refused: set[str] = set()
    for feature in features():
        if has_flag(feature.flag, UNBEGUN):
            asked = [job for job, flags in locked.items() if has_flag(flags, feature.flag)]
            if asked:
                refused.update(feature.on_start(call, asked))
    begun = [lease for lease in leases if lease.id not in refused]
    return {row[0] for row in tx.run("start", leases=leases_json(begun))}, call.after_commit
