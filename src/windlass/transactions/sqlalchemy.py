"""SQLAlchemy: ``Connection``, ``Session``, ``scoped_session`` and their async forms, on PostgreSQL and SQLite.

The async forms lend their sync ones (``run_sync``), so everything is written for those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from windlass.errors import ConfigError
from windlass.store.database import Row
from windlass.transactions import sqlite
from windlass.transactions.placeholders import Style
from windlass.transactions.protocols import Caller, no_transaction

T = TypeVar("T")
DIALECTS = {"postgresql": "postgres", "sqlite": "sqlite"}


class ConnectionCaller:
    """A connection; SQLAlchemy begins a transaction with its first statement."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        dialect = connection.dialect
        if dialect.name not in DIALECTS or dialect.paramstyle not in list(Style):
            raise ConfigError(
                "transaction", f"SQLAlchemy on {dialect.name}+{dialect.driver}", "one on PostgreSQL or SQLite"
            )
        self.dialect = DIALECTS[dialect.name]
        self.style = Style(dialect.paramstyle)

    def require_transaction(self) -> None:
        if not self._connection.in_transaction():
            self._connection.exec_driver_sql("SELECT 1")  # begins, as any statement of the caller's would
        if self.dialect == "sqlite":
            sqlite.require_transaction(self._connection.connection.driver_connection)
        elif getattr(self._connection.connection.dbapi_connection, "autocommit", False):
            raise no_transaction(
                "a SQLAlchemy connection with isolation_level AUTOCOMMIT",
                "use one with another isolation level",
            )

    @property
    def is_two_phase(self) -> bool:
        """Whether it was begun with ``begin_twophase``, as a session with ``twophase=True`` does."""
        return hasattr(self._connection.get_transaction(), "prepare")

    def begin(self) -> None:
        """On SQLite "begun" means that the driver will begin before the first write; see there."""
        if self.dialect == "sqlite" and not self._connection.connection.driver_connection.in_transaction:
            self.execute("BEGIN IMMEDIATE", ())

    def flush(self) -> None:
        """A connection keeps nothing back."""

    def execute(self, text: str, values: Any) -> list[Row] | None:
        result = self._connection.exec_driver_sql(text, values or None)
        return [tuple(row) for row in result] if result.returns_rows else None


class SessionCaller(ConnectionCaller):
    """A session, also a scoped one, with the connection of its transaction."""

    def __init__(self, session: Any) -> None:
        super().__init__(session.connection())
        self._session = session

    def flush(self) -> None:
        self._session.flush()


class AsyncConnectionCaller:
    """An async connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def lend(self, work: Callable[[Caller], T]) -> T:
        result: T = await self._connection.run_sync(lambda connection: work(ConnectionCaller(connection)))
        return result


class AsyncSessionCaller:
    """An async session, also a scoped one."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def lend(self, work: Callable[[Caller], T]) -> T:
        result: T = await self._session.run_sync(lambda session: work(SessionCaller(session)))
        return result
