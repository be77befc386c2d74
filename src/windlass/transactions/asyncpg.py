"""asyncpg: ``Connection``, also one that a pool lent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from windlass.store.database import Row
from windlass.transactions.async_bridge import run_in_thread
from windlass.transactions.placeholders import Style
from windlass.transactions.protocols import Caller, Execute, no_transaction

T = TypeVar("T")


class AsyncpgCaller:
    """A connection."""

    dialect = "postgres"
    style = Style.DOLLAR

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def require_transaction(self) -> None:
        if not self._connection.is_in_transaction():
            raise no_transaction(
                "an asyncpg connection outside of a transaction", "`async with connection.transaction():`"
            )

    async def execute(self, text: str, values: Any) -> list[Row] | None:
        return [tuple(record) for record in await self._connection.fetch(text, *values)]

    async def lend(self, work: Callable[[Caller], T]) -> T:
        return await run_in_thread(self.execute, lambda execute: work(_Bridged(self, execute)))


class _Bridged:
    """The connection for sync code, which runs on a thread."""

    dialect = AsyncpgCaller.dialect
    style = AsyncpgCaller.style

    def __init__(self, caller: AsyncpgCaller, execute: Execute) -> None:
        self.require_transaction = caller.require_transaction
        self.execute = execute

    def begin(self) -> None:
        """Begun, or it would have been refused."""

    def flush(self) -> None:
        """Nothing is kept back."""
