"""Closes an object at the end of a ``with`` block, and context managers that an interrupt left open."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


def close_left_open(error: BaseException) -> None:
    """Close the context managers that only the frames of an error still refer to.

    The exception of a signal handler may come when ``__enter__`` has acquired a lock or a connection and the ``with`` statement does not
    have it yet. A caller that keeps the error, as error reporters do, would keep the lock.
    """
    traceback.clear_frames(error.__traceback__)


class Closing(ABC):
    """Has ``close``, which the end of a ``with`` block calls."""

    @abstractmethod
    def close(self) -> None:
        """Release what the object holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
