"""Jobs in Django's tests: on the connection of the test, in its transaction, and gone with it.

A ``TestCase`` never commits. A connection of Windlass's own would see nothing of it, would keep the test database from being dropped, and
cannot reach SQLite's test database in memory at all.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from windlass.arguments.asyncness import is_on_a_loop
from windlass.clock import Clock
from windlass.errors import ConfigError, SandboxError
from windlass.features import Store
from windlass.integrations.django.hosted_databases import HostedSqlite, hosted_postgres

T = TypeVar("T")
RELEASE = "RELEASE SAVEPOINT"


def is_testing() -> bool:
    """Whether the test environment of Django is set up, by its own runner or by pytest-django. Django keeps there what it restores
    afterwards; ``mail.outbox``, which each test case makes, stays."""
    utils = sys.modules.get("django.test.utils")
    return utils is not None and hasattr(utils._TestState, "saved_data")


class Connected:
    """Django's connection to one database: the one of each calling thread; but the one of the test for all threads where it is given, and
    for threads without any, such as those of ``asyncio.to_thread``, while the test has an open transaction."""

    def __init__(self, alias: str, inside: threading.local, only: Any = None) -> None:
        self._alias = alias
        self._inside = inside
        """Its ``depth`` is the number of atomic blocks of Windlass's own that are open in the thread."""
        self._only = only
        self._of_test: Any = None

    def driver(self) -> Any:
        """The driver's connection."""
        connection = self._chosen()
        connection.ensure_connection()
        return connection.connection

    def _chosen(self) -> Any:
        mine = connections[self._alias]
        if self._only is not None:
            return self._only
        if mine.in_atomic_block:
            self._of_test = mine
        elif mine.connection is None and self._of_test is not None and self._of_test.in_atomic_block:
            return self._of_test
        return mine

    @contextmanager
    def atomic(self) -> Iterator[Any]:
        """The driver's connection in an atomic block of Django's."""
        self._inside.depth = getattr(self._inside, "depth", 0) + 1
        try:
            with self._lent():
                block = transaction.atomic(using=self._alias)
                block._from_testcase = (
                    True  # not a block of the code under test, which is warned of `enqueue` in its own
                )
                with block:
                    yield self.driver()
        finally:
            self._inside.depth -= 1

    @contextmanager
    def _lent(self) -> Iterator[None]:
        """Use the chosen connection in this thread."""
        with lending(self._alias, self._chosen()):
            yield


@contextmanager
def lending(alias: str, lent: Any) -> Iterator[None]:
    """Use a connection of another thread in this one, as Django does it for its live server."""
    mine = connections[alias]
    if mine is lent:
        yield
        return
    lent.inc_thread_sharing()
    connections[alias] = lent
    try:
        yield
    finally:
        connections[alias] = mine
        lent.dec_thread_sharing()


class DjangoTest:
    """The connection of Django's tests to the database of the jobs."""

    def __init__(self, alias: str, find_url: Callable[[], str]) -> None:
        self._alias = alias
        self._find_url = find_url
        self._inside = threading.local()
        self._of_sandbox: Any = None
        """The connection of the newest sandbox."""

    @property
    def url(self) -> str:
        return self._find_url()

    def open_store(self, clock: Clock | None = None) -> Store:
        """A store on the connection of the calling thread. With a clock, for a sandbox, all threads use that connection: handlers may
        write in threads of their own."""
        connection = connections[self._alias]
        if clock is not None:
            if connection.connection is None and is_on_a_loop():
                raise SandboxError(
                    "this sandbox is made in the thread of an event loop, which does not have the connection of the test: make it in "
                    "setUp, or with `box = await sync_to_async(Sandbox)(app)`"
                )
            self._of_sandbox = connection
        connected = Connected(self._alias, self._inside, connection if clock is not None else None)
        if connection.vendor == "sqlite":
            return Store(HostedSqlite(connected, clock))
        if connection.Database.__name__ != "psycopg":
            raise ConfigError(
                "DATABASES", self._alias, because="tests with jobs need psycopg 3 (`pip install psycopg`)"
            )
        return Store(hosted_postgres(connected, clock))

    async def call(self, work: Callable[[], T]) -> T:
        made: T = await sync_to_async(work, thread_sensitive=True)()
        return made

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        async def awaited() -> T:
            return await coroutine

        made: T = async_to_sync(awaited)()
        return made

    def beside_loop(self, work: Callable[[], T]) -> T:
        """Django refuses its connections in a thread with an event loop. This thread waits, so the connection is used by one thread."""
        if self._of_sandbox is None or not is_on_a_loop():
            return work()

        def lent() -> T:
            with lending(self._alias, self._of_sandbox):
                return work()

        with ThreadPoolExecutor(1, thread_name_prefix="windlass-sandbox") as thread:
            return thread.submit(copy_context().run, lent).result()

    @contextmanager
    def after_blocks(self, work: Callable[[], None]) -> Iterator[None]:
        """Call ``work`` after each outermost atomic block of the code under test. In a ``TestCase`` such a block is a savepoint, whose
        release passes through Django's wrappers of statements; elsewhere it is a commit, which has a hook."""
        connection = self._of_sandbox or connections[self._alias]  # an async test runs in another thread
        depth = len(connection.savepoint_ids)
        is_in_test = connection.in_atomic_block

        def watch(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
            result = execute(sql, params, many, context)
            if getattr(self._inside, "depth", 0):
                return result
            if is_in_test:
                if sql.startswith(RELEASE) and len(connection.savepoint_ids) == depth:
                    work()
            elif connection.in_atomic_block and all(
                entry[1] is not work for entry in connection.run_on_commit
            ):
                connection.on_commit(work)
            return result

        with connection.execute_wrapper(watch):
            yield
