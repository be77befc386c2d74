"""A retry by hand beside the end of its job and beside other retries: it makes a generation, or says why not (PostgreSQL)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.interleavings.sessions import BOOM, Open, Waiting, claim, enqueue, until_blocked, user_transaction
from windlass.errors import IllegalTransitionError
from windlass.features import Store
from windlass.store.database import Row, Transaction
from windlass.store.jobs.queries import Jobs

pytestmark = pytest.mark.timing

T = TypeVar("T")


class Meeting:
    """A database on which something happens after a verb has run for the first time."""

    def __init__(self, store: Store, **after: Callable[[], object]) -> None:
        self._db: Any = store.db
        self._after = {verb.replace("_", "."): happens for verb, happens in after.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def transact(self, work: Callable[[Transaction], T]) -> T:
        result: T = self._db.transact(lambda tx: work(MeetingTransaction(tx, self._after)))
        return result


class MeetingTransaction:
    def __init__(self, tx: Transaction, after: dict[str, Callable[[], object]]) -> None:
        self._tx: Any = tx
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def run(self, verb: str, **parameters: object) -> list[Row]:
        rows: list[Row] = self._tx.run(verb, **parameters)
        if happens := self._after.pop(verb, None):
            happens()
        return rows


@pytest.fixture
def store(postgres_dsn: str, stores: Open) -> Store:
    return stores(postgres_dsn)


def test_a_retry_that_another_one_overtook_is_refused(store: Store) -> None:
    """The job ends after the look for its end, and is retried by somebody else after the look at its state: there is one new generation,
    and only one of the two is told that it made it."""
    (job_id,) = enqueue(store)
    holder = store.join()
    (lease,) = claim(holder)
    db: Any = Meeting(
        store, retry_peek=lambda: holder.fail(lease, BOOM), get=lambda: store.jobs.retry(job_id)
    )
    with pytest.raises(IllegalTransitionError, match="queued"):
        Jobs(db).retry(job_id)
    assert store.jobs.get(job_id).generation == 2


def test_a_retry_of_a_job_that_ends_meanwhile_makes_a_generation(store: Store) -> None:
    (job_id,) = enqueue(store)
    holder = store.join()
    (lease,) = claim(holder)
    db: Any = Meeting(store, retry_peek=lambda: holder.fail(lease, BOOM))
    assert Jobs(db).retry(job_id).generation == 2


def test_of_two_retries_at_once_one_makes_a_generation(postgres_dsn: str, store: Store) -> None:
    (job_id,) = enqueue(store)
    holder = store.join()
    holder.fail(claim(holder)[0], BOOM)
    with user_transaction(postgres_dsn) as tx:
        assert store.jobs.retry_in(tx, job_id, False)
        other = Waiting(lambda: store.jobs.retry(job_id))
        until_blocked(postgres_dsn, other)
        tx.connection.commit()
        with pytest.raises(IllegalTransitionError, match="queued"):
            other.result()
    assert store.jobs.get(job_id).generation == 2
