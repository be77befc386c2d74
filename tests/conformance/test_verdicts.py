"""Each outcome gets its own verdict: repeated, mixed with others, refused by the database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, every_job, one, state
from windlass.features import Store
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Failed,
    JobError,
    Outcome,
    Released,
    Retried,
    State,
    Verdict,
)

pytestmark = pytest.mark.older_postgres


def test_a_finish_repeated_after_a_lost_reply_is_already_recorded(store: Store) -> None:
    """Finding 5: for every outcome that leaves a trace."""
    enqueue(store, n=6)
    holder = store.join()
    done, failed, retried, advanced, cancelled, released = holder.claim("work", 6)
    outcomes: list[Outcome] = [
        Completed(done, 1),
        Failed(failed, BOOM),
        Retried(retried, BOOM, timedelta(0)),
        Advanced(advanced, "next"),
        Cancelled(cancelled),
    ]
    assert set(holder.record(outcomes)) == {Verdict.RECORDED}
    before = [store.jobs.get(outcome.lease.id) for outcome in outcomes]
    assert set(holder.record(outcomes)) == {Verdict.ALREADY_RECORDED}
    assert holder.record([Failed(done, BOOM)]) == [Verdict.ALREADY_RECORDED], "one verdict per attempt"
    assert [store.jobs.get(outcome.lease.id) for outcome in outcomes] == before
    holder.release(released)
    assert holder.record([Released(released)]) == [Verdict.LOST], (
        "a release leaves no trace, and repeating it no harm"
    )
    assert_counts_are_true(store)


def test_a_batch_of_mixed_outcomes_is_judged_one_by_one(store: Store, opened: Callable[[], Store]) -> None:
    enqueue(store, n=7)
    holder = store.join()
    leases = list(holder.claim("work", 7))
    holder.complete(leases[0])
    holder.release(leases[1])
    outcomes: list[Outcome] = [
        Completed(leases[0]),
        Completed(leases[1]),
        Completed(leases[2]),
        Failed(leases[3], BOOM),
        Retried(leases[4], BOOM, timedelta(seconds=1)),
        Advanced(leases[5], "next", 1),
        Cancelled(leases[6], "enough"),
    ]
    verdicts = holder.record(outcomes)
    assert [str(verdict) for verdict in verdicts] == [
        "already_recorded",
        "lost",
        "recorded",
        "recorded",
        "recorded",
        "recorded",
        "recorded",
    ]
    states = [str(state(store, lease.id)) for lease in leases]
    assert states == ["completed", "queued", "completed", "failed", "scheduled", "queued", "cancelled"]
    cancelled = store.jobs.get(leases[6].id)
    assert cancelled.finished_at is not None and cancelled.error == {
        "type": "Cancelled",
        "code": "cancelled",
        "message": "enough",
        "phase": "work",
        "attempt": 1,
        "correlation_id": cancelled.id,
        "at": cancelled.finished_at.isoformat(),
    }
    assert_counts_are_true(store)


def test_the_token_fences_by_job_and_number_together(store: Store) -> None:
    """The right token for one job is the wrong one for another."""
    enqueue(store, n=2)
    holder = store.join()
    first, second = claim_one(holder), claim_one(holder)
    crossed = [Completed(replace(first, token=second.token)), Completed(replace(second, token=first.token))]
    assert holder.record(crossed) == [Verdict.LOST, Verdict.LOST]
    assert [str(job.state) for job in every_job(store)] == ["processing", "processing"]


def test_two_outcomes_of_one_job_get_a_verdict_each(store: Store) -> None:
    job_id = one(store)
    holder = store.join()
    stale = claim_one(holder)
    holder.release(stale)
    new = claim_one(holder)
    assert holder.record([Failed(stale, BOOM), Completed(new, 1)]) == [Verdict.LOST, Verdict.RECORDED]
    assert state(store, job_id) is State.COMPLETED
    again: list[Outcome] = [Completed(new, 1), Completed(new, 2), Failed(stale, BOOM)]
    assert holder.record(again) == [Verdict.ALREADY_RECORDED, Verdict.ALREADY_RECORDED, Verdict.LOST]
    other = one(store)
    lease = claim_one(holder)
    assert holder.record([Completed(lease, 1), Completed(lease, 2)]) == [
        Verdict.RECORDED,
        Verdict.ALREADY_RECORDED,
    ]
    assert store.jobs.get(other).result == 1
    assert_counts_are_true(store)


@pytest.mark.parametrize(
    ("make", "end"),
    [
        (lambda lease: Cancelled(lease, "a\x00b\ud800"), State.CANCELLED),
        (
            lambda lease: Failed(lease, JobError(type="E", code="c", message="m", details={"x": object()})),
            State.FAILED,
        ),
        (
            lambda lease: Failed(
                lease, JobError(type="E", code="c", message="m", details={"x": "y" * 900_000})
            ),
            State.FAILED,
        ),
        (lambda lease: Completed(lease, float("nan")), State.FAILED),
        (lambda lease: Completed(lease, object()), State.FAILED),
        (lambda lease: Retried(lease, BOOM, timedelta(days=900_000_000)), State.SCHEDULED),
        (lambda lease: Advanced(lease, "next", 1, 0), State.FAILED),
        (lambda lease: Advanced(lease, "next", 1, 40_000), State.FAILED),
        (lambda lease: Advanced(lease, "a\nb", 1), State.FAILED),
        (lambda lease: Advanced(lease, "next", object()), State.FAILED),
    ],
)
def test_one_bad_outcome_does_not_take_its_neighbours_down(store: Store, make: Callable, end: State) -> None:
    """I-17: it ends with a code, or cleaned; the rest of its batch is recorded."""
    enqueue(store, n=2)
    holder = store.join()
    bad, good = holder.claim("work", 2)
    assert holder.record([make(bad), Completed(good, "fine")]) == [Verdict.RECORDED, Verdict.RECORDED]
    assert (state(store, bad.id), state(store, good.id)) == (end, State.COMPLETED)
    assert len(store.jobs.list().jobs) == 2, "what was stored can be listed"
    assert_counts_are_true(store)
