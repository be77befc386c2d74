"""The part of a context that makes a handler stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from windlass.model.signals import Stopped


class Stopping:
    """Whether a job should stop, and waits that end when it should."""

    _stopping: threading.Event
    _sleepers: tuple[Callable[[], object], ...] = ()
    """Functions that wake coroutines in ``sleep_async``; the class's own value until there are any."""

    @property
    def should_stop(self) -> bool:
        """Whether the job was cancelled, ran out of time, or its instance stops; a long handler checks it now and then."""
        return self._stopping.is_set()

    def check_stop(self) -> None:
        """Raise ``Stopped`` where the job should stop; let it pass through your clean-up."""
        if self._stopping.is_set():
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Sleep in a sync handler, and wake (with ``Stopped``) when the job should stop."""
        if self._stopping.wait(seconds):
            raise Stopped

    async def sleep_async(self, seconds: float) -> None:
        """``sleep`` in an async handler. A worker also cancels the coroutine, so it may wake with ``CancelledError``."""
        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def wake() -> None:
            with suppress(RuntimeError):  # a loop that was closed meanwhile
                loop.call_soon_threadsafe(_settle, woken)

        timer = loop.call_later(seconds, _settle, woken)
        self._sleepers = (*self._sleepers, wake)
        try:
            self.check_stop()  # after the line above: from there on _ask_to_stop wakes this coroutine
            await woken
        finally:
            timer.cancel()
            self._sleepers = tuple(one for one in self._sleepers if one is not wake)
        self.check_stop()

    def _ask_to_stop(self) -> None:
        self._stopping.set()
        for wake in self._sleepers:
            wake()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
