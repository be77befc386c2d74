"""A start and an expiry that meet: exactly one of the two happens, and no duty waits for a transaction of others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.conformance.life import LEASE, assert_counts_are_true, claim_one, one, state
from tests.interleavings.sessions import Waiting, until_blocked
from tests.waiting import PATIENCE
from windlass.clock import ManualClock
from windlass.expiry.store import end_overdue
from windlass.features import Store, open_store
from windlass.model import Debounce, NewJob, State
from windlass.store.database import Transaction
from windlass.store.feature import Recording
from windlass.store.jobs.start import _start

pytestmark = pytest.mark.timing


@pytest.fixture
def pair(postgres_dsn: str, clock: ManualClock) -> Iterator[tuple[Store, Store]]:
    """Two instances on one PostgreSQL, with one clock."""
    with open_store(postgres_dsn, clock=clock) as first, open_store(postgres_dsn, clock=clock) as second:
        yield first, second


@contextmanager
def open_transaction(store: Store, work: Callable[[Transaction], Any]) -> Iterator[None]:
    """A transaction that did this and is not committed yet; it is committed when the block ends."""
    has_run, may_end = threading.Event(), threading.Event()

    def run(tx: Transaction) -> None:
        work(tx)
        has_run.set()
        assert may_end.wait(PATIENCE)

    call = Waiting(lambda: store.db.transact(run))
    assert has_run.wait(PATIENCE)
    try:
        yield
    finally:
        may_end.set()
        call.result()


def test_a_start_that_came_first(pair: tuple[Store, Store], clock: ManualClock) -> None:
    """The duty finds the job due and locked, and leaves it out."""
    store, other = pair
    job, holder = one(store, expires=5), store.join(lease=LEASE)
    lease = claim_one(holder)
    with open_transaction(store, partial(_start, store.db, store.enqueuer, [lease])):
        clock.advance(6)
        assert other.expiries.cancel_due() == 0
    assert other.expiries.cancel_due() == 0 and state(store, job) is State.PROCESSING
    holder.complete(lease)
    assert_counts_are_true(store)


def test_an_expiry_that_came_first(pair: tuple[Store, Store], clock: ManualClock, postgres_dsn: str) -> None:
    """The start waits for it, and does not begin the job."""
    store, other = pair
    job, holder = one(store, expires=5), store.join(lease=LEASE)
    lease = claim_one(holder)
    clock.advance(6)

    def expire(tx: Transaction) -> None:
        assert len(end_overdue(Recording(tx, other.enqueuer, other.db), [job])) == 1

    with open_transaction(other, expire):
        start = Waiting(lambda: holder.start([lease]))
        until_blocked(postgres_dsn, start)
    assert start.result() == set() and state(store, job) is State.CANCELLED
    assert_counts_are_true(store)


@pytest.mark.parametrize("delay", [0, 4])
def test_an_expiry_keeps_its_jobs_locked(pair: tuple[Store, Store], clock: ManualClock, delay: int) -> None:
    """Those that are not over yet, too: what their time is may not change between the lock and the end."""
    store, other = pair
    job = one(store, expires=5, delay=timedelta(seconds=delay))

    def lock(tx: Transaction) -> None:
        assert [row[0] for row in tx.run("expiry.lock", ids=[job])] == [job]

    with open_transaction(other, lock):
        clock.advance(6)
        assert store.expiries.cancel_due() == 0 and store.join().claim("work", 1) == []
        assert store.upkeep.promote() == {}
    assert store.expiries.cancel_due() == 1


def test_a_later_submit_in_an_open_transaction_is_not_waited_for(
    pair: tuple[Store, Store], clock: ManualClock
) -> None:
    store, other = pair
    again = NewJob(kind="work", debounce=Debounce("k", 10), expires=60)
    job = one(store, debounce=Debounce("k", 10), expires=20)
    clock.advance(9)
    with open_transaction(store, lambda tx: store.enqueuer.enqueue_in(tx, [again])):
        clock.advance(11)
        assert other.expiries.cancel_due() == 0
    assert other.expiries.cancel_due() == 0 and state(store, job) is State.SCHEDULED
    clock.advance(49)
    assert other.expiries.cancel_due() == 1


def test_a_later_submit_between_the_scan_and_the_lock(
    pair: tuple[Store, Store], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was found due; its time is read again once its row is locked."""
    store, other = pair
    job = one(store, debounce=Debounce("k", 10), expires=20)
    clock.advance(20)
    transact = other.db.transact

    def late(work: Any, **options: Any) -> Any:
        store.enqueue([NewJob(kind="work", debounce=Debounce("k", 10), expires=60)])
        return transact(work, **options)

    monkeypatch.setattr(other.db, "transact", late)
    assert other.expiries.cancel_due() == 0
    assert state(store, job) is State.SCHEDULED and store.expiries.get(job) is not None


def test_exactly_one_of_began_and_expired(
    store: Store, clock: ManualClock, opened: Callable[[], Store]
) -> None:
    """Many jobs, two instances that expire them and one that begins them, all at once."""
    ids = [one(store, expires=5) for _ in range(30)]
    holder = opened().join(lease=timedelta(hours=1))
    leases = holder.claim("work", 30)
    others = [opened(), opened()]
    ready = threading.Barrier(3)
    begun: set[str] = set()

    def begin() -> None:
        ready.wait(PATIENCE)
        for place, lease in enumerate(leases):
            if place == 10:
                clock.advance(5)
            begun.update(holder.start([lease]))

    def expire(other: Store) -> None:
        ready.wait(PATIENCE)
        while clock.now() < due:
            other.expiries.cancel_due(page=3)
        other.expiries.cancel_due(page=3)

    due = clock.now() + timedelta(seconds=5)
    calls = [Waiting(begin), *(Waiting(partial(expire, other)) for other in others)]
    for call in calls:
        call.result()
    store.expiries.cancel_due()
    states = {job: state(store, job) for job in ids}
    assert {job for job, found in states.items() if found is State.PROCESSING} == begun
    assert {job for job, found in states.items() if found is State.CANCELLED} == set(ids) - begun
    assert len(begun) >= 10
    assert_counts_are_true(store)
