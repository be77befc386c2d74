"""The store's two databases on Django's own connection, for tests: in the test's transaction, without a connection of their own."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from windlass.clock import Clock
from windlass.errors import SandboxError
from windlass.model import Retention
from windlass.store.database import CHANNEL, EFFECT, Row, Transaction, never
from windlass.store.jobs.enqueue import RepeatRaced
from windlass.store.open_effects import OpenEffect, OpenEffects
from windlass.store.sqlite.connections import Wakeups
from windlass.store.sqlite.database import SqliteDatabase, SqliteTransaction
from windlass.store.sqlite.errors import translate

if TYPE_CHECKING:
    from windlass.integrations.django.hosting import Connected

T = TypeVar("T")
NAME = "the test database of Django"


def _refuse_to_listen(channel: str = CHANNEL) -> NoReturn:
    raise SandboxError(
        "a worker cannot run on the connection of a Django test: run jobs with windlass.testing.Sandbox(app), or, in a "
        "TransactionTestCase, serve Sandbox(app, url=app.url).app"
    )


class HostedSqlite(SqliteDatabase):
    """SQLite, also in memory."""

    def __init__(self, connected: Connected, clock: Clock | None) -> None:
        self._connected = connected
        self._path = NAME
        self._clock = clock
        self._wakeups = Wakeups()
        self.open_effects = OpenEffects(NAME)

    def _on(self, connection: sqlite3.Connection) -> SqliteTransaction:
        return SqliteTransaction(connection, self._micros(), self._path)

    def read(self, verb: str, **parameters: object) -> list[Row]:
        return self._on(self._connected.driver()).run(verb, **parameters)

    def transact(
        self, work: Callable[[Transaction], T], *, waits: bool = False, patience: float | None = None
    ) -> T:
        if self.open_effects.all:
            self.open_effects.refuse(blocks=True)
        while True:
            try:
                with self._connected.atomic() as connection:
                    return work(self._on(connection))
            except RepeatRaced:
                continue
            except sqlite3.Error as error:
                raise translate(error, self._path) from error

    @contextmanager
    def effect(self, seconds: float, opened: OpenEffect | None = None) -> Iterator[SqliteTransaction]:
        with self._connected.atomic() as connection:
            if opened is not None:
                opened.thread = threading.get_ident()
            connection.execute(f"SAVEPOINT {EFFECT}")
            yield self._on(connection)

    listen = staticmethod(_refuse_to_listen)

    def upkeep(self) -> None:
        """Nothing is done beside the test."""

    def close(self) -> None:
        """The connection is Django's."""


def hosted_postgres(connected: Connected, clock: Clock | None) -> Any:
    """PostgreSQL through psycopg 3; imported where it is needed, because the driver is optional."""
    import psycopg
    from psycopg import errors as pg
    from psycopg.rows import tuple_row

    from windlass.store.postgres.database import REPEATS, PostgresDatabase
    from windlass.store.postgres.errors import REPEATABLE, lacks_partition, translated
    from windlass.store.postgres.transaction import PostgresTransaction, read_as_text

    class HostedTransaction(PostgresTransaction):
        """Verbs with cursors of the driver's own kind: those of Django bind values in the client, and read no binary."""

        def confirm(self) -> None:
            self.connection.execute(f"RELEASE SAVEPOINT {EFFECT}")

        def _cursor(self) -> psycopg.Cursor[Row]:
            cursor = psycopg.Cursor(self.connection, row_factory=tuple_row)
            read_as_text(cursor.adapters)
            return cursor

    class HostedPostgres(PostgresDatabase):
        """PostgreSQL on the connection of a test."""

        bulk_from = float("inf")
        notifies = False

        def __init__(self) -> None:
            self._clock = clock
            self._missing_settings = b""

        @contextmanager
        def _connection(self) -> Iterator[Any]:
            with translated(), connected.atomic() as connection:
                yield connection

        @contextmanager
        def reserved(self, need: str) -> Iterator[None]:
            yield

        def _on(self, connection: Any) -> HostedTransaction:
            return HostedTransaction(connection, self._clock, prepare=False)

        def _repeat(self, work: Callable[[Any], T]) -> T:
            with translated():
                for left in reversed(range(REPEATS)):
                    try:
                        with connected.atomic() as connection:
                            return work(connection)
                    except (*REPEATABLE, RepeatRaced, pg.UniqueViolation):
                        if not left:
                            raise
                    except pg.CheckViolation as error:
                        if not left or not lacks_partition(error):
                            raise
                        with connected.atomic() as connection:
                            self._ensure_partitions(connection)
            raise AssertionError("unreachable")

        def transact(
            self, work: Callable[[Transaction], T], *, waits: bool = False, patience: float | None = None
        ) -> T:
            return self._repeat(lambda connection: work(self._on(connection)))

        @contextmanager
        def effect(self, seconds: float, opened: OpenEffect | None = None) -> Iterator[HostedTransaction]:
            with connected.atomic() as connection:
                connection.execute(f"SAVEPOINT {EFFECT}")
                yield HostedTransaction(connection, self._clock, prepare=False, is_foreign=True)

        listen = staticmethod(_refuse_to_listen)

        def now(self) -> datetime:
            if self._clock is not None:
                return self._clock.now()
            with self._connection() as connection:
                found: Sequence[Any] = connection.execute("SELECT clock_timestamp()").fetchone()
                return found[0]  # type: ignore[no-any-return]

        def drop_history(
            self, keep: Retention, *, only_empty: bool = False, is_stopping: Callable[[], bool] = never
        ) -> int:
            return 0

        def upkeep(self) -> None:
            """Nothing is done beside the test, but for a missing partition."""
            with self._connection() as connection:
                self._ensure_partitions(connection)

        def close(self) -> None:
            """The connection is Django's."""

    return HostedPostgres()
