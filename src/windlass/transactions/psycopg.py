"""psycopg 3: ``Connection`` and ``AsyncConnection``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from windlass.store.database import Row
from windlass.transactions.async_bridge import run_in_thread
from windlass.transactions.placeholders import Style
from windlass.transactions.protocols import Caller, Execute, no_transaction

T = TypeVar("T")


class _Connected:
    """What sync and async connections have in common."""

    dialect = "postgres"
    style = Style.PYFORMAT

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def require_transaction(self) -> None:
        idle = TransactionStatus.IDLE
        if self._connection.autocommit and self._connection.info.transaction_status is idle:
            raise no_transaction("a psycopg connection with autocommit", "`with connection.transaction():`")

    @property
    def is_two_phase(self) -> bool:
        """Whether it was begun with ``tpc_begin``."""
        return getattr(self._connection, "_tpc", None) is not None


class PsycopgCaller(_Connected):
    """A connection. Our cursors are our own: what kind of cursor and row its owner likes does not matter. ``execute`` replaces the
    cursor where the connection is an async one."""

    def __init__(
        self, connection: Connection[Any] | AsyncConnection[Any], execute: Execute | None = None
    ) -> None:
        super().__init__(connection)
        self._replaced = execute  # not a method of this object: a cycle would keep the connection after its owner dropped it

    def begin(self) -> None:
        """The driver begins before the first statement, whichever it is."""

    def flush(self) -> None:
        """Nothing is kept back."""

    def execute(self, text: str, values: Any) -> list[Row] | None:
        if self._replaced is not None:
            return self._replaced(text, values)
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description is not None else None


class AsyncPsycopgCaller(_Connected):
    """An async connection."""

    async def execute(self, text: str, values: Any) -> list[Row] | None:
        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(text.encode(), values)
            return await cursor.fetchall() if cursor.description is not None else None

    async def lend(self, work: Callable[[Caller], T]) -> T:
        return await run_in_thread(
            self.execute, lambda execute: work(PsycopgCaller(self._connection, execute))
        )
