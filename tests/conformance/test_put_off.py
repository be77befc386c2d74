"""A job that is given back with a delay: it has not begun, it waits, and the other jobs of its queue are served."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, one, state
from tests.expiry.expired import expired, flagged
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import JobError, JobLimit, Released, State, Verdict

DELAY = timedelta(seconds=2)
WHY = JobError(type="LockRefused", code="lock_refused", message="its lock is held by another process")


@pytest.fixture(autouse=True)
def _always_true(store: Store) -> Iterator[None]:
    yield
    assert_counts_are_true(store)


def put_off(store: Store, error: JobError | None = WHY, **options: Any) -> str:
    """A job that was claimed and put off."""
    job_id = one(store, **options)
    if options.get("limits"):
        store.limits.let_in()
    holder = store.join()
    (verdict,) = holder.record([Released(claim_one(holder), error=error, delay=DELAY)])
    assert verdict is Verdict.RECORDED
    return job_id


def test_it_is_scheduled_with_its_attempt_and_a_reason(store: Store, clock: ManualClock) -> None:
    job_id = put_off(store)
    job = store.jobs.get(job_id)
    assert (job.state, job.reason, job.attempt, job.started_at) == (State.SCHEDULED, "retry", 0, None)
    assert job.run_at == clock.now() + DELAY
    assert job.error is not None and job.error["code"] == "lock_refused"
    (span,) = store.jobs.timeline(job_id)
    assert span.outcome == "recovered" and span.error is not None and span.error["code"] == "lock_refused"


def test_others_of_its_queue_are_claimed_before_it(store: Store, clock: ManualClock) -> None:
    job_id = put_off(store)
    other = one(store)
    holder = store.join()
    assert [lease.id for lease in holder.claim("work", 10)] == [other]
    clock.advance(1.9)
    assert not store.upkeep.promote()
    clock.advance(0.1)
    assert store.upkeep.promote()
    lease = claim_one(holder)
    assert (lease.id, lease.attempt) == (job_id, 1) and not lease.is_suspect and not lease.is_recovered
    assert holder.complete(lease) is Verdict.RECORDED


def test_without_an_error_nothing_is_noted(store: Store) -> None:
    job_id = put_off(store, error=None)
    assert state(store, job_id) is State.SCHEDULED
    assert store.jobs.attempts(job_id) == [] and store.jobs.timeline(job_id) == []


def test_a_job_that_ran_before_keeps_when_that_was(store: Store, clock: ManualClock) -> None:
    job_id = one(store)
    holder = store.join()
    began = clock.now()
    holder.retry_later(claim_one(holder), BOOM, timedelta(0))
    clock.advance(1)
    store.upkeep.promote()
    holder.record([Released(claim_one(holder), delay=DELAY)])
    job = store.jobs.get(job_id)
    assert (job.attempt, job.started_at) == (1, began)
    assert job.error is not None and job.error["code"] == "boom"


def test_a_cancel_that_came_first_ends_it(store: Store) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    store.jobs.cancel(job_id)
    assert holder.record([Released(lease, error=WHY, delay=DELAY)]) == [Verdict.CANCELLED]
    assert state(store, job_id) is State.CANCELLED


def test_a_lost_lease_puts_nothing_off(store: Store, clock: ManualClock) -> None:
    job_id = one(store)
    dead = store.join(lease=timedelta(seconds=10))
    lease = claim_one(dead)
    clock.advance(11)
    store.recovery.recover()
    assert dead.record([Released(lease, error=WHY, delay=DELAY)]) == [Verdict.LOST]
    assert state(store, job_id) is State.QUEUED


def test_it_still_expires(store: Store, clock: ManualClock) -> None:
    job_id = put_off(store, expires=5)
    assert flagged(store, job_id)
    clock.advance(6)
    assert store.expiries.cancel_due()
    assert expired(store, job_id)


def test_it_expires_when_it_begins_too_late(store: Store, clock: ManualClock) -> None:
    job_id = put_off(store, expires=5)
    clock.advance(2)
    store.upkeep.promote()
    holder = store.join()
    lease = claim_one(holder)
    clock.advance(4)
    assert holder.start([lease]) == set()
    assert expired(store, job_id)


def test_a_retried_job_no_longer_expires(store: Store, clock: ManualClock) -> None:
    job_id = one(store, expires=5)
    holder = store.join()
    lease = claim_one(holder)
    holder.start([lease])
    holder.retry_later(lease, BOOM, timedelta(seconds=1))
    assert not flagged(store, job_id)


def test_its_place_is_free_meanwhile(store: Store, clock: ManualClock) -> None:
    limits = [JobLimit(phase="work", key="a", limit=1)]
    job_id = put_off(store, limits=limits)
    other = one(store, limits=limits)
    store.limits.let_in()
    holder = store.join()
    lease = claim_one(holder)
    assert lease.id == other
    holder.complete(lease)
    clock.advance(2)
    store.upkeep.promote()
    store.limits.let_in()
    assert claim_one(holder).id == job_id
