"""Queues SIGTERM and SIGINT: the first signal requests a stop, a second one ends the wait for running jobs.

A service manager sends SIGTERM to all processes of a service, and the parent of several workers passes it on, so each worker receives
one request twice. A SIGTERM within a second of the first signal is therefore an echo of it. A second Ctrl-C comes from a person and
counts at once.

Signals are read from a pipe that the interpreter writes to the moment they arrive, in any thread. A handler in Python is not enough: it
runs in the main thread, which may be waiting for a lock (2 of 90 signals to a busy worker were noticed only when something else woke
it). Processes that a job forks would write to the same pipe, so ``fork_safe_signals`` restores their earlier signal handlers.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable

from windlass.engine.processes import fork_safe_signals

ECHO = 1.0


class StopSignals:
    """The stop signals of this process since ``install``. Any thread may wait, one at a time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._unread: deque[tuple[int, float]] = deque()
        self._first: tuple[int, float] | None = None

    def install(self) -> None:
        """Receive both signals from here on; main thread only. The pipe stays open as long as the process."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        fork_safe_signals.handle_here((signal.SIGTERM, signal.SIGINT), _is_in_the_pipe)

    def add(self, number: int) -> None:
        """Add a signal that came another way."""
        os.write(self._writer, bytes([number]))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a signal that counts; returns False if none came in time."""
        deadline = None if timeout is None else self._monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - self._monotonic())
            if not self._unread and not self._read(left):
                return False
            number, at = self._unread.popleft()
            if self._first is None:
                self._first = number, at
                return True
            if number != signal.SIGTERM or at - self._first[1] >= ECHO:
                return True

    def _read(self, timeout: float | None) -> bool:
        if not select.select([self._reader], [], [], timeout)[0]:
            return False
        numbers = [
            number for number in os.read(self._reader, 512) if number in (signal.SIGTERM, signal.SIGINT)
        ]
        self._unread.extend((number, self._monotonic()) for number in numbers)
        return bool(numbers) or self._read(timeout)

    @property
    def is_stopping(self) -> bool:
        return self._first is not None

    @property
    def is_interrupted(self) -> bool:
        """Whether the first signal was Ctrl-C."""
        return self._first is not None and self._first[0] == signal.SIGINT


def _is_in_the_pipe(_number: int, _frame: object) -> None:
    """Do nothing: without a handler the signal would end the process."""
