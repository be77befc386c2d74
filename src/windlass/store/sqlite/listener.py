"""Hints on SQLite: other processes' commits show in ``PRAGMA data_version``, this process's own in a queue.

There is no notification across processes, so the version is read every 20 ms: a few microseconds, no lock, no disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty
from typing import Any

from windlass.store.database import LATER, RECONNECTED
from windlass.store.sqlite.connection import ReaderConnection
from windlass.store.sqlite.connections import Wakeups

POLL_EVERY = 0.02
UNKNOWN = -1  # versions of two connections cannot be compared


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
