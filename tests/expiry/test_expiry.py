"""A job that has not begun by its time is cancelled, wherever it is; a job that has begun is not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, LEASE, assert_counts_are_true, claim_one, one, state
from tests.expiry.expired import expired, flagged
from windlass.clock import ManualClock
from windlass.errors import ConfigError
from windlass.features import Store
from windlass.model import (
    After,
    Completed,
    Debounce,
    DependencyPolicy,
    Enqueued,
    Flag,
    Flow,
    JobLimit,
    Key,
    KeyScope,
    NewJob,
    Rate,
    State,
    Throttle,
)

Opened = Callable[[], Store]


@pytest.fixture(autouse=True)
def _always_true(store: Store) -> Any:
    yield
    assert_counts_are_true(store)


# --- wherever a job waits --------------------------------------------------------------------------------------------


def queued(store: Store) -> str:
    return one(store, expires=5)


def scheduled(store: Store) -> str:
    return one(store, expires=5, delay=timedelta(seconds=4))


def unlinked(store: Store) -> str:
    return one(store, expires=5, after=[After(one(store, "parent"))])


def linked(store: Store) -> str:
    job = unlinked(store)
    store.dependencies.link()
    return job


def limited(store: Store) -> str:
    store.limits.define([Flow(phase="work", limit=1)])
    limits = [JobLimit(phase="work", key="k", limit=1)]
    one(store, limits=limits)
    job = one(store, limits=limits, expires=5)
    store.limits.let_in()
    assert store.jobs.get(job).reason == "limited"
    return job


def paced(store: Store) -> str:
    rate = Rate(0.001, 1)
    store.limits.define([Flow(phase="work", rate=rate)])
    limits = [JobLimit(phase="work", rate=rate)]
    one(store, limits=limits)
    job = one(store, limits=limits, expires=5)
    store.limits.let_in()
    assert store.jobs.get(job).reason == "paced"
    return job


def in_the_inbox(store: Store) -> str:
    with store.db.effect(5) as tx:
        return store.enqueuer.enqueue_in(tx, [NewJob(kind="work", expires=5)])[0].id


def held(store: Store) -> str:
    job = one(store, expires=5)
    store.join().claim("work", 1)
    assert state(store, job) is State.PROCESSING
    return job


WAITING = (queued, scheduled, unlinked, linked, limited, paced, in_the_inbox, held)


@pytest.mark.parametrize("waiting", WAITING, ids=lambda item: item.__name__)
def test_a_job_that_has_not_begun_is_cancelled(
    store: Store, clock: ManualClock, waiting: Callable[[Store], str], caplog: pytest.LogCaptureFixture
) -> None:
    job = waiting(store)
    at = clock.now() + timedelta(seconds=5)
    assert store.expiries.get(job) == at
    clock.advance(4.999)
    assert store.expiries.cancel_due() == 0 and not state(store, job).is_final
    clock.advance(0.001)
    with caplog.at_level(logging.INFO, "windlass.store"):
        assert store.expiries.cancel_due() == 1
    ended = store.jobs.get(job)
    assert ended.state is State.CANCELLED and ended.finished_at == at
    assert (
        ended.error is not None and ended.error["message"] == f"expired: it had not begun by {at.isoformat()}"
    )
    assert (ended.error["type"], ended.error["code"]) == ("Expired", "expired")
    assert (ended.error["phase"], ended.error["correlation_id"]) == ("work", ended.correlation_id)
    assert store.expiries.get(job) is None and rows(store, "expiry") == []
    (span,) = store.jobs.timeline(job)
    assert (span.outcome, span.ended_at, (span.error or {})["code"]) == ("cancelled", at, "expired")
    assert (span.instance is not None) == (waiting is held)
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "job.expired"]
    assert (vars(line)["job_id"], vars(line)["expires_at"]) == (job, at.isoformat())
    assert store.expiries.cancel_due() == 0
    assert store.limits.check() == []


def test_jobs_beside_it_are_not_touched(store: Store, clock: ManualClock) -> None:
    plain, later = one(store), one(store, expires=60)
    far = one(store, delay=timedelta(hours=1))
    gone = [waiting(store) for waiting in (queued, scheduled)]
    clock.advance(5)
    assert store.expiries.cancel_due() == 2 and all(expired(store, job) for job in gone)
    assert [state(store, job) for job in (plain, later, far)] == [State.QUEUED, State.QUEUED, State.SCHEDULED]
    assert [row["job"] for row in rows(store, "expiry")] == [later]


def test_a_moment_a_timedelta_and_seconds_are_the_same(store: Store, clock: ManualClock) -> None:
    at = clock.now() + timedelta(seconds=90)
    ids = [one(store, expires=given) for given in (at, timedelta(seconds=90), 90, 90.0)]
    assert [store.expiries.get(job) for job in ids] == [at] * 4
    past = one(store, expires=clock.now() - timedelta(seconds=1))
    assert store.expiries.cancel_due() == 1 and expired(store, past), "the caller's clock may be another"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"expires": 0}, "expires"),
        ({"expires": -1}, "expires"),
        ({"expires": "soon"}, "a datetime with a time zone"),
        ({"expires": True}, "expires"),
        ({"expires": datetime(2030, 1, 1)}, "with a time zone"),  # noqa: DTZ001
        ({"expires": datetime(3000, 1, 1, tzinfo=UTC)}, "1971 and 2999"),
        ({"expires": timedelta(days=365 * 200)}, "expires"),
        ({"expires": 5, "delay": timedelta(seconds=5)}, "after the job is due"),
        ({"expires": 5, "debounce": Debounce("k", 6)}, "after the job is due"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(shared_store: Store, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        one(shared_store, **options)
    assert rows(shared_store, "expiry") == []


def test_a_job_that_expires_before_it_is_due_is_refused(store: Store, clock: ManualClock) -> None:
    at = clock.now() + timedelta(seconds=5)
    with pytest.raises(ConfigError, match="after the job is due"):
        one(store, expires=at, run_at=at)
    one(store, expires=at + timedelta(seconds=1), run_at=at)


# --- what has begun --------------------------------------------------------------------------------------------------


def test_a_job_that_has_begun_is_not_expired(store: Store, clock: ManualClock) -> None:
    job, holder = one(store, expires=5), store.join(lease=LEASE)
    lease = claim_one(holder)
    assert not lease.flags & Flag.STARTED, "the claim alone is no start"
    assert holder.start([lease]) == {job} and not flagged(store, job)
    assert store.expiries.get(job) is None
    clock.advance(60)
    assert store.expiries.cancel_due() == 0
    assert holder.start([lease]) == {job}, "a start whose reply was lost is repeated"
    holder.retry_later(lease, BOOM, timedelta(seconds=1))
    assert store.expiries.cancel_due() == 0 and state(store, job) is State.SCHEDULED
    clock.advance(1)
    store.upkeep.promote()
    lease = claim_one(holder)
    holder.advance(lease, "work:b")
    assert store.expiries.cancel_due() == 0 and state(store, job) is State.QUEUED
    holder.complete(claim_one(holder, "work:b"))
    assert state(store, job) is State.COMPLETED


@pytest.mark.parametrize("outcome", ["retried", "advanced", "completed", "cancelled"])
def test_an_attempt_whose_start_was_not_stored_has_begun_all_the_same(
    store: Store, clock: ManualClock, outcome: str
) -> None:
    """A holder of another make may record an outcome without a start."""
    job, holder = one(store, expires=5), store.join(lease=LEASE)
    lease = claim_one(holder)
    match outcome:
        case "retried":
            holder.retry_later(lease, BOOM, timedelta(seconds=30))
        case "advanced":
            holder.advance(lease, "work:b")
        case "completed":
            holder.complete(lease)
        case _:
            holder.cancel(lease)
    assert not flagged(store, job) or outcome in ("completed", "cancelled")
    assert rows(store, "expiry") == []
    clock.advance(6)
    assert store.expiries.cancel_due() == 0 and not expired(store, job)


def test_a_worker_does_not_begin_a_job_whose_time_is_over(store: Store, clock: ManualClock) -> None:
    late, plain, open_one = one(store, expires=5), one(store), one(store, expires=60)
    parent = one(store, expires=5, priority=1)
    child = one(store, after=[After(parent)])
    others = [one(store, "other", expires=5), one(store, "other", expires=5, delay=timedelta(seconds=1))]
    store.dependencies.link()
    holder = store.join(lease=LEASE)
    leases = holder.claim("work", 4)
    clock.advance(5)
    assert holder.start(leases) == {plain, open_one}
    assert expired(store, late) and expired(store, parent)
    assert state(store, child) is State.CANCELLED
    assert {row["job"] for row in rows(store, "expiry")} == set(others), "the duty has not come round yet"
    assert not any(state(store, job).is_final for job in others)
    assert holder.start(leases) == {plain, open_one}
    holder.record([Completed(lease) for lease in leases if lease.id in (plain, open_one)])
    holder.step()
    assert rows(store, "claim") == [], "no claim is left for the jobs that did not begin"


def test_a_job_that_expired_in_the_memory_of_its_holder_does_not_begin(
    store: Store, clock: ManualClock
) -> None:
    job, holder = one(store, expires=5), store.join(lease=LEASE)
    lease = claim_one(holder)
    clock.advance(5)
    assert store.expiries.cancel_due() == 1 and expired(store, job)
    assert holder.start([lease]) == set()
    holder.release(lease)
    holder.step()
    assert expired(store, job) and rows(store, "claim") == []


def test_a_job_of_a_dead_instance_that_had_not_begun_still_expires(
    store: Store, clock: ManualClock, opened: Opened
) -> None:
    job = one(store, expires=60, max_attempts=1)
    opened().join(lease=LEASE).claim("work", 1)
    clock.advance(31)
    store.recovery.recover()
    assert state(store, job) is State.QUEUED and store.jobs.get(job).attempt == 0, "it is not charged"
    clock.advance(29)
    assert store.expiries.cancel_due() == 1 and expired(store, job)


def test_a_job_of_a_dead_instance_that_had_begun_does_not(
    store: Store, clock: ManualClock, opened: Opened
) -> None:
    job, dying = one(store, expires=60), opened().join(lease=LEASE)
    dying.start(dying.claim("work", 1))
    clock.advance(61)
    store.recovery.recover()
    assert store.expiries.cancel_due() == 0 and state(store, job) is State.QUEUED


# --- what follows ----------------------------------------------------------------------------------------------------


def test_dependents_follow_their_policy(store: Store, clock: ManualClock) -> None:
    parent = one(store, "parent", expires=5)
    children = {
        policy: one(store, after=[After(parent, policy)], expires=3600) for policy in DependencyPolicy
    }
    store.dependencies.link()
    clock.advance(5)
    assert store.expiries.cancel_due() == 1
    found = {policy: state(store, child) for policy, child in children.items()}
    assert found == {
        DependencyPolicy.CANCEL: State.CANCELLED,
        DependencyPolicy.WAIT: State.WAITING,
        DependencyPolicy.RUN: State.QUEUED,
    }
    error = store.jobs.get(children[DependencyPolicy.CANCEL]).error
    assert error is not None and error["code"] == "parent_not_completed"
    assert len(rows(store, "expiry")) == 2, "the time of a child that was cancelled goes with it"


@pytest.mark.parametrize("way", ["duty", "start"])
def test_keys_are_freed(store: Store, clock: ManualClock, way: str) -> None:
    holder = store.join(lease=LEASE)

    def submit(**options: Any) -> Enqueued:
        return store.enqueue([NewJob(kind="work", expires=5, **options)])[0]

    live, throttled = {"key": Key("k")}, {"throttle": Throttle("t", 3600)}
    idempotent = {"key": Key("i", KeyScope.IDEMPOTENT)}
    ids = {name: submit(**options).id for name, options in _named(live, throttled, idempotent)}
    leases = holder.claim("work", 3) if way == "start" else ()
    clock.advance(5)
    if way == "start":
        assert holder.start(leases) == set()
    else:
        assert store.expiries.cancel_due() == 3
    again = {name: submit(**options) for name, options in _named(live, throttled, idempotent)}
    assert {name: found.created for name, found in again.items()} == {0: True, 1: True, 2: False}
    assert again[2].id == ids[2], "an idempotent key leads to its job, ended or not"


def _named(*options: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate(options))


def test_the_place_of_a_limit_is_freed(store: Store, clock: ManualClock) -> None:
    store.limits.define([Flow(phase="work", limit=1)])
    limits = [JobLimit(phase="work", key="k", limit=1)]
    first, second = one(store, limits=limits, expires=5), one(store, limits=limits)
    store.limits.let_in()
    clock.advance(5)
    assert store.expiries.cancel_due() == 1 and expired(store, first)
    store.limits.let_in()
    assert state(store, second) is State.QUEUED


def test_a_retry_by_hand_drops_the_time(store: Store, clock: ManualClock) -> None:
    parent = one(store, "parent", expires=5)
    child = one(store, after=[After(parent)], expires=60)
    by_hand = one(store, expires=5)
    store.dependencies.link()
    store.jobs.cancel(by_hand)
    clock.advance(5)
    store.expiries.cancel_due()
    store.jobs.retry(parent, dependents=True)
    store.jobs.retry(by_hand)
    clock.advance(3600)
    assert store.expiries.cancel_due() == 0 and not any(
        flagged(store, job) for job in (parent, child, by_hand)
    )
    holder = store.join(lease=LEASE)
    lease = claim_one(holder, "parent")
    assert lease.generation == 2 and holder.start([lease]) == {parent}
    holder.complete(lease)
    assert {lease.id for lease in holder.claim("work", 5)} == {child, by_hand}


# --- debounce --------------------------------------------------------------------------------------------------------


def test_a_later_submit_brings_its_own_time(store: Store, clock: ManualClock) -> None:
    def submit(**options: Any) -> str:
        return store.enqueue([NewJob(kind="work", debounce=Debounce("k", 10), **options)])[0].id

    job = submit(expires=20)
    clock.advance(5)
    assert submit(expires=30) == job
    assert store.expiries.get(job) == clock.now() + timedelta(seconds=30)
    assert submit() == job and store.expiries.get(job) is None and not flagged(store, job)
    assert submit(expires=11) == job and flagged(store, job)
    clock.advance(11)
    assert store.expiries.cancel_due() == 1 and expired(store, job)
    assert submit() != job
