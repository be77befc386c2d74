"""SQLite: the standard library's ``sqlite3.Connection`` and aiosqlite's ``Connection``.

The transaction must be on the file that the jobs are in. It holds the file's one write lock from its first write to its end, so
it should be short.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from windlass.store.database import Row
from windlass.transactions.async_bridge import run_in_thread
from windlass.transactions.placeholders import Style
from windlass.transactions.protocols import Caller, Execute, no_transaction

T = TypeVar("T")


class _Connected:
    """What the connections of both libraries have in common."""

    dialect = "sqlite"
    style = Style.NAMED

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def require_transaction(self) -> None:
        require_transaction(self._connection)


class SqliteCaller(_Connected):
    """A connection of the standard library. Our cursors are our own: its owner's kind of row does not matter. ``execute`` replaces
    the cursor where the connection is aiosqlite's."""

    def __init__(self, connection: Any, execute: Execute | None = None) -> None:
        super().__init__(connection)
        self._replaced = execute  # not a method of this object: a cycle would keep the connection after its owner dropped it

    def begin(self) -> None:
        """Outside of a transaction a savepoint is one, and its release a commit; so begin before the driver would."""
        if not self._connection.in_transaction:
            self.execute("BEGIN IMMEDIATE", ())

    def flush(self) -> None:
        """Nothing is kept back."""

    def execute(self, text: str, values: Any) -> list[Row] | None:
        if self._replaced is not None:
            return self._replaced(text, values)
        cursor = self._connection.cursor()
        try:
            cursor.row_factory = None
            cursor.execute(text, values)
            return cursor.fetchall() if cursor.description is not None else None
        finally:
            cursor.close()


class AiosqliteCaller(_Connected):
    """A connection of aiosqlite, which keeps one of the standard library's on a thread."""

    async def execute(self, text: str, values: Any) -> list[Row] | None:
        async with self._connection.cursor() as cursor:
            cursor.row_factory = None
            await cursor.execute(text, values)
            return list(await cursor.fetchall()) if cursor.description is not None else None

    async def lend(self, work: Callable[[Caller], T]) -> T:
        return await run_in_thread(
            self.execute, lambda execute: work(SqliteCaller(self._connection, execute))
        )


def require_transaction(connection: Any) -> None:
    """Refuse a connection that commits each statement; one that begins by itself before a write will do."""
    if connection.in_transaction:
        return
    autocommit = _autocommit(connection)
    if autocommit is True or (autocommit is not False and connection.isolation_level is None):
        raise no_transaction("a SQLite connection that commits each statement", "`BEGIN IMMEDIATE`")


def _autocommit(connection: Any) -> Any:
    """True, False, or neither: then ``isolation_level`` decides, as it always does before Python 3.12."""
    try:
        return getattr(getattr(connection, "_conn", connection), "autocommit", None)
    except sqlite3.ProgrammingError:  # aiosqlite's inner connection refuses other threads
        return None
