"""Topics: values that one thread reads and many subscribers get."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class TopicOver(Exception):  # noqa: N818  the end of a stream, not an error
    """The topic has no further value."""


class Topic(Generic[T]):
    """The newest value of something that is read again and again. A slow subscriber misses values in between, never the newest one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wakers: set[Callable[[], None]] = set()
        self._value: tuple[int, T] | None = None
        self._is_over = False
        self.subscribers = 0

    @property
    def value(self) -> T | None:
        """The newest value, if there is one."""
        return None if self._value is None else self._value[1]

    def put(self, value: T) -> None:
        """Give all subscribers a value."""
        with self._changed:
            self._value = (1 if self._value is None else self._value[0] + 1), value
            self._wake()

    def end(self) -> None:
        """Let all subscribers end, once they have the newest value."""
        with self._changed:
            self._is_over = True
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        for waker in tuple(self._wakers):
            waker()

    def wake(self) -> None:
        """Let all that wait check whether they are to go on."""
        with self._changed:
            self._wake()

    def after(self, seen: int) -> tuple[int, T] | None:
        """The newest value with its number, if it is newer than ``seen``; ``TopicOver`` if none will come."""
        if self._value is not None and self._value[0] > seen:
            return self._value
        if self._is_over:
            raise TopicOver
        return None

    def wait(self, find: Callable[[], tuple[int, T] | None], timeout: float | None) -> tuple[int, T] | None:
        """Wait until ``find`` returns a value or raises; None after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while (found := find()) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            return found

    async def wait_async(
        self,
        find: Callable[[], tuple[int, T] | None],
        timeout: float | None,  # noqa: ASYNC109  as the sync form
    ) -> tuple[int, T] | None:
        """``wait`` without blocking the event loop and without a thread."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def waker() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(changed.set)

        with self._changed:
            self._wakers.add(waker)
        try:
            async with asyncio.timeout(timeout):
                while (found := find()) is None:
                    await changed.wait()
                    changed.clear()
                return found
        except TimeoutError:
            return None
        finally:
            with self._changed:
                self._wakers.discard(waker)


class Subscription(Generic[T]):
    """One subscriber of a topic; close it, or use it in a ``with`` block."""

    def __init__(self, topic: Topic[T], leave: Callable[[], None]) -> None:
        self._topic = topic
        self._leave = leave
        self._seen = 0
        self._is_closed = False

    def next(self, timeout: float | None = None) -> T | None:
        """The next value; None after ``timeout`` seconds. Raises ``TopicOver`` behind the last one, and when the subscription is closed."""
        return self._got(self._topic.wait(self._find, timeout))

    async def next_async(self, timeout: float | None = None) -> T | None:  # noqa: ASYNC109  as the sync form
        """``next`` without blocking the event loop."""
        return self._got(await self._topic.wait_async(self._find, timeout))

    def _find(self) -> tuple[int, T] | None:
        if self._is_closed:
            raise TopicOver
        return self._topic.after(self._seen)

    def _got(self, found: tuple[int, T] | None) -> T | None:
        if found is None:
            return None
        self._seen = found[0]
        return found[1]

    def close(self) -> None:
        """Leave the topic; a call of ``next`` that waits, on another thread or in another task, ends."""
        if not self._is_closed:
            self._is_closed = True
            self._leave()
            self._topic.wake()
