"""Transactions that commit long after their statement, while somebody holds a snapshot."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest

from tests.interleavings.sessions import (
    Engine,
    Open,
    assert_consistent,
    claim,
    enqueue,
    percentile,
    user_transaction,
)
from tests.waiting import eventually
from windlass.features import Store
from windlass.model import Completed, NewJob, Released
from windlass.store.jobs.checked import check
from windlass.store.jobs.low_water import FULL_EVERY, FULL_SHARE, LANES, RECENT, LowWaterMarks
from windlass.store.postgres.transaction import PostgresTransaction

pytestmark = pytest.mark.timing

SECONDS = 11.0
PER_SECOND = 1000
SESSIONS = {"inbox": 50, "plain": 25}
LONGEST = {"inbox": 8.0, "plain": 3.0}
SHORTEST = 0.02


@contextmanager
def held_snapshot(dsn: str) -> Iterator[None]:
    """Somebody's report: nothing that dies from now on can be removed."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM windlass.job")
        yield
        connection.rollback()


class LateCommitters:
    """Sessions that enqueue and commit later, one transaction after the other; notes when each commit was done.

    ``inbox`` sessions are callers with a transaction of their own (enqueue_in); ``plain`` ones are enqueues that stall
    between statement and commit, as a process short of CPU would.
    """

    def __init__(self, dsn: str, store: Store, chance: random.Random) -> None:
        self._store, self._chance = store, chance
        self._sessions = [(kind, psycopg.connect(dsn)) for kind, n in SESSIONS.items() for _ in range(n)]
        self.committed: dict[str, dict[str, float]] = {kind: {} for kind in SESSIONS}

    def run(self, seconds: float) -> None:
        """Keep all sessions busy for a while; everything is committed at the end."""
        began = time.monotonic()
        todo = [(began + self._chance.random(), number, "") for number in range(len(self._sessions))]
        heapq.heapify(todo)
        while todo:
            at, number, job_id = heapq.heappop(todo)
            time.sleep(max(0.0, at - time.monotonic()))
            kind, session = self._sessions[number]
            if job_id:
                session.commit()
                self.committed[kind][job_id] = time.perf_counter()
            if (left := began + seconds - time.monotonic()) > 0:
                held = min(left, self._chance.uniform(SHORTEST, LONGEST[kind]))
                heapq.heappush(todo, (time.monotonic() + held, number, self._enqueue(kind, session)))
        for _, session in self._sessions:
            session.close()

    def _enqueue(self, kind: str, session: psycopg.Connection) -> str:
        tx, job = PostgresTransaction(session, None, prepare=False), NewJob(kind="work")
        if kind == "inbox":
            (answer,) = self._store.enqueuer.enqueue_in(tx, [job])
        else:
            (answer,) = self._store.enqueuer.insert(tx, check([job]), inbox=False, is_repeat=False)
        return answer.id


class Stalls:
    """Notes when this process stood still: the instance under test could claim nothing then."""

    def __init__(self) -> None:
        self._gaps: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.perf_counter()
        while not self._over.wait(0.02):
            now = time.perf_counter()
            if now - before > 0.2:
                self._gaps.append((before, now))
            before = now

    def between(self, start: float, end: float) -> float:
        """Seconds of standstill between two moments."""
        return sum(max(0.0, min(end, last) - max(start, first)) for first, last in self._gaps)


