"""Several sessions on one PostgreSQL, made to meet where it hurts: what the tests of this folder share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import psycopg

from tests.waiting import PATIENCE, eventually
from windlass.features import Store
from windlass.model import Completed, Counts, JobError, Lease, NewJob
from windlass.store.database import LATER, NUDGE
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.low_water import FULL_EVERY
from windlass.store.postgres.transaction import PostgresTransaction

T = TypeVar("T")
BOOM = JobError(type="Boom", code="boom", message="it broke")


def enqueue(store: Store, n: int = 1, kind: str = "work", **options: Any) -> list[str]:
    return [answer.id for answer in store.enqueue([NewJob(kind=kind, **options) for _ in range(n)])]


def claim(holder: Holder, n: int = 1, phase: str = "work") -> list[Lease]:
    """Claim exactly n, whatever the low-water mark believes."""
    leases: list[Lease] = []

    def has_all() -> bool:
        leases.extend(holder.claim(phase, n - len(leases)))
        return len(leases) == n

    eventually(has_all, f"{n} jobs of {phase} to claim")
    return leases


@contextmanager
def user_transaction(dsn: str) -> Iterator[PostgresTransaction]:
    """A transaction on a caller's own, unprepared connection; rolled back unless the test commits it."""
    with suppress(psycopg.OperationalError), psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the server's default is
        yield PostgresTransaction(connection, None, prepare=False, is_foreign=True)
        connection.rollback()


Open = Callable[[str], Store]


class Waiting(Generic[T]):
    """A call on a thread of its own that is expected to wait for somebody's lock."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future: Future[T] = self._pool.submit(work)

    def is_done(self) -> bool:
        return self._future.done()

    def result(self, seconds: float = PATIENCE) -> T:
        try:
            return self._future.result(seconds)
        finally:
            self._pool.shutdown(wait=False)


def blocked_sessions(dsn: str) -> int:
    """How many sessions of this database wait for a lock."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return _blocked(connection)


def _blocked(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def until_blocked(dsn: str, call: Waiting[Any], n: int = 1) -> None:
    """Wait until a call really waits for a lock; the interleaving under test begins there."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        eventually(lambda: _blocked(connection) >= n or call.is_done(), "the call to wait for a lock")
    assert not call.is_done(), f"it did not wait: {call.result()!r}"


def deadlocks(dsn: str) -> int:
    """Deadlocks the server has counted in this database; sessions report them at the latest when they end."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])


class Stopwatch:
    """Durations of repeated operations, by name."""

    def __init__(self) -> None:
        self.took: dict[str, list[float]] = {}

    def time(self, name: str, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        began = time.perf_counter()
        result = work(*arguments, **options)
        self.took.setdefault(name, []).append(time.perf_counter() - began)
        return result

    def assert_no_wait(self, seconds: float) -> None:
        """None of the operations waited ``seconds`` for the transaction under test.

        The fastest of each is judged: what waits for a transaction waits every time and for all of it, what meets a busy moment does
        so now and then.
        """
        fastest = {name: round(min(took), 3) for name, took in self.took.items()}
        print("fastest:", fastest)
        slow = {name: took for name, took in fastest.items() if took >= seconds}
        assert not slow, f"every one of these took {seconds} s: {slow}"


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


_REAL = """
SELECT phase, place, count(*) FROM (
    SELECT phase, CASE WHEN token IS NULL THEN 'queued' ELSE 'processing' END AS place FROM windlass.job
    UNION ALL
    SELECT phase, CASE reason WHEN 'inbox' THEN 'queued' WHEN 'scheduled' THEN 'scheduled' WHEN 'retry' THEN 'scheduled'
        ELSE 'waiting' END FROM windlass.job_later
    UNION ALL
    SELECT phase, state FROM windlass.job_done
) AS jobs GROUP BY phase, place
"""


def assert_consistent(dsn: str, store: Store) -> None:
    """The counts equal the rows, no id is in two tables, and no side table keeps anything of a job that ended."""
    real: dict[str, dict[str, int]] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for phase, place, n in connection.execute(_REAL):
            real.setdefault(phase, {})[place] = n
        told = {phase: counts for phase, counts in store.phases.counts().items() if counts != Counts()}
        assert told == {phase: Counts(**places) for phase, places in real.items()}
        doubled = connection.execute(
            "SELECT id, count(*) FROM windlass.jobs GROUP BY id HAVING count(*) > 1"
        ).fetchall()
        assert doubled == []
        left = connection.execute(
            "SELECT 'output', job FROM windlass.output WHERE job IN (SELECT id FROM windlass.job_done) UNION ALL "
            "SELECT 'checkpoint', job FROM windlass.checkpoint WHERE job IN (SELECT id FROM windlass.job_done) UNION ALL "
            "SELECT 'live key', job FROM windlass.job_key WHERE scope = 'live' AND job IN (SELECT id FROM windlass.job_done)"
        ).fetchall()
        assert left == []


class Engine:
    """As much of an instance as pickup needs: promotes, links, claims and completes, woken by notifications.

    After a wake-up it looks again for a moment, because a notification that was held back belongs to a commit that comes a
    little later, and then until a full scan was due, because what it was woken for may lie behind the low-water mark;
    otherwise it looks once a second, as an engine with a listener does.
    """

    def __init__(self, store: Store, phase: str = "work", *, batch: int = 100, poll: float = 1.0) -> None:
        self.claimed_at: dict[str, float] = {}
        self.errors: list[BaseException] = []
        self.is_listening = threading.Event()
        self._store, self._phase, self._batch, self._poll = store, phase, batch, poll
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Engine:
        self._thread.start()
        assert self.is_listening.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self.errors, self.errors

    def saw(self, job_id: str) -> bool:
        return job_id in self.claimed_at

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # noqa: BLE001  shown to the test, which would wait in vain
            self.errors.append(error)

    def _loop(self) -> None:
        holder, listener = self._store.join(), self._store.listen()
        # Whether somebody waits is read by the statement of a caller's transaction, not by its commit, so an instance that
        # is busy at that moment must be told all the same: it always waits for the inbox.
        self._store.db.wait([LATER], 60.0)
        self.is_listening.set()
        hinted_at = 0.0
        while not self._stop.is_set():
            if self._look(holder):
                continue
            self._store.db.wait([self._phase], 2.0)
            if self._look(holder):
                continue
            since = time.monotonic() - hinted_at
            hints = listener.wait(
                0.02 if since < 0.06 else FULL_EVERY / 2 if since < 2 * FULL_EVERY else self._poll
            )
            if f"{NUDGE}{self._phase}" in hints:
                holder.nudge(self._phase)
            if hints:
                hinted_at = time.monotonic()
        listener.close()
        holder.leave()

    def _look(self, holder: Holder) -> bool:
        moved = sum(self._store.upkeep.promote().values()) + self._store.dependencies.link()
        leases = holder.claim(self._phase, self._batch)
        now = time.perf_counter()
        for lease in leases:
            self.claimed_at.setdefault(lease.id, now)
        if leases:
            holder.record([Completed(lease) for lease in leases])
        return bool(moved or leases)
