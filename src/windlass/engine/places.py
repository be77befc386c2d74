"""The semaphore that bounds concurrent calls, shared by the workers and the ``process_request`` calls of a process.

A request waits for a place. A worker never waits: a job without a place stays in its queue in memory, and a callback reports a free place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from windlass.errors import ConfigError


class Places:
    """Places for jobs; ``semaphore`` has the ``acquire(blocking=…)`` and ``release()`` of ``threading.Semaphore``."""

    def __init__(self, semaphore: Any) -> None:
        if not callable(getattr(semaphore, "acquire", None)) or not callable(
            getattr(semaphore, "release", None)
        ):
            raise ConfigError(
                "semaphore",
                semaphore,
                "a factory of semaphores: objects with acquire(blocking=…) and release()",
            )
        self.begin(semaphore)
        self._callbacks: tuple[
            Callable[[], None], ...
        ] = ()  # replaced, never changed: it is read without the lock

    def begin(self, semaphore: Any) -> None:
        """Use this semaphore, all of whose places are free; also in a forked child, where no job of the parent runs."""
        self._semaphore = semaphore
        self._lock = threading.Lock()

    def on_free(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` whenever a place becomes free; it must not block. The returned function ends that."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)
        return partial(self._remove, callback)

    def _remove(self, callback: Callable[[], None]) -> None:
        with self._lock:
            self._callbacks = tuple(known for known in self._callbacks if known is not callback)

    def take(self, most: int) -> int:
        """Take up to ``most`` places without waiting; returns how many were free."""
        taken = 0
        while taken < most and self._semaphore.acquire(blocking=False):
            taken += 1
        return taken

    def give_back(self, count: int) -> None:
        """Return places that were taken and not used; callbacks run, because a worker may have found no place meanwhile."""
        for _ in range(count):
            self.leave()

    def leave(self) -> None:
        """Free the place of a job that has ended."""
        self._semaphore.release()
        for callback in self._callbacks:
            callback()

    def __enter__(self) -> Self:
        self._semaphore.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
