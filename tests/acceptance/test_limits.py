"""Limits kept by real worker processes, one of which is killed: never more than N of a key at once (I-28)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.limited_app import TABLES, Book
from tests.waiting import eventually
from windlass import processes as process
from windlass.features import Store, open_store
from windlass.model import JobFilter, JobLimit, NewJob, State

pytestmark = pytest.mark.timing

ROOT = Path(__file__).parents[2]
WORKERS, LIMIT, KEYS = 4, 3, ("ada", "bob")
QUICK = ("--set", "lease=12", "--set", "heartbeat=1", "--set", "margin=1", "--set", "recovery=0.2")
"""A lease that ends in a live worker lets its jobs run a second time, beside those that were let in in their place."""


class Crew:
    """Worker processes on one database."""

    def __init__(self, url: str) -> None:
        self._environment = {**os.environ, "WINDLASS_DATABASE_URL": url}
        self.workers = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "windlass",
            "worker",
            "tests.acceptance.limited_app:app",
            "--level",
            "error",
            *QUICK,
        ]
        return subprocess.Popen(
            command, cwd=ROOT, env=self._environment, preexec_fn=process.die_with_parent, start_new_session=True
        )  # fmt: skip

    def kill_one(self, book: Book) -> bool:
        """Kill a worker that is in the middle of something, and start another in its place; False where none is."""
        found = book.run("SELECT pid FROM run WHERE ended IS NULL ORDER BY began DESC LIMIT 1")
        if not found:
            return False
        pid = found[0][0]
        victim = next(worker for worker in self.workers if worker.pid == pid)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        book.run("INSERT INTO dead (pid, at) SELECT ?, {now}", pid)
        self.workers[self.workers.index(victim)] = self._start()
        return True

    def stop(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()


@contextmanager
def children(url: str) -> Iterator[Crew]:
    made = Crew(url)
    try:
        yield made
    finally:
        made.stop()


def submit(store: Store, jobs: int) -> None:
    """As many jobs for each key, in turns."""
    store.enqueue(
        [
            NewJob(
                kind="visit",
                args={"key": key, "n": n, "seconds": 0.05 + n % 3 / 20},
                max_attempts=9,
                limits=[JobLimit(phase="visit", key=key, limit=LIMIT)],
            )
            for n in range(jobs)
            for key in KEYS
        ]
    )


def most_at_once(book: Book, key: str) -> int:
    """The largest number of runs of a key that overlapped; one that was killed ran until its process was dead."""
    runs = book.run(
        "SELECT r.began, COALESCE(r.ended, (SELECT min(d.at) FROM dead AS d WHERE d.pid = r.pid)) FROM run AS r WHERE r.key = ?",
        key,
    )
    assert all(ended is not None for _, ended in runs)
    moments = sorted([(began, 1) for began, _ in runs] + [(ended, -1) for _, ended in runs])
    now = most = 0
    for _, step in moments:
        now += step
        most = max(most, now)
    return most


@pytest.mark.slow
def test_four_workers_never_run_more_than_three_of_a_key_even_when_one_is_killed(url: str) -> None:
    jobs = 25
    with open_store(url) as store:
        store.upkeep.maintain()
        book = Book(url)
        for table in TABLES:
            book.run(table)
        with children(url) as workers:
            submit(store, jobs)
            eventually(lambda: _done(store) >= 0.2 * jobs * len(KEYS))
            eventually(lambda: workers.kill_one(book))
            eventually(lambda: _done(store) == jobs * len(KEYS))
        for key in KEYS:
            assert 1 < most_at_once(book, key) <= LIMIT
            (beside,) = book.run("SELECT max(beside) + 1 FROM run WHERE key = ?", key)[0]
            assert 1 < beside <= LIMIT, "counted by the handlers themselves"
        assert book.run("SELECT count(*) FROM dead")[0][0] == 1
        assert len(
            store.jobs.list(JobFilter(kind="visit", state=State.COMPLETED), limit=1000).jobs
        ) == jobs * len(KEYS)
        assert store.limits.check() == []
        assert {(gate.admitted, gate.waiting) for gate in store.limits.gates()} == {(0, 0)}
        book.close()


def _done(store: Store) -> int:
    counts = store.phases.counts().get("visit")
    return counts.completed if counts else 0
