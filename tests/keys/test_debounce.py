"""Submits of which only one counts: the last before it is quiet (debounce), the first of a period (throttle)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, every_job
from windlass.clock import ManualClock
from windlass.errors import ConfigError
from windlass.features import Store
from windlass.model import (
    After,
    Debounce,
    Enqueued,
    JobLimit,
    Key,
    KeyScope,
    NewJob,
    Retention,
    State,
    Throttle,
)

LONG_AGO = timedelta(days=1000)


def submit(store: Store, value: int = 0, *, kind: str = "work", **options: Any) -> Enqueued:
    return store.enqueue([NewJob(kind=kind, args={"value": value}, **options)])[0]


@pytest.fixture(autouse=True)
def _always_true(store: Store) -> Any:
    yield
    assert_counts_are_true(store)


# --- debounce --------------------------------------------------------------------------------------------------------


def debounced(store: Store, value: int, key: str = "k", wait: float = 10, **options: Any) -> Enqueued:
    return submit(store, value, debounce=Debounce(key, wait), **options)


def test_a_later_submit_replaces_the_one_that_waits(store: Store, clock: ManualClock) -> None:
    first = debounced(store, 1, priority=3)
    assert (first.created, first.replaced) == (True, False)
    clock.advance(9)
    second = debounced(store, 2, priority=7, max_attempts=9)
    assert (second.id, second.created, second.replaced) == (first.id, False, True)
    job = store.jobs.get(first.id)
    assert (job.state, job.args, job.priority, job.max_attempts) == (State.SCHEDULED, {"value": 2}, 7, 9)
    assert job.run_at == clock.now() + timedelta(seconds=10)
    assert job.created_at == clock.now() - timedelta(seconds=9)
    clock.advance(9.9)
    assert store.upkeep.promote() == {}
    clock.advance(0.1)
    assert store.upkeep.promote() == {"work": 1}
    assert claim_one(store.join()).args == {"value": 2}
    assert len(every_job(store)) == 1


def test_one_that_is_queued_running_retrying_or_ended_is_left_alone(store: Store, clock: ManualClock) -> None:
    ids = [debounced(store, 1).id]
    holder = store.join(lease=timedelta(days=1))

    def again() -> None:
        answer = debounced(store, len(ids) + 1)
        assert answer.created and not answer.replaced and answer.id not in ids
        ids.append(answer.id)
        assert len([job for job in every_job(store) if job.reason == "scheduled"]) == 1

    clock.advance(10)
    store.upkeep.promote()
    again()
    lease = claim_one(holder)
    clock.advance(10)
    store.upkeep.promote()
    again()
    holder.retry_later(lease, BOOM, timedelta(days=1))
    store.jobs.cancel(ids[-1])
    again()
    assert [store.jobs.get(job_id).args["value"] for job_id in ids] == [1, 2, 3, 4]
    assert store.jobs.get(ids[0]).reason == "retry"


def test_one_whose_retry_waits_is_left_alone(store: Store, clock: ManualClock) -> None:
    """Though no other submit took the key meanwhile."""
    first = debounced(store, 1)
    clock.advance(10)
    store.upkeep.promote()
    holder = store.join()
    holder.retry_later(claim_one(holder), BOOM, timedelta(days=1))
    assert debounced(store, 2).created
    job = store.jobs.get(first.id)
    assert (job.args, job.reason, job.run_at) == ({"value": 1}, "retry", clock.now() + timedelta(days=1))


def test_keys_and_kinds_do_not_meet(store: Store) -> None:
    answers = [
        debounced(store, 1, "a"),
        debounced(store, 2, "b"),
        debounced(store, 3, "a", kind="other"),
        submit(store, 4, key=Key("a")),
        submit(store, 5, key=Key("a", KeyScope.IDEMPOTENT)),
        submit(store, 6, throttle=Throttle("a", 60)),
    ]
    assert all(answer.created for answer in answers)
    assert debounced(store, 7, "a").id == answers[0].id
    assert store.jobs.get(answers[1].id).args == {"value": 2}


def test_of_many_in_one_call_the_last_counts(store: Store) -> None:
    jobs = [
        NewJob(kind="work", args={"value": 1}, debounce=Debounce("a", 5)),
        NewJob(kind="work", args={"value": 2}, debounce=Debounce("b", 5)),
        NewJob(kind="work", args={"value": 3}, debounce=Debounce("a", 5)),
        NewJob(kind="work", args={"value": 4}),
    ]
    answers = store.enqueue(jobs)
    assert [(answer.created, answer.replaced) for answer in answers] == [
        (True, False),
        (True, False),
        (False, True),
        (True, False),
    ]
    assert answers[2].id == answers[0].id
    values = {job.id: job.args["value"] for job in every_job(store)}
    assert values == {answers[0].id: 3, answers[1].id: 2, answers[3].id: 4}
    again = store.enqueue(jobs[:1])
    assert again == [Enqueued(answers[0].id, False, True)]


def test_the_wait_may_be_the_jobs_own_delay_or_time(store: Store, clock: ManualClock) -> None:
    first = submit(store, 1, debounce=Debounce("k"), delay=timedelta(seconds=30))
    at = clock.now() + timedelta(days=400)
    assert submit(store, 2, debounce=Debounce("k"), run_at=at) == Enqueued(first.id, False, True)
    assert store.jobs.get(first.id).run_at == at
    clock.advance(timedelta(days=399))
    store.upkeep.prune(Retention(completed=None, failed=None, cancelled=None))
    assert submit(store, 3, debounce=Debounce("k", 1)).replaced, "its key lasts as long as it may wait"


def test_the_key_of_a_job_long_gone_is_pruned(store: Store, clock: ManualClock) -> None:
    debounced(store, 1)
    clock.advance(10)
    store.upkeep.promote()
    clock.advance(timedelta(days=31))
    store.upkeep.prune(Retention(completed=None, failed=None, cancelled=None))
    assert rows(store, "job_key") == []


def test_limits_are_replaced_with_the_arguments(store: Store, clock: ManualClock) -> None:
    def limits(key: str) -> list[JobLimit]:
        return [JobLimit(phase="work", key=key, limit=1)]

    first = debounced(store, 1, limits=limits("a"))
    debounced(store, 2, limits=limits("b"))
    debounced(store, 1, "plain")
    debounced(store, 2, "plain", limits=limits("c"))
    debounced(store, 1, "freed", limits=limits("d"))
    debounced(store, 2, "freed")
    assert sorted(row["key"] for row in rows(store, "job_limit")) == ["b", "c"]
    clock.advance(10)
    store.upkeep.promote()
    store.limits.assign()
    assert [gate.key for gate in store.limits.gates()] == ["b", "c"]
    assert store.jobs.get(first.id).state is State.QUEUED
    assert len(store.join().claim("work", 9)) == 3


def test_a_debounced_job_of_a_callers_transaction_is_there_if_it_commits(store: Store) -> None:
    job = NewJob(kind="work", args={"value": 1}, debounce=Debounce("k", 5))
    with pytest.raises(ZeroDivisionError), store.db.effect(5) as tx:
        store.enqueuer.enqueue_in(tx, [job])
        raise ZeroDivisionError
    assert every_job(store) == [] and rows(store, "job_key") == []
    with store.db.effect(5) as tx:
        first = store.enqueuer.enqueue_in(tx, [job])[0]
    with store.db.effect(5) as tx:
        assert store.enqueuer.enqueue_in(tx, [job]) == [Enqueued(first.id, False, True)]


# --- throttle --------------------------------------------------------------------------------------------------------


def throttled(store: Store, value: int, key: str = "k", period: float = 60, **options: Any) -> Enqueued:
    return submit(store, value, throttle=Throttle(key, period), **options)


def test_a_second_submit_in_the_period_is_answered_with_the_first_job(
    store: Store, clock: ManualClock
) -> None:
    first = throttled(store, 1)
    clock.advance(30)
    assert throttled(store, 2) == Enqueued(first.id, created=False)
    assert store.jobs.get(first.id).args == {"value": 1}, (
        "other arguments change nothing, and are no conflict"
    )
    holder = store.join()
    holder.complete(claim_one(holder))
    clock.advance(29.9)
    assert throttled(store, 3) == Enqueued(first.id, created=False), "also after it ended"
    clock.advance(0.1)
    fresh = throttled(store, 4)
    assert fresh.created and fresh.id != first.id
    clock.advance(59.9)
    assert throttled(store, 5).id == fresh.id, "the period begins with the job that was made"


def test_throttles_have_keys_and_kinds_of_their_own(store: Store) -> None:
    answers = [throttled(store, 1, "a"), throttled(store, 2, "b"), throttled(store, 3, "a", kind="other")]
    assert all(answer.created for answer in answers)
    many = store.enqueue([NewJob(kind="work", throttle=Throttle("c", 60)) for _ in range(3)])
    assert [answer.created for answer in many] == [True, False, False]
    assert len({answer.id for answer in many}) == 1


def test_the_key_of_a_period_that_is_over_is_pruned(store: Store, clock: ManualClock) -> None:
    throttled(store, 1, period=60)
    clock.advance(61)
    store.upkeep.prune(Retention(completed=None, failed=None, cancelled=None))
    assert rows(store, "job_key") == []


# --- bad input -------------------------------------------------------------------------------------------------------


BAD: list[dict[str, Any]] = [
    {"debounce": Debounce("k")},
    {"debounce": Debounce("", 5)},
    {"debounce": Debounce("k", 0)},
    {"debounce": Debounce("k", -1)},
    {"debounce": Debounce("k", "soon")},  # type: ignore[arg-type]
    {"debounce": Debounce("k", float("inf"))},
    {"debounce": Debounce("k", True)},
    {"debounce": Debounce("k", LONG_AGO * 1000)},
    {"debounce": "k"},
    {"debounce": Debounce("k", 5), "delay": timedelta(seconds=1)},
    {"debounce": Debounce("k", 5), "key": Key("k")},
    {"debounce": Debounce("k", 5), "throttle": Throttle("k", 5)},
    {"debounce": Debounce("k", 5), "after": [After("0198c0de-0000-7000-8000-000000000000")]},
    {"debounce": Debounce("k", 5), "id": "0198c0de-0000-7000-8000-000000000000"},
    {"throttle": Throttle("k", 0)},
    {"throttle": Throttle("k", -5)},
    {"throttle": Throttle("x" * 256, 5)},
    {"throttle": Throttle("k", None)},  # type: ignore[arg-type]
    {"throttle": 60},
    {"throttle": Throttle("k", 5), "key": Key("k")},
    {"key": Key("k", "throttle")},  # type: ignore[arg-type]
    {"key": Key("k", "debounce")},  # type: ignore[arg-type]
]


def test_bad_options_are_refused_and_nothing_is_stored(store: Store) -> None:
    for options in BAD:
        with pytest.raises(ConfigError):
            store.enqueue([NewJob(kind="work"), NewJob(kind="work", **options)])
    assert every_job(store) == [] and rows(store, "job_key") == []


@pytest.mark.parametrize("is_held", [False, True])
def test_a_cancel_ends_the_period_of_a_throttled_job(store: Store, is_held: bool) -> None:
    """Later submits were answered with the cancelled job, and nothing ran."""
    job = NewJob(kind="work", throttle=Throttle("a", 3600))
    (first,) = store.enqueue([job])
    (other,) = store.enqueue([NewJob(kind="work", throttle=Throttle("b", 3600))])
    if is_held:
        holder = store.join()
        assert len(holder.claim("work", 5)) == 2
    store.jobs.cancel(first.id)
    (second,) = store.enqueue([job])
    assert second.created and second.id != first.id
    (same,) = store.enqueue([NewJob(kind="work", throttle=Throttle("b", 3600))])
    assert (same.id, same.created) == (other.id, False)


def test_a_cancel_leaves_an_idempotent_key_with_its_job(store: Store) -> None:
    job = NewJob(kind="work", key=Key("a", KeyScope.IDEMPOTENT))
    (first,) = store.enqueue([job])
    store.jobs.cancel(first.id)
    assert store.enqueue([job]) == [Enqueued(first.id, created=False)]


def test_a_debounced_job_that_ended_is_pruned_though_its_key_is_kept(
    store: Store, clock: ManualClock
) -> None:
    (made,) = store.enqueue([NewJob(kind="work", debounce=Debounce("a", wait=1))])
    store.jobs.cancel(made.id)
    clock.advance(timedelta(days=8))
    assert rows(store, "job_key")
    week = timedelta(days=7)
    assert store.upkeep.prune(Retention(completed=week, failed=week, cancelled=None)) == 0
    assert store.upkeep.prune(Retention(completed=None, failed=None, cancelled=week)) == 1
