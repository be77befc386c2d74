"""The transaction of one chunk: begun when it is first used, so that a chunk whose effect is elsewhere has none."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from windlass.errors import WindlassError
from windlass.handlers.own_thread import OwnThread
from windlass.handlers.transaction import JobTransaction
from windlass.model import Output


class ChunkTransaction:
    """The transaction of one chunk, begun when it is first used."""

    def __init__(self, transaction: JobTransaction, thread: OwnThread | None = None) -> None:
        """``thread`` is the one of the loop, in a coroutine."""
        self._transaction = transaction
        self._is_async = thread is not None
        if thread is not None:
            transaction.share(thread)
        self.is_open = False

    @property
    def connection(self) -> Any:
        """The driver's own connection (psycopg or sqlite3). In async handlers use ``await tx.execute`` or ``await tx.run``."""
        if self._is_async:
            raise WindlassError("in an async handler use `await tx.execute(...)` or `await tx.run(function)`")
        return self._opened.connection

    def enqueue(self, job: Any) -> Any:
        """Enqueue a job that exists if and only if this chunk commits."""
        return self._begun.enqueue(job)

    def enqueue_checked(self, job: Any) -> Any:
        """Enqueue a job that its kind has checked already."""
        return self._begun.enqueue_checked(job)

    def enqueue_group(self, entries: Any) -> Any:
        """Enqueue the jobs of a batch or a chain, which were checked already."""
        return self._begun.enqueue_group(entries)

    def put_output(self, name: str, value: Any) -> Output:
        """Store a named output with this chunk."""
        return self._begun.put_output(name, value)

    async def execute(self, query: Any, parameters: Any = ()) -> Any:
        """Run one statement off the event loop; returns the driver's cursor."""
        self.announce()
        return await self.run_here(lambda: self._opened.connection.execute(query, parameters))

    async def run(self, function: Callable[[Any], Any]) -> Any:
        """Run a function of the connection off the event loop."""
        self.announce()
        return await self.run_here(lambda: function(self._opened.connection))

    # ------------------------------------------------------------------ for the chunk

    @property
    def _opened(self) -> JobTransaction:
        if not self.is_open:
            self._begin()
        return self._transaction

    @property
    def _begun(self) -> JobTransaction:
        """Begin the transaction for a call without ``await``. In a coroutine the calling thread is not the one that commits, and SQLite's turn
        to write must be released by the thread that took it: so the transaction's own thread begins it."""
        if self._is_async and not self.is_open:
            self._transaction.announce(blocks=True)
            self._transaction.on_own_thread(self._begin)
        return self._opened

    def _begin(self) -> None:
        self._transaction.__enter__()
        self.is_open = True

    def announce(self) -> None:
        """As ``JobTransaction.announce``, where the next use of the transaction begins it."""
        if not self.is_open:
            self._transaction.announce()

    def opened(self) -> _Open:
        """The transaction, begun, as a block that commits or rolls back."""
        return _Open(self)

    def roll_back(self, error: BaseException) -> None:
        if self.is_open:
            self.is_open = False
            self._transaction.__exit__(type(error), error, error.__traceback__)

    async def run_here(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run something on the transaction's own thread."""
        return await self._transaction.run(function, *arguments)


class _Open:
    """``with``: commits, or rolls back when something raises."""

    def __init__(self, tx: ChunkTransaction) -> None:
        self._tx = tx

    def __enter__(self) -> JobTransaction:
        return self._tx._opened

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tx.is_open = False
        self._tx._transaction.__exit__(kind, error, traceback)
