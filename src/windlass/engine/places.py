"""The semaphore that bounds concurrent calls, shared by all that run jobs in a process: workers and ``process_request``.

A request waits for a place. A worker never waits: what finds no place stays in its queue in memory, and the worker hears when one is free.
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
                "a factory of semaphores: what it makes has acquire(blocking=…) and release()",
            )
        self._semaphore = semaphore
        self._lock = threading.Lock()
        self._listeners: tuple[
            Callable[[], None], ...
        ] = ()  # exchanged, never changed: it is read without the lock

    def on_free(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Have this called when a place becomes free; it must not wait for anything. Call what this returns to end that."""
        with self._lock:
            self._listeners = (*self._listeners, tell)
        return partial(self._forget, tell)

    def _forget(self, tell: Callable[[], None]) -> None:
        with self._lock:
            self._listeners = tuple(known for known in self._listeners if known is not tell)

    def take(self, most: int) -> int:
        """Take up to ``most`` places without waiting; how many there were."""
        taken = 0
        while taken < most and self._semaphore.acquire(blocking=False):
            taken += 1
        return taken

    def give_back(self, count: int) -> None:
        """Places that were taken and not used: somebody may have asked for one meanwhile and found none."""
        for _ in range(count):
            self.leave()

    def leave(self) -> None:
        """A job has ended."""
        self._semaphore.release()
        for tell in self._listeners:
            tell()

    def __enter__(self) -> Self:
        self._semaphore.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
