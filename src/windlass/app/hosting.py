"""A framework's test, on whose own connection jobs are stored: in the test's transaction, and rolled back with it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from windlass.clock import Clock

if TYPE_CHECKING:
    from windlass.features import Store

T = TypeVar("T")


class HostingTest(Protocol):
    """The connection of a framework to the database of its tests."""

    @property
    def url(self) -> str:
        """The database of the tests."""
        ...

    def open_store(self, clock: Clock | None = None) -> Store:
        """A store on the connection of the calling thread; it opens no connection of its own."""
        ...

    async def call(self, work: Callable[[], T]) -> T:
        """Call a function from a coroutine, in the thread that has the test's connection."""
        ...

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from sync code; what it does in threads is done in this one, which has the test's connection."""
        ...

    def beside_loop(self, work: Callable[[], T]) -> T:
        """Call a function that uses the connection of the sandbox's test: at once, or, while an event loop runs in this thread, in another
        thread, which has that connection meanwhile."""
        ...

    def after_blocks(self, work: Callable[[], None]) -> AbstractContextManager[None]:
        """While the block runs: call ``work`` whenever the outermost transaction of the code under test has been committed."""
        ...
