"""LISTEN on a connection that does nothing else.

It is probed, reconnects by itself, and reports that: hints may have been missed while it was away, so the instance scans
every phase once. Behind a pooler without a direct URL there is nothing to listen to, and waiting is only waiting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import psycopg

from windlass.observe.logger import get_logger
from windlass.store.database import CHANNEL, RECONNECTED

log = get_logger("windlass.store")

LONGEST_WAIT = 5.0
# A peer that vanished without closing the connection is noticed in about ten seconds, with or without something to send.
KEEPALIVE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class PostgresListener:
    """Listens on the one channel of a database."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._connection: psycopg.Connection | None = None
        self._pause = 0.1
        self._closed = threading.Event()
        self._had_connection = False
        self._connect()

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def wait(self, timeout: float) -> Sequence[str]:
        """Wait for hints for at most ``timeout`` seconds; empty when none came."""
        deadline = time.monotonic() + timeout
        if self._connection is None and not self._connect():
            self._closed.wait(min(timeout, self._pause))
            self._pause = min(LONGEST_WAIT, self._pause * 2)
            return ()
        if self._had_connection is False:
            self._had_connection = True
            return (RECONNECTED,)
        connection = self._connection
        if connection is None:
            return ()
        try:
            hints = [
                note.payload
                for note in connection.notifies(timeout=max(0.0, deadline - time.monotonic()), stop_after=1)
            ]
            hints += [note.payload for note in connection.notifies(timeout=0)] if hints else []
        except (psycopg.Error, OSError) as error:
            log.warning(
                "the notification listener lost its connection (%s); polling until it is back",
                type(error).__name__,
            )
            self._drop()
            return ()
        return hints

    def close(self) -> None:
        self._closed.set()
        self._drop()

    def _connect(self) -> bool:
        if self._url is None or self._closed.is_set():
            return False
        try:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=5, **KEEPALIVE)
            self._connection.execute("SET idle_session_timeout = 0")
            self._connection.execute(f"LISTEN {CHANNEL}")
        except psycopg.Error:
            self._drop()
            return False
        self._pause = 0.1
        self._had_connection = False
        return True

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
