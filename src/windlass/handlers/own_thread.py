"""A thread for the transactions of one async handler: the driver is synchronous, and a transaction stays on the thread that began it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class OwnThread:
    """Started when it is first used; a loop of chunks uses one for all its chunks."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._ident: int | None = None

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run a function there. ``RuntimeError`` if the machine cannot start a thread."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "windlass-transaction", self._note)
        return self._executor.submit(function, *arguments)

    def _note(self) -> None:
        self._ident = threading.get_ident()

    def wait_for(self, function: Callable[[], T]) -> T:
        """Run a function there, and wait for it."""
        return function() if threading.get_ident() == self._ident else self.submit(function).result()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function there, off the event loop."""
        future = asyncio.wrap_future(self.submit(partial(function, *arguments)))
        # Not retrieved if this task is cancelled meanwhile, and asyncio would log that.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Shielded: the commit must not be left half way because the job is cancelled.
        return await asyncio.shield(future)

    def dismiss(self) -> None:
        """Let the thread go, when it has done what it was given."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)
