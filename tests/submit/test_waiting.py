"""Waiting for ends: one connection a process, announcements while somebody waits, and reads after growing pauses as the net."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.engine.shop import Shop
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE, eventually
from windlass import App, JobHandle, WindlassError, open_store
from windlass.errors import StoreError, WaitEndedError
from windlass.model import Completed
from windlass.store.database import ENDS_CHANNEL
from windlass.store.jobs.ends import EndedResult
from windlass.waiting.waiter import Waiter

pytestmark = pytest.mark.timing


@pytest.fixture
def served(fresh_postgres: FreshPostgres) -> Iterator[Shop]:
    made = Shop(fresh_postgres())
    yield made
    made.close()


def wait_in_threads(jobs: Sequence[JobHandle[Any]]) -> tuple[list[threading.Thread], list[Any]]:
    results: list[Any] = []
    threads = [threading.Thread(target=lambda job=job: results.append(job.result(PATIENCE))) for job in jobs]
    for thread in threads:
        thread.start()
    return threads, results


def connections(shop: Shop) -> int:
    """How many others there are; a session that counted them before may be about to end."""
    return int(
        shop.run(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend' AND query NOT LIKE '%pg_stat_activity%'"
        )[0][0]
    )


def descriptors(path: Path) -> int:
    """Connections of this process to a SQLite file: its open file descriptors."""
    file = path.stat()
    found = 0
    for descriptor in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself, which is closed by now
            opened = os.fstat(int(descriptor.name))
            found += (opened.st_dev, opened.st_ino) == (file.st_dev, file.st_ino)
    return found


def test_any_number_of_callers_cost_one_connection(served: Shop) -> None:
    @served.app.job
    def work(n: int) -> int:
        return n

    jobs = work.enqueue_many([{"n": n} for n in range(100)])
    # The pool gets two connections: a caller and the waiting thread may read at once.
    with served.app.store.db.effect(5):
        served.app.phases.counts()
    before = connections(served)
    threads, results = wait_in_threads(jobs)
    waiter = served.app.parts.waiter
    eventually(lambda: waiter.waited_for() == 100 and connections(served) > before)
    assert connections(served) == before + 1
    served.serve()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(100)) and waiter.waited_for() == 0


def test_any_number_of_callers_cost_two_connections_on_sqlite(sqlite_path: Path) -> None:
    """One that listens and one that reads; each caller's thread opened one of its own."""
    with App(f"sqlite:///{sqlite_path}") as app:

        @app.job
        def work(n: int) -> int:
            return n

        jobs = work.enqueue_many([{"n": n} for n in range(100)])
        app.phases.counts()
        before = descriptors(sqlite_path)
        threads, results = wait_in_threads(jobs)
        waiter = app.parts.waiter
        eventually(lambda: waiter.waited_for() == 100 and descriptors(sqlite_path) >= before + 2)
        assert descriptors(sqlite_path) == before + 2
        holder = app.store.join()
        holder.record([Completed(lease, lease.args["n"]) for lease in holder.claim("work", 100)])
        for thread in threads:
            thread.join()
        assert descriptors(sqlite_path) <= before + 2
        assert sorted(results) == list(range(100)) and waiter.waited_for() == 0


def test_a_thread_that_is_left_behind_can_wait(sqlite_path: Path) -> None:
    """The main thread of the program has ended; pools of Python refuse work from then on."""
    program = """
import sys, threading
from windlass import App

app = App(sys.argv[1])

@app.job
def work() -> str: ...

def wait() -> None:
    threading.main_thread().join()
    job = work.enqueue()
    holder = app.store.join()
    (lease,) = holder.claim("work", 1)
    waiting = threading.Thread(target=lambda: print(job.result()))
    waiting.start()
    holder.complete(lease, "done")
    waiting.join()

threading.Thread(target=wait).start()
"""
    url = f"sqlite:///{sqlite_path}"
    run = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (run.stdout, run.stderr, run.returncode) == ("done\n", "", 0)


@contextmanager
def announcements(shop: Shop) -> Iterator[Callable[[], list[str]]]:
    """Returns what was sent to the channel of ends so far."""
    heard: list[str] = []
    with psycopg.connect(shop.app.url, autocommit=True) as session:
        session.execute(f"LISTEN {ENDS_CHANNEL}".encode())

        def hear() -> list[str]:
            heard.extend(note.payload for note in session.notifies(timeout=0))
            return heard

        yield hear


def test_ends_are_announced_only_while_somebody_waits(served: Shop) -> None:
    @served.app.job
    def work() -> None: ...

    engine = served.serve()
    with announcements(served) as hear:
        work.enqueue_many([{}] * 20)
        served.drained(engine)
        assert hear() == []
    with announcements(served) as hear:
        later = work.options(delay=3600).enqueue()
        waiting = threading.Thread(target=later.wait, args=(PATIENCE,))
        waiting.start()
        eventually(lambda: engine._announcer.is_asked)
        made = work.enqueue_many([{}] * 200)
        eventually(lambda: served.store.phases.counts()["work"].completed == 220)
        eventually(lambda: set(made.ids) <= {job for text in hear() for job in text.split()})
        later.cancel()
        waiting.join()
        assert len(hear()) < 100, "the ends of a step go together"


