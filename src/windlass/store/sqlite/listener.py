"""Hints on SQLite: other processes' commits show in ``PRAGMA data_version``, this process's own in an event.

There is no notification across processes, so the version is read every 20 ms: a few microseconds, no lock, no disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from windlass import forking
from windlass.store.database import LATER, RECONNECTED
from windlass.store.sqlite.connection import ReaderConnection

POLL_EVERY = 0.02
UNKNOWN = -1  # versions of two connections cannot be compared


class Wakeups:
    """Commits of this process, counted; listeners sleep on it."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Make a new lock: a thread of the parent may hold the old one."""
        self._condition = threading.Condition()

    def notify(self) -> None:
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def count(self) -> int:
        return self._count

    def wait(self, seen: int, seconds: float) -> int:
        """Sleep until the count differs from ``seen``, or the time is over; the count now."""
        with self._condition:
            self._condition.wait_for(lambda: self._count != seen, seconds)
            return self._count


class SqliteListener:
    """Returns ``@reconnected`` (scan every phase) whenever anything was committed: SQLite does not say what."""

    is_connected = True

    def __init__(self, connect: Callable[[], Any], wakeups: Wakeups) -> None:
        self._connect = connect
        self._connection: ReaderConnection = connect()
        self._wakeups = wakeups
        self._version = self._read_version()
        self._seen = wakeups.count()

    def wait(self, timeout: float) -> Sequence[str]:
        """Wait for a commit for at most ``timeout`` seconds; empty when none came."""
        deadline = time.monotonic() + timeout
        while True:
            seen = self._wakeups.wait(self._seen, min(POLL_EVERY, max(0.0, deadline - time.monotonic())))
            version = self._read_version()
            if seen != self._seen or version != self._version:
                self._seen, self._version = seen, version
                return (RECONNECTED, LATER)
            if time.monotonic() >= deadline:
                return ()

    def close(self) -> None:
        with self._connection.busy:
            self._connection.close()

    def _read_version(self) -> int:
        with self._connection.busy:
            if not self._connection.must_reopen:
                return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        self._connection = self._connect()
        return UNKNOWN
