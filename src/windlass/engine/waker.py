"""Turns a notification, a completion or a stop into "look now" for one sleeping thread."""

from __future__ import annotations

import threading


class Waker:
    """An alarm clock for one thread; setting it when it rings already costs nothing."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._is_set = False

    def wake(self) -> None:
        """Wake the thread, or keep it from falling asleep."""
        if not self._is_set:
            self._is_set = True
            self._event.set()

    def sleep(self, seconds: float) -> bool:
        """Sleep until woken, at most so long; True when woken. Whoever wakes us from here on is not missed."""
        woken = self._event.wait(max(0.0, seconds))
        self._event.clear()
        self._is_set = False  # in this order: a wake in between finds it unset at worst once too often
        return woken
