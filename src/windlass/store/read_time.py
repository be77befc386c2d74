"""A limit for reads: no statement that a task or thread reads with may take longer. Writes have none: a write that is cut off would only be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_seconds: ContextVar[float | None] = ContextVar("windlass_read_time", default=None)


read_time: Callable[[], float | None] = _seconds.get
"""The seconds that a read may take; None for as long as it takes."""


@contextmanager
def reads_within(seconds: float) -> Iterator[None]:
    """Limit each statement of ``Database.read`` in this task and in the threads that it waits for: the database ends a longer one, and
    ``StoreInterruptedError`` is raised."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)