@pytest.mark.slow
def test_jobs_that_commit_late_are_found_within_a_second(postgres_dsn: str, stores: Open) -> None:
    """A thousand jobs a second flow, a snapshot is held, and jobs appear behind the low-water marks: committed up to 8 s
    late through the inbox, up to 3 s late as stalled plain inserts. Every one of them is claimed, 99 of 100 within a
    second of their commit; on a busy machine later by what a full scan, which may take a twentieth of the time, is later there. Where
    the whole process stood still meanwhile, that does not count."""
    store, callers = stores(postgres_dsn), stores(postgres_dsn)
    late = LateCommitters(postgres_dsn, callers, random.Random(5))
    flowed: dict[str, float] = {}
    stop = threading.Event()

    def flow() -> None:
        began = time.monotonic()
        while not stop.is_set():
            if (behind := int((time.monotonic() - began) * PER_SECOND) - len(flowed)) > 0:
                at, ids = time.perf_counter(), enqueue(callers, min(behind, 100))
                flowed.update(dict.fromkeys(ids, at))
            time.sleep(0.01)

    with held_snapshot(postgres_dsn), Stalls() as stalls, Engine(store) as engine:
        flowing = threading.Thread(target=flow, daemon=True)
        flowing.start()
        late.run(SECONDS)
        stop.set()
        flowing.join()
        everything = {*flowed, *late.committed["inbox"], *late.committed["plain"]}
        eventually(lambda: len(engine.claimed_at) >= len(everything), "every job to be claimed")
        assert engine.claimed_at.keys() == everything
    usual = percentile([engine.claimed_at[job_id] - at for job_id, at in flowed.items()], 0.5)
    for kind, commits in late.committed.items():
        spans = [(at, engine.claimed_at[job_id]) for job_id, at in commits.items()]
        delays = [claimed - at - stalls.between(at, claimed) for at, claimed in spans]
        assert len(delays) > 20
        print(
            f"{kind}: {len(delays)} late commits, {percentile(delays, 0.5):.3f} / {percentile(delays, 0.95):.3f} / {max(delays):.3f} s"
        )
        assert percentile(delays, 0.99) < 1.0 + FULL_SHARE * usual, f"{kind}: {sorted(delays)[-5:]}, {usual}"
    assert_consistent(postgres_dsn, store)


@pytest.mark.slow
def test_a_late_commit_wakes_an_idle_instance(postgres_dsn: str, stores: Open) -> None:
    """Nothing else goes on: the commit's notification wakes the instance, which finds the job although it lies far
    behind the promoter's mark. By itself it would look ten minutes later."""
    store, callers = stores(postgres_dsn), stores(postgres_dsn)
    delays = []
    with Engine(store, poll=600.0) as engine:
        for _ in range(3):
            with user_transaction(postgres_dsn) as old:
                (late,) = callers.enqueuer.enqueue_in(old, [NewJob(kind="work")])
                time.sleep(RECENT.total_seconds() * 0.6)
                for _ in range(2):  # moves the promoter's mark, and has the next rescan due
                    with user_transaction(postgres_dsn) as new:
                        (quick,) = callers.enqueuer.enqueue_in(new, [NewJob(kind="work")])
                        new.connection.commit()
                    eventually(partial(engine.saw, quick.id), "the quick one")
                    time.sleep(RECENT.total_seconds() * 0.3)
                old.connection.commit()
                committed = time.perf_counter()
            eventually(partial(engine.saw, late.id), "the late one")
            delays.append(engine.claimed_at[late.id] - committed)
    print("idle:", delays)


def test_released_jobs_behind_the_mark_are_served_at_full_speed(postgres_dsn: str, stores: Open) -> None:
    """500 jobs go back to their old place, far behind the mark; a holder that asks for ten at a time gets all of them in
    a row, not ten with every full scan: its clock stands still, so that there is one."""
    store = stores(postgres_dsn)
    holder = store.join()
    holder._marks["work"] = LowWaterMarks(LANES, monotonic=lambda: 0.0)
    ids = enqueue(store, 500)
    leases = claim(holder, 500)
    time.sleep(RECENT.total_seconds() + 0.1)
    enqueue(store, 10)
    holder.record([Completed(lease) for lease in claim(holder, 10)])  # the mark is here now
    holder.record([Released(lease) for lease in leases])
    again = [lease for _ in range(50) for lease in holder.claim("work", 10)]
    assert [lease.id for lease in again] == ids


def test_jobs_released_by_another_instance_are_found_within_a_full_scan(
    postgres_dsn: str, stores: Open
) -> None:
    """Without a nudge (the notification was lost) the full scan finds what went back behind this holder's mark."""
    store, other = stores(postgres_dsn), stores(postgres_dsn)
    first, second = store.join(), other.join()
    now = [0.0]
    first._marks["work"] = LowWaterMarks(LANES, monotonic=lambda: now[0])
    ids = enqueue(store, 20)
    leases = claim(second, 20)
    time.sleep(RECENT.total_seconds() + 0.1)
    enqueue(store, 1)
    claim(first, 1)
    second.record([Released(lease) for lease in leases])
    assert first.claim("work", 20) == []
    now[0] += FULL_EVERY
    assert {lease.id for lease in first.claim("work", 20)} == set(ids)
