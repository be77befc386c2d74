"""The classes that a module of this package has for its library: one for sync code, one for async code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from windlass.errors import ConfigError
from windlass.store.database import Row
from windlass.transactions.placeholders import Style

T = TypeVar("T")
Execute = Callable[[str, Any], list[Row] | None]
AsyncExecute = Callable[[str, Any], Awaitable[list[Row] | None]]


class Caller(Protocol):
    """A caller's connection or session, for sync code."""

    @property
    def dialect(self) -> str: ...

    @property
    def style(self) -> Style: ...

    def require_transaction(self) -> None:
        """Refuse if each statement would be committed by itself, as far as that is known."""
        ...

    def begin(self) -> None:
        """Begin the transaction that the driver would begin with the first write, where a savepoint would otherwise be one."""
        ...

    def flush(self) -> None:
        """Send what the caller's session keeps back, so that a fence comes after it."""
        ...

    def execute(self, text: str, values: Any) -> list[Row] | None:
        """Run one statement; None if it returns no rows."""
        ...


class AsyncCaller(Protocol):
    """A caller's connection or session, for coroutines."""

    async def lend(self, work: Callable[[Caller], T]) -> T:
        """Run sync code on it, without blocking the event loop."""
        ...


class DriverCaller(AsyncCaller, Protocol):
    """An async driver, whose statements are awaited one by one."""

    @property
    def dialect(self) -> str: ...

    @property
    def style(self) -> Style: ...

    def require_transaction(self) -> None: ...

    async def execute(self, text: str, values: Any) -> list[Row] | None: ...


def no_transaction(what: str, cure: str) -> ConfigError:
    """The refusal of a connection on which nothing could be rolled back."""
    return ConfigError("transaction", what, because=f"open a transaction first: {cure}")
