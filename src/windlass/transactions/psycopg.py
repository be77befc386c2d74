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


class PsycopgCaller:
    """A connection. Our cursors are our own: what kind of cursor and row its owner likes does not matter."""

    dialect = "postgres"
    style = Style.PYFORMAT

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def require_transaction(self) -> None:
        _require_transaction(self._connection)

    @property
    def is_two_phase(self) -> bool:
        return _is_two_phase(self._connection)

    def begin(self) -> None:
        """The driver begins before the first statement, whichever it is."""

    def flush(self) -> None:
        """Nothing is kept back."""

    def execute(self, text: str, values: Any) -> list[Row] | None:
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description is not None else None


class AsyncPsycopgCaller:
    """An async connection."""

    dialect = "postgres"
    style = Style.PYFORMAT

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    def require_transaction(self) -> None:
        _require_transaction(self._connection)

    @property
    def is_two_phase(self) -> bool:
        return _is_two_phase(self._connection)

    async def execute(self, text: str, values: Any) -> list[Row] | None:
        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(text.encode(), values)
            return await cursor.fetchall() if cursor.description is not None else None

    async def lend(self, work: Callable[[Caller], T]) -> T:
        return await run_in_thread(self.execute, lambda execute: work(_Bridged(self._connection, execute)))


class _Bridged(PsycopgCaller):
    def __init__(self, connection: Any, execute: Execute) -> None:
        super().__init__(connection)
        self._execute = execute

    def execute(self, text: str, values: Any) -> list[Row] | None:
        return self._execute(text, values)


def _is_two_phase(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Whether it was begun with ``tpc_begin``."""
    return getattr(connection, "_tpc", None) is not None


def _require_transaction(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    if connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
        raise no_transaction("a psycopg connection with autocommit", "`with connection.transaction():`")
