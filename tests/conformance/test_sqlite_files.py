"""Who may read a SQLite database: the user who made it, and nobody else unless that user says so."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.life import every_job, one
from windlass.errors import StoreBusyError, StoreError
from windlass.features import open_store
from windlass.model import NewJob
from windlass.store.sqlite.connection import connect


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.usefixtures("open_umask")
def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'jobs.db'}") as store:
        one(store)
        modes = _modes(tmp_path)
    assert set(modes) == {"jobs.db", "jobs.db-wal", "jobs.db-shm"}
    assert set(modes.values()) == {0o600}


@pytest.mark.usefixtures("open_umask")
def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch(0o660)
    path.chmod(0o660)
    with open_store(f"sqlite:///{path}") as store:
        one(store)
        assert set(_modes(tmp_path).values()) == {0o660}


def test_a_relative_file_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///jobs.db", auto_migrate=True) as store:
        monkeypatch.chdir(tmp_path / "other")
        with store.db.effect(5) as tx:
            store.enqueuer.enqueue_in(tx, [NewJob(kind="work")])
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(len(store.jobs.list().jobs)))
        thread.start()
        thread.join()
        assert found == [1]
    assert not (tmp_path / "other" / "jobs.db").exists()


def test_threads_that_end_leave_no_open_file(sqlite_path: Path) -> None:
    """One connection per thread that ever read made 100 short threads cost 200 descriptors. (SQLite itself keeps a few.)"""
    with open_store(f"sqlite:///{sqlite_path}") as store:

        def read_in_threads(n: int) -> int:
            for _ in range(n):
                thread = threading.Thread(target=store.jobs.list)
                thread.start()
                thread.join()
            gc.collect()
            return _open_files()

        first = read_in_threads(100)
        assert read_in_threads(100) - first < 10


def _open_files() -> int:
    folder = Path("/proc/self/fd")
    return sum(1 for _ in folder.iterdir()) if folder.exists() else 0


def test_an_interrupt_leaves_no_transaction_open(sqlite_path: Path) -> None:
    """A signal between BEGIN and the next line left the writer in a transaction for good."""

    is_armed = False

    def interrupt(*_: object) -> None:
        if is_armed:
            raise InterruptedError

    with open_store(f"sqlite:///{sqlite_path}") as store:
        limit, _ = signal.getitimer(signal.ITIMER_REAL)  # the test's own
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for n in range(300):
                with suppress(InterruptedError, StoreError):
                    is_armed = True
                    signal.setitimer(signal.ITIMER_REAL, 0.0002 + (n % 37) * 0.00002)
                    for _ in range(1000):
                        store.enqueue([NewJob(kind="work")])
                is_armed = False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, limit)
        assert store.enqueue([NewJob(kind="work")])[0].created
        counts = store.phases.counts()["work"]
        assert counts.queued == len(every_job(store))


class Contended(sqlite3.Connection):
    """SQLite reports "database is locked" at once, whatever the time-out, where two connections change the mode of a new file at the same moment."""

    refusals = 2

    def execute(self, text: str, *values: Any) -> sqlite3.Cursor:
        if "journal_mode" in text and type(self).refusals:
            type(self).refusals -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_BUSY, "SQLITE_BUSY"
            raise error
        return super().execute(text, *values)


def test_opening_a_new_file_waits_for_others_that_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    connection = connect(url, 30.0, Contended)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    monkeypatch.setattr(Contended, "refusals", 1)
    with pytest.raises(StoreBusyError):
        connect(url, 0.0, Contended)
