"""Rules, and ends of their parents that take their time to commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg

from tests.interleavings.sessions import (
    Waiting,
)
from tests.waiting import PATIENCE
from windlass.features import Store
from windlass.model import (
    JobFilter,
    Outcome,
    Verdict,
)
from windlass.model.rule import Rule
from windlass.store.database import Transaction
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.record import apply
from windlass.store.postgres.database import PostgresDatabase

T = TypeVar("T")
PAIR = Rule(
    name="pair", parents=("a", "b"), create="child", phase="child", key=("args.k",), args={"k": "args.k"}
)
EACH = Rule(name="each", parents=("a",), create="child", phase="child")


class SlowCommits(PostgresDatabase):
    """Holds every transaction open until it is let go."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_holding = threading.Event()
        self.go_on = threading.Event()

    def transact(
        self, work: Callable[[Transaction], T], *, waits: bool = False, patience: float | None = None
    ) -> T:
        def and_wait(tx: Transaction) -> T:
            result = work(tx)
            self.is_holding.set()
            self.go_on.wait(PATIENCE)
            return result

        return super().transact(and_wait, waits=waits, patience=patience)


@contextmanager
def slowly(dsn: str, work: Callable[[SlowCommits], T]) -> Iterator[Waiting[T]]:
    """Inside, the work is done and not committed; it is by the end."""
    slow = SlowCommits(dsn)
    doing = Waiting(lambda: work(slow))
    try:
        assert slow.is_holding.wait(PATIENCE)
        yield doing
    finally:
        slow.go_on.set()
        doing.result()
        slow.close()


def ended(outcome: Outcome) -> Callable[[PostgresDatabase], Verdict]:
    """Ends a job on another connection."""

    def work(db: PostgresDatabase) -> Verdict:
        return db.transact(lambda tx: apply(db, Enqueuer(db), tx, [outcome]))[outcome.lease.id]

    return work


def made(store: Store, kind: str = "child") -> int:
    return len(store.jobs.list(JobFilter(kind=kind), limit=1000).jobs)


def impatient(dsn: str) -> None:
    """Whoever waits for a lock from now on fails."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE \"{connection.info.dbname}\" SET lock_timeout = '2s'")
