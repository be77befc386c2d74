"""Redis saves work and decides nothing (I-26): whatever happens to it, the database lets each thing happen once."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from tests.locks.conftest import Opener
from tests.locks.server import OwnValkey
from tests.waiting import PATIENCE
from windlass import Context, Key
from windlass.app.app import App
from windlass.engine.one_job import OneJobRunner, Status
from windlass.locks import fallback

pytestmark = [pytest.mark.slow, pytest.mark.timing]


@pytest.fixture(autouse=True)
def _probe_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "PROBE_EVERY", 0.1)


@contextmanager
def _hurting(server: OwnValkey) -> Iterator[None]:
    """While the block runs the server is emptied all the time, and frozen now and then."""
    over = threading.Event()

    def hurt() -> None:
        with server.client() as client:
            for turn in itertools.count():
                if over.wait(0.005):
                    return
                with suppress(redis.RedisError):
                    client.flushall()
                if turn % 100 == 50:
                    with server.frozen():
                        over.wait(0.7)

    thread = threading.Thread(target=hurt)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _in_threads(number: int, work: Callable[[int], None]) -> None:
    raised: list[BaseException] = []

    def run(place: int) -> None:
        try:
            work(place)
        except BaseException as error:  # noqa: BLE001  the test must hear of it
            raised.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert raised == []


def test_one_job_per_key_whatever_happens_to_redis(
    own_valkey: OwnValkey, opened_locks: Opener, sqlite_path: Path
) -> None:
    """64 threads of four processes submit; a fifth of the keys are equal. The lock is lost in between, the unique index is not."""
    processes = [
        opened_locks(own_valkey.hasty_url, worker=f"worker-{number}", ttl_ms=1000) for number in range(4)
    ]
    with App(f"sqlite:///{sqlite_path}") as app:

        @app.job
        def order(number: str) -> None: ...

        def submit(place: int) -> None:
            for turn in range(20):
                key = f"same-{turn % 4}" if turn % 5 == 0 else f"own-{place}-{turn}"
                with processes[place % 4].acquire(key):  # with or without it: who was refused submits, too
                    assert order.options(key=Key(key)).enqueue(number=key).id

        with _hurting(own_valkey):
            _in_threads(64, submit)
    with sqlite3.connect(sqlite_path) as connection:
        found = Counter(row[0] for row in connection.execute("SELECT args ->> 'number' FROM windlass_job"))
    connection.close()
    assert set(found.values()) == {1}
    assert len(found) == 4 + 64 * 16


def test_one_effect_per_job_whatever_happens_to_redis(
    own_valkey: OwnValkey, opened_locks: Opener, sqlite_path: Path
) -> None:
    """Eight processes are told of the same jobs at once. Locks end under their feet; each charge is committed once."""
    url = f"sqlite:///{sqlite_path}"
    with App(url) as app:

        @app.job
        def charge(number: int, ctx: Context) -> None:
            time.sleep(0.02)
            with ctx.transaction() as tx:
                tx.connection.execute("INSERT INTO charged VALUES (?)", (number,))

        jobs = [item.id for item in charge.enqueue_many([{"number": number} for number in range(30)])]
        with sqlite3.connect(sqlite_path) as connection:
            connection.execute("CREATE TABLE charged (number)")
        connection.close()
        callers = [
            OneJobRunner(
                app.store,
                app.parts.registry,
                locks=opened_locks(own_valkey.hasty_url, worker=f"worker-{place}"),
            )
            for place in range(8)
        ]
        answers: Counter[Status] = Counter()

        def process(place: int) -> None:
            for job in jobs:
                answers[callers[place].process(job).status] += 1

        with _hurting(own_valkey):
            _in_threads(8, process)
        for caller in callers:
            caller.close()
        states = Counter(app.store.jobs.get(job).state for job in jobs)
    with sqlite3.connect(sqlite_path) as connection:
        charged = Counter(row[0] for row in connection.execute("SELECT number FROM charged"))
    connection.close()
    assert charged == dict.fromkeys(range(30), 1)
    assert states == {"completed": 30}
    assert answers[Status.COMPLETED] == 30
    assert set(answers) <= {Status.COMPLETED, Status.ALREADY_DONE, Status.LOCK_HELD, Status.HELD}
