"""The stream of samples that all watchers of an app share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

from windlass.control.overview_sample import Sample
from windlass.control.topics import Subscription, TopicOver
from windlass.errors import ConfigError
from windlass.ranges import is_number

LONGEST = 86_400.0


def checked_timeout(timeout: float | None) -> float | None:
    """The seconds that a watcher waits for an event; None is without end."""
    if timeout is not None and not is_number(timeout, 0, LONGEST):
        raise ConfigError("timeout", timeout, f"seconds from 0 to {LONGEST:g}, or None")
    return timeout


class Events:
    """Samples of everything, one a second, for one watcher. Iterate over it, ``for`` or ``async for``; with a ``timeout`` the iteration ends when
    no sample came for so many seconds. Close it, or use it in a ``with`` block.

    >>> with app.events() as events:
    ...     for sample in events:
    ...         print(sample.at, sample.phases["welcome"].counts.queued)
    """

    def __init__(self, subscription: Subscription[Sample], timeout: float | None) -> None:
        self._subscription = subscription
        self._timeout = timeout

    def next(self, timeout: float | None = None) -> Sample | None:
        """The next sample; None after ``timeout`` seconds, or when the app or this stream is closed."""
        try:
            return self._subscription.next(checked_timeout(timeout))
        except TopicOver:
            return None

    async def next_async(self, timeout: float | None = None) -> Sample | None:  # noqa: ASYNC109  as the sync form
        """``next`` without blocking the event loop."""
        try:
            return await self._subscription.next_async(checked_timeout(timeout))
        except TopicOver:
            return None

    def __iter__(self) -> Iterator[Sample]:
        try:
            while (sample := self.next(self._timeout)) is not None:
                yield sample
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[Sample]:
        try:
            while (sample := await self.next_async(self._timeout)) is not None:
                yield sample
        finally:
            self.close()

    def close(self) -> None:
        """Stop watching, from any thread: an iteration that waits ends. When the last watcher has left, nothing is read any more."""
        self._subscription.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
