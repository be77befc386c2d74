"""``enqueue`` inside ``transaction.atomic()``: warned of, refused, or stored with the commit (``django.enqueue_in_atomic``).

``enqueue`` uses a connection of Windlass's own and commits at once. Inside an atomic block the job may therefore run before the rows that it
is about are committed, and it stays when the block is rolled back. ``enqueue_in`` is stored by the block's own commit.

The blocks that Django's TestCase puts around a test do not count: they are never committed, and the code under test does not see them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from windlass.app.parts import AppParts
from windlass.errors import EnqueueInAtomicError
from windlass.features import Store
from windlass.model import Enqueued, NewJob
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.store.jobs.checked import CheckedJob, check
from windlass.store.jobs.copy import SameKindJobs
from windlass.store.sqlite.connection import path_of
from windlass.store.sqlite.write_lock import holds_write_lock
from windlass.submit.submitter import Submitter

WHY = "it may run before the commit, and it stays if the block is rolled back"
OWN_LOCK = (
    "this thread's own transaction holds the only write lock of {file}, and enqueue writes through another connection, which would wait for that "
    "lock until the block ends"
)
OWN_LOCK_CURES = "call enqueue_in(connection, ...) instead, or enqueue in a function of transaction.on_commit, or set django.enqueue_in_atomic to 'defer'"
CURES = "call enqueue_in(connection, ...) instead, or set django.enqueue_in_atomic to 'defer', or to 'allow' if that is meant"


class InAtomic:
    """The rule of one app. ``mode`` returns the setting; ``is_home`` says whether a connection leads to the database of the jobs."""

    def __init__(self, mode: Callable[[], str], is_home: Callable[[Any], bool]) -> None:
        self._mode = mode
        self._is_home = is_home
        self._warned: set[str] = set()

    def wrap(self, parts: AppParts, submitter: Submitter) -> Submitter:
        """A submitter that follows the rule."""
        return cast(Submitter, AtomicSubmitter(self, parts, submitter))

    def block(self, kind: str, store: Store) -> Any:
        """The connection whose atomic block the jobs are to be stored with; None if they are stored at once, in ``store``."""
        blocks = open_blocks()
        if not blocks:
            return None
        connection, mode = next(filter(self._is_home, blocks), blocks[0]), self._mode()
        if mode == "error":
            raise EnqueueInAtomicError(kind, connection.alias, WHY, CURES)
        if mode != "defer":
            _refuse_own_lock(kind, blocks, store)
        if mode == "warn" and kind not in self._warned:
            self._warned.add(kind)  # once for each kind: a view is called many times
            emit(events.ENQUEUED_IN_ATOMIC, kind=kind, database=connection.alias, reason=f"{WHY}; {CURES}")
        return connection if mode == "defer" else None

    def is_home(self, connection: Any) -> bool:
        return self._is_home(connection)


class AtomicSubmitter:
    """A ``Submitter`` that asks the rule first. Jobs that it defers have their ids at once."""

    def __init__(self, rule: InAtomic, parts: AppParts, submitter: Submitter) -> None:
        self._rule = rule
        self._parts = parts
        self._submitter = submitter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._submitter, name)

    def submit(self, job: NewJob) -> Enqueued:
        made = self.deferred([job])
        return self._submitter.submit(job) if made is None else made[0]

    async def submit_async(self, job: NewJob) -> Enqueued:
        made = await _in_django(self.deferred)([job])
        return await self._submitter.submit_async(job) if made is None else made[0]

    def submit_many(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued]:
        made = self.deferred(jobs)
        return self._submitter.submit_many(jobs) if made is None else made

    async def submit_many_async(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued]:
        made = await _in_django(self.deferred)(jobs)
        return await self._submitter.submit_many_async(jobs) if made is None else made

    def submit_group(self, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        made = self._deferred_group(entries)
        return self._submitter.submit_group(entries) if made is None else made

    async def submit_group_async(self, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        made = await _in_django(self._deferred_group)(entries)
        return await self._submitter.submit_group_async(entries) if made is None else made

    def deferred(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued] | None:
        """Store jobs with the commit of the open block; None if they are to be stored at once."""
        kind = jobs.job.kind if isinstance(jobs, SameKindJobs) else jobs[0].kind if jobs else None
        connection = None if kind is None else self._rule.block(kind, self._submitter.store)
        if connection is None:
            return None
        given = jobs.jobs() if isinstance(jobs, SameKindJobs) else jobs
        if self._rule.is_home(connection):
            return self._parts.transaction_submitter.submit(connection, given)
        return self._on_commit(connection, check(given))

    def _deferred_group(self, entries: Sequence[CheckedJob]) -> list[Enqueued] | None:
        connection = self._rule.block(entries[-1].job.kind, self._submitter.store)
        if connection is None:
            return None
        if self._rule.is_home(connection):
            return self._parts.transaction_submitter.submit_group(connection, entries)
        return self._on_commit(connection, entries)

    def _on_commit(self, connection: Any, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        """Store jobs right after the commit, on a database of their own. A key might find another job then, whose id is unknown now."""
        for entry in entries:
            job = entry.job
            if job.key is not None or job.debounce is not None or job.throttle is not None:
                raise EnqueueInAtomicError(
                    job.kind,
                    connection.alias,
                    "its jobs are in another database, so it is stored after the commit, and its key might find another job then",
                    "enqueue it with transaction.on_commit, or after the block",
                )
        # Through the rule again: another block may still be open around this one.
        transaction.on_commit(lambda: self.submit_group(entries), using=connection.alias)
        return [Enqueued(entry.id, created=True) for entry in entries]


class HandlerRule:
    """The rule for ``ctx.enqueue``, which commits at once, too: what ``kind.enqueue`` would do."""

    def __init__(self, parts: AppParts) -> None:
        self._parts = parts

    def deferred(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        if not open_blocks():
            return None
        submitter = cast(AtomicSubmitter, self._parts.serving().submitter)
        return submitter.deferred(jobs)

    async def deferred_async(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        made: list[Enqueued] | None = await _in_django(self.deferred)(jobs)
        return made


def open_blocks() -> list[Any]:
    """The connections of this thread that are inside an atomic block of the application."""
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
        and not all(getattr(block, "_from_testcase", False) for block in connection.atomic_blocks)
    ]


def _refuse_own_lock(kind: str, blocks: Sequence[Any], store: Store) -> None:
    """Raise if a block of this thread holds the write lock that the store needs: the block cannot end while this call waits.

    A block that has only read holds none, unless its transaction was begun to write (``transaction_mode`` IMMEDIATE). A store on Django's
    own connection, in tests, has no URL and needs no other lock.
    """
    url = store.options.get("url")
    if url is None or store.db.dialect != "sqlite":
        return
    file = path_of(url)
    for block in blocks:
        driver = block.connection
        if isinstance(driver, sqlite3.Connection) and holds_write_lock(driver, file):
            raise EnqueueInAtomicError(kind, block.alias, OWN_LOCK.format(file=file), OWN_LOCK_CURES)


def _in_django(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function in the thread that has Django's connections for this coroutine."""
    return cast(Callable[..., Any], sync_to_async(function, thread_sensitive=True))
