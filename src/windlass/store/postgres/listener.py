"""LISTEN on a connection that does nothing else.

It is probed, reconnects by itself, and reports that: hints may have been missed while it was away, so the instance scans
every phase once. Behind a pooler without a direct URL there is nothing to listen to, and waiting is only waiting.
"""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import psycopg

from windlass.errors import StoreUnreachableError
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
    """Listens on one channel of a database."""

    def __init__(self, url: str | None, channel: str = CHANNEL) -> None:
        self._url = url
        self._channel = channel
        self._connection: psycopg.Connection | None = None
        self._pause = 0.1
        self._closed = threading.Event()
        try:
            self._interrupted, self._interrupting = socket.socketpair()
        except OSError as error:  # too many open files
            raise StoreUnreachableError(f"the notification listener could not be opened: {error}") from error
        self._interrupting_lock = threading.Lock()
        self._had_connection = False
        self._connect()

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def wait(self, timeout: float) -> Sequence[str]:
        """Wait for hints for at most ``timeout`` seconds; empty when none came."""
        deadline = time.monotonic() + timeout
        if self._connection is None and not self._connect():
            self._is_readable(None, deadline=min(deadline, time.monotonic() + self._pause))
            self._pause = min(LONGEST_WAIT, self._pause * 2)
            return ()
        if self._had_connection is False:
            self._had_connection = True
            return (RECONNECTED,)
        connection = self._connection
        if connection is None:
            return ()
        try:
            hints = _received(connection)  # what came with an earlier reply is not in the socket any more
            if not hints and self._is_readable(connection, deadline):
                hints = _received(connection)
        except (psycopg.Error, OSError) as error:
            log.warning(
                "the notification listener lost its connection (%s); polling until it is back",
                type(error).__name__,
            )
            self._drop()
            return ()
        return hints

    def interrupt(self) -> None:
        """End the wait of another thread now, and every later wait at once."""
        with self._interrupting_lock:
            if not self._closed.is_set():
                self._interrupting.send(b"!")  # which is never read

    def close(self) -> None:
        with self._interrupting_lock:
            self._closed.set()
            self._interrupted.close()
            self._interrupting.close()
        self._drop()

    def _is_readable(self, connection: psycopg.Connection | None, deadline: float) -> bool:
        """Wait until the connection has something to read; False at the deadline and for an interrupted wait."""
        if self._closed.is_set():
            return False
        poll = select.poll()
        poll.register(self._interrupted, select.POLLIN)
        if connection is not None:
            poll.register(connection, select.POLLIN)
        ready = poll.poll(math.ceil(max(0.0, deadline - time.monotonic()) * 1000))
        return bool(ready) and all(fd != self._interrupted.fileno() for fd, _ in ready)

    def _connect(self) -> bool:
        if self._url is None or self._closed.is_set():
            return False
        try:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=5, **KEEPALIVE)
            self._connection.execute("SET idle_session_timeout = 0")
            self._connection.execute(f"LISTEN {self._channel}")
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


def _received(connection: psycopg.Connection) -> list[str]:
    return [note.payload for note in connection.notifies(timeout=0)]
