"""SQLite's write-ahead log: a reader that stays makes it grow, and it does not stay long when the reader has gone."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.life import enqueue, one
from windlass.features import Store, open_store
from windlass.store.sqlite.connection import LONG_LOG_PAGES, PAGE_BYTES

pytestmark = pytest.mark.timing

LIMIT = LONG_LOG_PAGES * PAGE_BYTES


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Somebody with a snapshot of the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM windlass_job").fetchone()
    try:
        yield
    finally:
        connection.close()


def _size(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


def _grow(store: Store, path: Path) -> None:
    while _size(path) <= LIMIT:
        enqueue(store, n=100, args={"text": "x" * 20_000})


@pytest.fixture
def store(sqlite_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{sqlite_path}") as store:
        yield store


def test_writers_cut_a_long_log(store: Store, sqlite_path: Path) -> None:
    with _reading(sqlite_path):
        _grow(store, sqlite_path)
        enqueue(store, n=100, args={"text": "x" * 20_000})
    for _ in range(2):  # the first moves the log's pages into the file, the second starts the log anew
        one(store)
    assert _size(sqlite_path) <= LIMIT


def test_maintain_cuts_a_long_log_that_nobody_writes_to(store: Store, sqlite_path: Path) -> None:
    with _reading(sqlite_path):
        _grow(store, sqlite_path)
    store.upkeep.maintain()
    assert _size(sqlite_path) == 0
    one(store)


def test_maintain_leaves_an_ordinary_log_as_it_is(store: Store, sqlite_path: Path) -> None:
    """To cut it only to have it grow again would cost every hour."""
    one(store)
    before = _size(sqlite_path)
    store.upkeep.maintain()
    assert _size(sqlite_path) == before > 0


def test_maintain_does_not_wait_long_for_a_reader(store: Store, sqlite_path: Path) -> None:
    """Writers wait while it does; and the connection is as patient afterwards as before."""
    with _reading(sqlite_path):
        _grow(store, sqlite_path)
        began = time.monotonic()
        store.upkeep.maintain()
        assert time.monotonic() - began < 20, "the connection waits for half a minute"
        one(store)
    with store.db._connections.reading() as reader:  # type: ignore[attr-defined]
        patience = reader.execute("PRAGMA busy_timeout").fetchone()[0]
    assert patience == 30_000
