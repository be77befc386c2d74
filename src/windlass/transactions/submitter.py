"""Enqueueing in a caller's transaction: the jobs exist if and only if it commits, and from then on.

Nothing is opened for it: what is written goes through the caller's connection alone. Plain jobs are one statement with one JSON
parameter. Keys, dependencies and ids of the caller's own need several; those run behind a savepoint, so that a refusal
(``KeyConflictError``, say) leaves nothing behind in a transaction that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from typing_extensions import TypeIs  # typing's own from 3.13 on

import windlass.features  # noqa: F401  the statements of the first call have to have their parts
from windlass.clock import Clock
from windlass.errors import StoreError
from windlass.model import Enqueued, NewJob
from windlass.store.jobs.checked import CheckedJob, check, is_plain
from windlass.store.jobs.enqueue import Inserter, RepeatRaced
from windlass.store.jobs.notify_throttle import INBOX
from windlass.transactions.detect import async_caller, sync_caller
from windlass.transactions.placeholders import as_sqlite
from windlass.transactions.protocols import AsyncCaller, Caller, DriverCaller
from windlass.transactions.transaction import CallerTransaction, join, require, run_verb

TRIES = 5


class TransactionSubmitter:
    """Submits jobs to one database in transactions of its callers. Safe to share between threads and event loops."""

    def __init__(self, dialect: str, clock: Clock | None = None) -> None:
        self._dialect = dialect
        self._clock = clock
        self._inserter = (
            Inserter(as_sqlite, notifies=False) if dialect == "sqlite" else Inserter(datetime.isoformat)
        )

    def submit(self, where: Any, jobs: Sequence[NewJob], *, notify: bool = True) -> list[Enqueued]:
        """Store jobs in the transaction of a sync connection or session.

        Its commit notifies waiting workers; but not with ``notify=False``, nor where the transaction is known to be committed in
        two phases: PostgreSQL does not prepare a transaction that notifies.
        """
        return self._submit(sync_caller(where), jobs, notify)

    async def submit_async(
        self, where: Any, jobs: Sequence[NewJob], *, notify: bool = True
    ) -> list[Enqueued]:
        """Store jobs in the transaction of an async connection or session."""
        caller = async_caller(where)
        if not _is_driver(caller) or not all(is_plain(job) for job in jobs):
            return await caller.lend(lambda caller: self._submit(caller, jobs, notify))
        require(caller, self._dialect)
        entries = check(jobs)
        if entries:
            rows = self._inserter.rows(entries, inbox=True, notify=notify and not _is_two_phase(caller))
            if await run_verb(caller, self._clock, "enqueue", jobs=rows):
                self._inserter.notify_throttle.note_notified([INBOX])
        return [Enqueued(entry.id, created=True) for entry in entries]

    def submit_group(
        self, where: Any, entries: Sequence[CheckedJob], *, notify: bool = True
    ) -> list[Enqueued]:
        """Store the jobs of a batch or a chain in the transaction of a sync connection or session."""
        return self._submit_group(sync_caller(where), entries, notify)

    async def submit_group_async(
        self, where: Any, entries: Sequence[CheckedJob], *, notify: bool = True
    ) -> list[Enqueued]:
        """Store the jobs of a batch or a chain in the transaction of an async connection or session."""
        return await async_caller(where).lend(lambda caller: self._submit_group(caller, entries, notify))

    def _submit(self, caller: Caller, jobs: Sequence[NewJob], notify: bool) -> list[Enqueued]:
        tx = join(caller, self._dialect, self._clock)
        notify = notify and not _is_two_phase(caller)
        if all(is_plain(job) for job in jobs):
            return self._inserter.enqueue_in(tx, jobs, notify=notify)
        return _all_or_nothing(tx, lambda: self._inserter.enqueue_in(tx, jobs, notify=notify))

    def _submit_group(self, caller: Caller, entries: Sequence[CheckedJob], notify: bool) -> list[Enqueued]:
        tx = join(caller, self._dialect, self._clock)
        notify = notify and not _is_two_phase(caller)
        return _all_or_nothing(tx, lambda: self._inserter.enqueue_group_in(tx, entries, notify=notify))


def _all_or_nothing(tx: CallerTransaction, insert: Callable[[], list[Enqueued]]) -> list[Enqueued]:
    """Insert behind a savepoint; again, where a repeated enqueue met its first self."""
    for _ in range(TRIES):
        try:
            with tx.all_or_nothing():
                return insert()
        except RepeatRaced:
            continue
    raise StoreError(
        "a job with one of these ids is being moved, and this transaction cannot see where to; nothing was enqueued. Roll back "
        "and repeat it, with isolation level READ COMMITTED if it has another"
    )


def _is_two_phase(caller: Caller | AsyncCaller) -> bool:
    """Whether a transaction will be prepared, as far as its library says so."""
    return bool(getattr(caller, "is_two_phase", False))


def _is_driver(caller: AsyncCaller) -> TypeIs[DriverCaller]:
    return hasattr(caller, "execute")
