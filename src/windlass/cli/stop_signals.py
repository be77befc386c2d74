"""SIGTERM and SIGINT as a queue: the first one asks to stop, a further one not to wait for running jobs.

A service manager sends SIGTERM to all processes of a service, and the parent of several workers passes it on: so each of them hears one request
twice. A SIGTERM within a second of the first signal is therefore an echo of it. A second Ctrl-C is a person's, and counts at once.

The handlers put into a queue and do nothing else. That may be done in the middle of anything, unlike setting an event: its lock is
not reentrant, and a signal that comes while the main thread has it would wait for itself.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

ECHO = 1.0


class StopSignals:
    """What this process was told since ``install``."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._heard: SimpleQueue[tuple[int, float]] = SimpleQueue()
        self._first: tuple[int, float] | None = None

    def install(self) -> None:
        """Hear both signals from here on; main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.hear)

    def hear(self, number: int, _frame: object = None) -> None:
        self._heard.put((number, self._monotonic()))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a signal that counts; False when none came in time."""
        deadline = None if timeout is None else self._monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - self._monotonic())
            try:
                number, at = self._heard.get(timeout=left)
            except Empty:
                return False
            if self._first is None:
                self._first = number, at
                return True
            if number != signal.SIGTERM or at - self._first[1] >= ECHO:
                return True

    @property
    def is_stopping(self) -> bool:
        return self._first is not None

    @property
    def is_interrupted(self) -> bool:
        """Whether the first one was Ctrl-C."""
        return self._first is not None and self._first[0] == signal.SIGINT