def test_an_end_that_is_not_announced_is_found_all_the_same(
    served: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    @served.app.job
    def work() -> str:
        return "done"

    monkeypatch.setattr(served.store.ends, "announce", lambda ids: None)
    monkeypatch.setattr(served.store.ends, "ask", lambda: None)
    job = work.enqueue()
    threads, results = wait_in_threads([job])
    eventually(lambda: served.app.parts.waiter.waited_for() == 1)
    served.serve()
    threads[0].join()
    assert results == ["done"]


def test_without_a_listener_ends_are_read_after_pauses(fresh_postgres: FreshPostgres) -> None:
    url = fresh_postgres()
    with App(url, pooled=True) as app:

        @app.job
        def work() -> str:
            return "done"

        job = work.enqueue()
        threads, results = wait_in_threads([job])
        eventually(lambda: app.parts.waiter.waited_for() == 1)
        holder = app.store.join()
        (lease,) = holder.claim("work", 1)
        holder.complete(lease, "done")
        threads[0].join()
        assert results == ["done"]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_only_the_first_read_of_a_job_covers_all_of_history(
    database: str, sqlite_path: Path, fresh_postgres: FreshPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first read finds a job that ended long before; further reads are limited to ends of the last day."""
    with App(f"sqlite:///{sqlite_path}" if database == "sqlite" else fresh_postgres()) as app:

        @app.job
        def work(name: str) -> str:
            return name

        first, last = work.enqueue("old"), work.enqueue("new")
        holder, ends = app.store.join(), app.store.ends
        old, new = holder.claim("work", 2)
        holder.complete(old, "old")
        since: list[datetime | None] = []
        read = ends.of

        def of(ids: Sequence[str], limit: datetime | None = None) -> list[EndedResult]:
            since.append(limit)
            return read(ids, limit)

        monkeypatch.setattr(ends, "of", of)
        assert first.result(PATIENCE) == "old"
        assert since == [None]
        threads, results = wait_in_threads([last])
        eventually(lambda: since[-1] is not None)  # a read after a pause
        holder.complete(new, "new")
        threads[0].join()
        assert results == ["new"]
        assert since[1] is None
        assert all(limit is not None for limit in since[2:])
        assert since[2] is not None
        assert timedelta(hours=23) < datetime.now(UTC) - since[2] < timedelta(hours=25)


class NoEffects:
    open_effects = None
    clock = None


class Flaky:
    """Ends of a store that cannot be read, and then can."""

    hints_without_ids = True

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.reads = 0

    def of(self, ids: Sequence[str], since: object = None) -> list[EndedResult]:
        self.reads += 1
        if 1 < self.reads <= self.failures + 1:
            raise StoreError("away")
        if self.reads == 1:
            return []
        return [EndedResult(job, "work", "completed", "7", None) for job in ids]

    def present(self, ids: Sequence[str]) -> Sequence[str]:
        return ids

    def named(self, hints: Sequence[str]) -> set[str]:
        return set()

    def ask(self) -> None: ...

    def listen(self) -> Any:
        class Silent:
            is_connected = False

            def wait(self, timeout: float) -> Sequence[str]:
                time.sleep(min(timeout, 0.01))
                return ()

            def interrupt(self) -> None: ...

            def close(self) -> None: ...

        return Silent()


def test_an_outage_while_callers_wait_is_outlasted() -> None:
    store: Any = type("Store", (), {"ends": Flaky(failures=2), "is_closed": False, "db": NoEffects})()
    waiter = Waiter(store)
    ended = waiter.wait("01900000-0000-7000-8000-000000000000", PATIENCE)
    assert ended is not None and ended.result == "7"
    assert store.ends.reads > 2
    waiter.close()


def test_the_thread_ends_when_nobody_waits_any_more(served: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.waiting.waiter.LINGER", 0.0)

    @served.app.job
    def work() -> None: ...

    served.serve()
    for _ in range(2):
        work.enqueue().result(PATIENCE)
        eventually(lambda: served.app.parts.waiter._thread is None)


def test_closing_does_not_wait_for_the_listener(served: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.waiting.waiter.LISTEN_FOR", 10 * PATIENCE)
    monkeypatch.setattr("windlass.waiting.waiter.LINGER", 10 * PATIENCE)

    @served.app.job
    def work() -> None: ...

    served.serve()
    work.enqueue().result(PATIENCE)
    waiter = served.app.parts.waiter
    running = waiter._thread
    closing = threading.Thread(target=waiter.close, daemon=True)
    closing.start()
    closing.join(PATIENCE)
    assert running is not None and not running.is_alive()


def test_a_wait_ends_with_its_app_and_another_can_begin(fresh_postgres: FreshPostgres) -> None:
    with open_store(fresh_postgres()) as store:
        app = App(store=store)

        @app.job
        def work() -> str:
            return "done"

        job = work.enqueue()
        waiter = app.parts.waiter
        errors: list[Exception] = []

        def wait() -> None:
            try:
                job.result(PATIENCE)
            except WindlassError as error:
                errors.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        eventually(lambda: waiter.waited_for() == 1)
        app.close()
        waiting.join()
        assert [type(error) for error in errors] == [WaitEndedError]
        second = threading.Thread(target=wait)
        second.start()
        eventually(lambda: waiter.waited_for() == 1)
        holder = store.join()
        holder.record([Completed(lease, "done") for lease in holder.claim("work", 1)])
        second.join()
        assert len(errors) == 1
        waiter.close()


def test_a_store_that_is_closed_ends_the_waits(fresh_postgres: FreshPostgres) -> None:
    store = open_store(fresh_postgres())
    app = App(store=store)

    @app.job
    def work() -> None: ...

    job = work.enqueue()
    errors: list[str] = []

    def wait() -> None:
        try:
            job.result(PATIENCE)
        except StoreError as error:
            errors.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: app.parts.waiter.waited_for() == 1)
    store.close()
    waiting.join()
    assert len(errors) == 1
    app.close()
