"""Opens SQLite files in the mode the store needs."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self
from urllib.parse import quote, unquote

from windlass.errors import ConfigError, StoreError
from windlass.store.database import ENDED_BY_HANDLER
from windlass.store.sqlite.errors import translated

BUSY_TIMEOUT = 30.0
OLDEST = (3, 38, 0)
CHECKPOINT_PAGES = 4000
"""When a commit moves the log's pages into the file. A job's page is written three times in its life; with a longer log (16 MB) most
of them are moved once."""
LONG_LOG_PAGES = 2 * CHECKPOINT_PAGES
"""A log that a long reader made grow; ordinary ones stay below, and are never cut only to grow again."""
PAGE_BYTES = 4096
MODE_PAUSE = 0.01
CHECKED_STEPS = 100_000
"""How many steps of SQLite's machine pass between two checks of a statement's time: about a millisecond."""


def path_of(url: str) -> str:
    """The file a URL names: ``sqlite:///relative.db``, ``sqlite:////absolute.db``."""
    prefix = "sqlite:///"
    name = unquote(url[len(prefix) :].partition("?")[0]) if url.startswith(prefix) else ""
    if not name or name == ":memory:":
        raise ConfigError(
            "url",
            "sqlite:…",
            "sqlite:///file.db (or sqlite:////absolute/file.db); jobs need a file, not :memory:",
        )
    return name


class GuardedConnection(sqlite3.Connection):
    """A handler's connection: the transaction on it is not the handler's to end, because its job's end belongs to it."""

    def commit(self) -> None:
        raise StoreError(ENDED_BY_HANDLER)

    def rollback(self) -> None:
        raise StoreError(ENDED_BY_HANDLER)

    def executescript(self, script: str, /) -> sqlite3.Cursor:
        raise StoreError(f"executescript() commits before it runs: {ENDED_BY_HANDLER}")

    def __enter__(self) -> Self:
        raise StoreError(f"`with connection` commits at its end: {ENDED_BY_HANDLER}")


class ReaderConnection(sqlite3.Connection):
    """A thread's reading connection; closed after its thread is gone, or when the store is closed or the process forks, while it is not ``busy``:
    to close one under a statement that runs ends the process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.busy = threading.Lock()
        self.must_reopen = False
        """Whether it was closed because the process forked: its owner opens another one."""

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Interrupt what runs in the block after so many seconds."""
        ends_at = time.monotonic() + seconds
        self.set_progress_handler(lambda: time.monotonic() > ends_at, CHECKED_STEPS)
        try:
            yield
        finally:
            self.set_progress_handler(None, 0)

    def __del__(self) -> None:
        self.close()


class ListenerConnection(ReaderConnection):
    """A connection that only checks whether something was committed, and stays open when the store is closed."""


def connect(
    url: str, busy_timeout: float = BUSY_TIMEOUT, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    """A connection in the mode the store needs; the caller begins and ends transactions."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise ConfigError("sqlite", sqlite3.sqlite_version, f"SQLite {'.'.join(map(str, OLDEST))} or newer")
    path = path_of(url)
    with translated(path):
        _make_private(path)
        connection = sqlite3.connect(
            path,
            timeout=busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=factory,
        )
        try:
            _use_log(connection, busy_timeout)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {LONG_LOG_PAGES * PAGE_BYTES}")
        except BaseException:
            connection.close()
            raise
    return connection


def _use_log(connection: sqlite3.Connection, patience: float) -> None:
    """Put the file in WAL mode. SQLite does not wait for a lock where several connections change the mode of a new file: the wait is here."""
    ends_at = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= ends_at:
                raise
        time.sleep(MODE_PAUSE)


def _make_private(path: str) -> None:
    """Make a file that is not there readable by its owner alone: it holds arguments, results and principals. SQLite gives the files
    beside it the same mode. A file that is there keeps its own."""
    with suppress(OSError):  # SQLite's own error says better why a file cannot be made
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def connect_read_only(url: str) -> sqlite3.Connection:
    """A connection that cannot change the file, not even its journal mode."""
    path = path_of(url)
    with translated(path):
        return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=BUSY_TIMEOUT)
