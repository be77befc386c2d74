"""A job claimed by its id: the same guards as a claim of many."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.errors import ConfigError
from windlass.features import Store
from windlass.model import Flag, NewJob, State, Verdict


def test_a_queued_job_is_claimed_by_its_id_and_no_other_is(store: Store) -> None:
    first, second = enqueue(store, n=2)
    holder = store.join()
    lease = holder.claim_one(second)
    assert lease is not None and (lease.id, lease.attempt) == (second, 1) and lease.flags & Flag.STARTED
    assert state(store, first) is State.QUEUED and state(store, second) is State.PROCESSING
    counts = store.phases.counts()["work"]
    assert (counts.queued, counts.processing) == (1, 1)
    assert holder.complete(lease, "done") is Verdict.RECORDED
    assert [item.id for item in holder.claim("work", 10)] == [first]


def test_what_is_held_ended_unknown_or_later_is_not(store: Store) -> None:
    held, ended, later = one(store), one(store, "other"), one(store, delay=timedelta(hours=1))
    holder, rival = store.join(), store.join()
    claim_one(rival)
    holder.complete(claim_one(holder, "other"))
    for job_id in (held, ended, later, "00000000-0000-7000-8000-000000000000", "no id"):
        assert holder.claim_one(job_id) is None
    counts = store.phases.counts()["work"]
    assert (counts.queued, counts.processing, counts.scheduled) == (0, 1, 1)


def test_a_dead_instance_and_a_paused_phase_claim_nothing(store: Store, clock: ManualClock) -> None:
    job = one(store)
    holder = store.join(lease=timedelta(seconds=1))
    store.phases.pause("work", "maintenance", lasts=timedelta(seconds=5))
    assert holder.claim_one(job) is None
    clock.advance(6)
    store.recovery.recover()
    assert holder.claim_one(job) is None, "it was declared dead"
    alive = store.join()
    store.phases.pause("work", "for good")
    assert alive.claim_one(job) is None
    store.phases.resume("work")
    assert alive.claim_one(job) is not None
    assert store.phases.counts()["work"].processing == 1


def test_the_claim_is_covered_by_the_lease_like_any_other(store: Store, clock: ManualClock) -> None:
    job = one(store)
    holder = store.join(lease=timedelta(seconds=10))
    lease = holder.claim_one(job)
    assert lease is not None
    holder.beat()
    clock.advance(11)
    (recovered,) = store.recovery.recover()
    assert recovered.job_id == job and state(store, job) is State.QUEUED
    assert [attempt.outcome for attempt in store.jobs.attempts(job)] == ["recovered"]
    assert holder.record([]) == [] and store.jobs.get(job).crashes == 0


def test_only_one_of_two_gets_it(opened: Callable[[], Store]) -> None:
    one_store, other = opened(), opened()
    job = one(one_store)
    claims = [one_store.join().claim_one(job), other.join().claim_one(job)]
    assert [claim is not None for claim in claims] == [True, False]


def test_a_later_job_can_be_made_due(store: Store) -> None:
    job, waiting = one(store, delay=timedelta(hours=1)), one(store)
    assert (
        store.upkeep.make_due(job) and not store.upkeep.make_due(job) and not store.upkeep.make_due(waiting)
    )
    assert not store.upkeep.make_due("no id")
    store.upkeep.promote()
    holder = store.join()
    lease = holder.claim_one(job)
    assert lease is not None
    holder.retry_later(lease, BOOM, timedelta(hours=1))
    assert store.upkeep.make_due(job), "a retry, too"
    child = one(store, after=[])
    assert state(store, child) is State.QUEUED


def test_a_correlation_id_that_is_given_becomes_the_jobs(store: Store) -> None:
    (job,) = store.enqueue([NewJob(kind="work", correlation_id="submitted")])
    first, second = store.join(), store.join()
    lease = first.claim_one(job.id, "request-9")
    assert lease is not None and lease.correlation_id == "request-9"
    assert second.claim_one(job.id, "too late") is None
    assert store.jobs.get(job.id).correlation_id == "request-9"
    first.release(lease)
    again = second.claim_one(job.id)
    assert again is not None and again.correlation_id == "request-9", "none was given: it stays"
    with pytest.raises(ConfigError, match="correlation_id"):
        second.claim_one(job.id, "two\nlines")
