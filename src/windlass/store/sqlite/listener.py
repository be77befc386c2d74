"""Hints on SQLite: other processes' commits show in ``PRAGMA data_version``, this process's own in a queue.

There is no notification across processes, so the version is read every 20 ms: a few microseconds, no lock, no disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from windlass import forking
from windlass.store.database import LATER, RECONNECTED
from windlass.store.sqlite.connection import ReaderConnection

POLL_EVERY = 0.02
UNKNOWN = -1  # versions of two connections cannot be compared


class Wakeups:
    """Wakes the listeners of this process after each of its commits.

    Callers' threads call ``notify``, and a signal handler's exception may interrupt them anywhere. So ``notify`` takes no lock: a
    ``threading.Condition`` that is interrupted while it is released stays locked, and every later commit of the process would wait.
    """

    def __init__(self) -> None:
        self._sleepers: tuple[SimpleQueue[None], ...] = ()
        self._lock = threading.Lock()
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Begin anew: the listeners are the parent's."""
        self._lock = threading.Lock()
        self._sleepers = ()

    def notify(self) -> None:
        """Wake the listeners."""
        for sleeper in self._sleepers:
            if sleeper.empty():
                sleeper.put(None)

    def add(self) -> SimpleQueue[None]:
        """A queue that gets an item at each commit."""
        sleeper: SimpleQueue[None] = SimpleQueue()
        with self._lock:
            self._sleepers = (*self._sleepers, sleeper)
        return sleeper

    def remove(self, sleeper: SimpleQueue[None]) -> None:
        """Stop waking this queue."""
        with self._lock:
            self._sleepers = tuple(one for one in self._sleepers if one is not sleeper)


class SqliteListener:
    """Returns ``@reconnected`` (scan every phase) whenever anything was committed: SQLite does not say what."""

    is_connected = True

    def __init__(self, connect: Callable[[], Any], wakeups: Wakeups) -> None:
        self._connect = connect
        self._connection: ReaderConnection = connect()
        self._wakeups = wakeups
        self._sleeper = wakeups.add()
        self._is_interrupted = False
        self._version = self._read_version()

    def wait(self, timeout: float) -> Sequence[str]:
        """Wait for a commit for at most ``timeout`` seconds; empty when none came."""
        deadline = time.monotonic() + timeout
        while True:
            is_woken = self._sleep(min(POLL_EVERY, max(0.0, deadline - time.monotonic())))
            if self._is_interrupted:
                return ()
            version = self._read_version()
            if is_woken or version != self._version:
                self._version = version
                return (RECONNECTED, LATER)
            if time.monotonic() >= deadline:
                return ()

    def _sleep(self, seconds: float) -> bool:
        """Sleep until this process commits something, at most so long; whether it did."""
        try:
            self._sleeper.get(timeout=seconds)
        except Empty:
            return False
        return True

    def interrupt(self) -> None:
        """End the wait of another thread now, and every later wait at once."""
        self._is_interrupted = True
        self._sleeper.put(None)

    def close(self) -> None:
        self._wakeups.remove(self._sleeper)
        with self._connection.busy:
            self._connection.close()

    def _read_version(self) -> int:
        with self._connection.busy:
            if not self._connection.must_reopen:
                return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        self._connection = self._connect()
        return UNKNOWN
