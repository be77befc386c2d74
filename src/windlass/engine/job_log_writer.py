"""Keeps the log lines that handlers write, with their jobs: standard logging, nothing to configure.

A job that logs nothing costs nothing; the lines of others are stored about once a second, all of them in one statement.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from windlass.engine.log_capture import LogCapture
from windlass.features import Store
from windlass.job_logs.lines import LogLine, Pending
from windlass.model import Lease
from windlass.observe.redaction import Secrets

FLUSH_AFTER = 1.0
"""Seconds after which lines are stored."""
MOST_PENDING = 2000
"""Lines that wait while the database takes none; further lines are dropped."""


class _Running(Protocol):
    """The jobs that run here."""

    def running_one(self, lease: Lease) -> object | None: ...


class JobLogWriter:
    """Collects the lines of an instance's jobs and stores them."""

    def __init__(self, store: Store, running: _Running, ask: Callable[[float], None]) -> None:
        self._logs = store.logs
        self._running = running
        self._ask = ask
        self._secrets = Secrets()
        if (url := store.options.get("url")) is not None:
            self._secrets.add_url(url)
        self._capture = LogCapture(self._captured)
        self._lock = threading.Lock()
        self._attempts: dict[tuple[str, int], tuple[Lease, Pending]] = {}
        self._waiting = 0
        self._is_asked = False

    def start(self) -> None:
        self._capture.start()

    def stop(self) -> None:
        """Capture no more; what was captured is still stored by ``flush``."""
        self._capture.stop()

    def _captured(self, lease: Lease, line: LogLine) -> None:
        if self._running.running_one(lease) is not None:
            self.add(lease, line)

    def add(self, lease: Lease, line: LogLine) -> None:
        """Keep a line of a job that runs here, or in a child process; from any thread."""
        line = line._replace(message=self._secrets.hide(line.message))
        with self._lock:
            _, pending = self._attempts.setdefault(
                (lease.id, lease.token), (lease, Pending(lease.attempt, lease.phase))
            )
            if self._waiting >= MOST_PENDING or not pending.add(line):
                return
            self._waiting += 1
            asks, self._is_asked = not self._is_asked, True
        if asks:
            self._ask(FLUSH_AFTER)

    def flush(self) -> None:
        """Store the lines that wait, and forget attempts that ended. Lines that could not be stored wait for the next time."""
        with self._lock:
            taken = {
                key: Pending(pending.attempt, pending.phase, part=pending.part, lines=pending.lines)
                for key, (_, pending) in self._attempts.items()
                if pending.lines
            }
            for key in taken:
                self._attempts[key][1].lines = []
            self._is_asked = False
        try:
            if taken:
                self._logs.put(taken)
        except BaseException:
            self._put_back(taken)
            raise
        with self._lock:
            for key, stored in taken.items():
                self._waiting -= len(stored.lines)
                self._attempts[key][1].part += 1
            for key, (lease, pending) in list(self._attempts.items()):
                if not pending.lines and self._running.running_one(lease) is None:
                    del self._attempts[key]

    def _put_back(self, taken: dict[tuple[str, int], Pending]) -> None:
        with self._lock:
            for key, stored in taken.items():
                self._attempts[key][1].lines[:0] = stored.lines
            self._is_asked = True
        self._ask(FLUSH_AFTER)
