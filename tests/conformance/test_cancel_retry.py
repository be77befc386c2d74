"""Cancelling and retrying from outside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, LEASE, assert_counts_are_true, claim_one, one, state
from windlass.clock import ManualClock
from windlass.errors import IllegalTransitionError, JobNotFoundError, KeyConflictError
from windlass.features import Store
from windlass.model import (
    ON_REQUEST,
    Advanced,
    After,
    Cancelled,
    CancelResult,
    Completed,
    Failed,
    Flag,
    Key,
    NewJob,
    Outcome,
    Released,
    Retried,
    State,
    Verdict,
)


@pytest.mark.parametrize("kind", ["queued", "scheduled", "waiting", "inbox"])
def test_a_job_nobody_holds_is_cancelled_at_once(store: Store, clock: ManualClock, kind: str) -> None:
    """It never starts."""
    if kind == "waiting":
        parent = one(store, "other")
        job_id = one(store, after=[After(parent)])
    elif kind == "inbox":
        with store.db.effect(5) as tx:
            job_id = store.enqueuer.enqueue_in(tx, [NewJob(kind="work")])[0].id
    else:
        job_id = one(store, delay=timedelta(seconds=5) if kind == "scheduled" else None)
    assert store.jobs.cancel(job_id, "not needed") is CancelResult.CANCELLED
    job = store.jobs.get(job_id)
    assert job.state is State.CANCELLED and job.finished_at == clock.now()
    assert job.error == {
        "type": "Cancelled",
        "code": "cancelled",
        "message": "not needed",
        "phase": "work",
        "attempt": 0,
        "correlation_id": job.correlation_id,
        "at": clock.now().isoformat(),
    }
    clock.advance(10)
    store.upkeep.promote()
    assert not store.join().claim("work", 5)
    assert_counts_are_true(store)


@pytest.mark.parametrize("way", ["short", "long", "recovery"])
def test_a_held_job_that_ends_cancelled_says_where_and_when(
    store: Store, clock: ManualClock, way: str
) -> None:
    """The error of a cancel is as complete as that of a failure, whichever way it is written."""
    job_id = one(store, correlation_id="order-7")
    holder = store.join(lease=LEASE)
    lease = claim_one(holder)
    if way == "long":
        holder.checkpoint(lease, done=1)
    store.jobs.cancel(job_id, "no need")
    if way == "recovery":
        clock.advance(LEASE.total_seconds() + 1)
        store.recovery.recover()
    else:
        holder.cancel(lease, ON_REQUEST if way == "long" else "no need")
    assert store.jobs.get(job_id).error == {
        "type": "Cancelled",
        "code": "cancelled",
        "message": "no need",
        "phase": "work",
        "attempt": 1,
        "correlation_id": "order-7",
        "at": clock.now().isoformat(),
    }


def test_a_held_job_is_asked_to_stop(store: Store, opened: Callable[[], Store], clock: ManualClock) -> None:
    job_id = one(store)
    other = one(store, priority=1)
    holder, stranger = opened().join(), store.join()
    lease = claim_one(holder)
    stranger.claim("work", 1)
    store.jobs.cancel(other)
    asked_at = clock.now()
    assert store.jobs.cancel(job_id) is CancelResult.REQUESTED
    clock.advance(1)
    assert store.jobs.cancel(job_id) is CancelResult.REQUESTED
    job = store.jobs.get(job_id)
    assert job.state is State.PROCESSING and job.cancel_requested_at == asked_at
    assert holder.checkpoint(lease, done=1) is True
    assert holder.beat().cancelled == [(job_id, lease.token)]
    assert holder.cancel(lease, "stopped") is Verdict.RECORDED
    assert state(store, job_id) is State.CANCELLED
    assert_counts_are_true(store)


@pytest.mark.parametrize(
    ("outcome", "end", "verdict"),
    [
        (lambda lease: Completed(lease, 1), State.COMPLETED, Verdict.RECORDED),
        (lambda lease: Failed(lease, BOOM), State.FAILED, Verdict.RECORDED),
        (lambda lease: Cancelled(lease), State.CANCELLED, Verdict.RECORDED),
        (lambda lease: Retried(lease, BOOM, timedelta(0)), State.CANCELLED, Verdict.CANCELLED),
        (lambda lease: Advanced(lease, "next", 1), State.CANCELLED, Verdict.CANCELLED),
        (lambda lease: Released(lease), State.CANCELLED, Verdict.CANCELLED),
    ],
)
def test_what_a_cancel_does_to_each_outcome(
    store: Store, outcome: Callable[..., Outcome], end: State, verdict: Verdict
) -> None:
    """I-23: the documented table; a cancelled job never runs again."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    store.jobs.cancel(job_id)
    assert holder.record([outcome(lease)]) == [verdict]
    assert state(store, job_id) is end
    store.upkeep.promote()
    assert not holder.claim("work", 1) and not holder.claim("next", 1)
    assert_counts_are_true(store)


@pytest.mark.parametrize(
    "outcome",
    [
        lambda lease: Cancelled(lease, ON_REQUEST),
        lambda lease: Retried(lease, BOOM, timedelta(0)),
        lambda lease: Advanced(lease, "next", 1),
        lambda lease: Released(lease),
    ],
)
@pytest.mark.parametrize("is_aside", [False, True], ids=["plain", "aside"])
def test_the_reason_of_a_cancel_stays_with_the_job(
    store: Store, outcome: Callable[..., Outcome], is_aside: bool
) -> None:
    """Whatever the holder was doing; the first reason stands. A job with a key takes the long way anyway."""
    job_id = one(store, key=Key("k") if is_aside else None)
    holder = store.join()
    lease = claim_one(holder)
    store.jobs.cancel(job_id, "the order was withdrawn\x00")
    store.jobs.cancel(job_id, "too late")
    holder.record([outcome(lease)])
    job = store.jobs.get(job_id)
    assert job.state is State.CANCELLED and job.error is not None
    assert job.error["message"] == "the order was withdrawn\\x00"


def test_a_handler_that_cancels_itself_keeps_its_own_reason(store: Store) -> None:
    asked, alone = one(store), one(store)
    holder = store.join()
    leases = {lease.id: lease for lease in holder.claim("work", 2)}
    store.jobs.cancel(asked, "withdrawn")
    holder.record([Cancelled(leases[asked], "nobody needs it"), Cancelled(leases[alone], ON_REQUEST)])
    messages = [(store.jobs.get(job_id).error or {})["message"] for job_id in (asked, alone)]
    assert messages == ["nobody needs it", ON_REQUEST]


def test_a_cancelled_holder_that_died_ends_cancelled(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    job_id = one(store)
    holder = opened().join(lease=LEASE)
    claim_one(holder)
    store.jobs.cancel(job_id, "not needed")
    clock.advance(LEASE + timedelta(seconds=1))
    assert [item.verdict for item in store.recovery.recover()] == ["cancelled"]
    job = store.jobs.get(job_id)
    assert job.state is State.CANCELLED and (job.error or {})["message"] == "not needed"
    assert_counts_are_true(store)


@pytest.mark.parametrize("end", [State.COMPLETED, State.FAILED, State.CANCELLED])
def test_an_ended_job_cannot_be_cancelled(store: Store, end: State) -> None:
    """The refusal names both states."""
    job_id = _ended(store, end)
    before = store.jobs.get(job_id)
    with pytest.raises(IllegalTransitionError) as caught:
        store.jobs.cancel(job_id)
    assert caught.value.state == end and caught.value.to_state == "cancelled"
    assert str(end) in str(caught.value) and "cancelled" in str(caught.value)
    assert store.jobs.get(job_id) == before


@pytest.mark.parametrize("job_id", ["nonsense", "01900000-0000-7000-8000-000000000000"])
def test_a_job_that_does_not_exist_is_named(store: Store, job_id: str) -> None:
    for act in (store.jobs.cancel, store.jobs.retry, store.jobs.get):
        with pytest.raises(JobNotFoundError, match=job_id):
            act(job_id)


# ---------------------------------------------------------------------------------------------- retry by hand


@pytest.mark.parametrize("end", [State.COMPLETED, State.FAILED, State.CANCELLED])
def test_an_ended_job_can_be_retried_by_hand(store: Store, clock: ManualClock, end: State) -> None:
    """A new attempt, history kept."""
    job_id = _ended(store, end)
    old = store.jobs.get(job_id)
    clock.advance(60)
    job = store.jobs.retry(job_id)
    assert (job.state, job.generation, job.attempt, job.crashes) == (State.QUEUED, 2, 0, 0)
    assert job.args == old.args and job.created_at == old.created_at and job.run_at == clock.now()
    assert job.result is None and job.error is None and job.finished_at is None
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.generation, attempt.ended_at) == (str(end), 1, old.finished_at)
    assert attempt.error == old.error
    assert_counts_are_true(store)
    holder = store.join()
    lease = claim_one(holder)
    assert lease.generation == 2 and lease.attempt == 1
    holder.complete(lease, "second")
    assert store.jobs.get(job_id).result == "second"
    assert_counts_are_true(store)


def test_a_job_cancelled_before_it_ran_can_be_retried(store: Store) -> None:
    job_id = one(store)
    store.jobs.cancel(job_id)
    store.jobs.retry(job_id)
    assert store.jobs.attempts(job_id) == [] and claim_one(store.join()).id == job_id


def test_a_live_job_cannot_be_retried(store: Store) -> None:
    job_id = one(store)
    for expected in ("queued", "processing"):
        with pytest.raises(IllegalTransitionError) as caught:
            store.jobs.retry(job_id)
        assert caught.value.state == expected and "queued" in str(caught.value)
        store.join().claim("work", 1)
    scheduled = one(store, delay=timedelta(1))
    with pytest.raises(IllegalTransitionError):
        store.jobs.retry(scheduled)


def test_a_retried_failure_goes_on_at_its_phase_and_checkpoint(store: Store) -> None:
    """Named outputs of its phase stay with the checkpoint that stands behind them: work that is not done again made them."""
    job_id = one(store, phase="a")
    holder = store.join()
    holder.advance(claim_one(holder, "a"), "b", "from a")
    lease = claim_one(holder, "b")
    holder.checkpoint(lease, done=7, total=9, position="seven")
    holder.put_output(lease, "half", name="part")
    holder.fail(lease, BOOM)
    job = store.jobs.retry(job_id)
    kept = [("a", "", "from a"), ("b", "part", "half")]
    assert job.phase == "b" and [(o.phase, o.name, o.value) for o in job.outputs] == kept
    progress = store.jobs.progress(job_id)
    assert progress is not None and (progress.done, progress.total, progress.position) == (7, 9, "seven")
    again = claim_one(holder, "b")
    assert not holder.put_output(again, "whole", name="part").created, "the first value stands"
    holder.complete(again)
    done = store.jobs.get(job_id)
    assert [(o.phase, o.name, o.value) for o in done.outputs] == kept
    assert done.progress is not None and done.progress.done == 7


def test_a_named_output_alone_stays_and_goes_with_the_job(store: Store) -> None:
    """Its row is found at the job's end, though the phase before left none."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.put_output(lease, 1, name="part")
    holder.fail(lease, BOOM)
    store.jobs.retry(job_id)
    holder.complete(claim_one(holder))
    assert [(o.name, o.value) for o in store.jobs.get(job_id).outputs] == [("part", 1)]
    assert rows(store, "output") == []


def test_a_retried_cancel_does_its_phase_again_though_the_output_was_kept(store: Store) -> None:
    """The output without a name says that the phase is done: it goes."""
    job_id = one(store, phase="a")
    holder = store.join()
    lease = claim_one(holder, "a")
    holder.put_output(lease, "kept", name="part")
    store.jobs.cancel(job_id)
    assert holder.advance(lease, "b", "done") is Verdict.CANCELLED
    assert [(o.name, o.value) for o in store.jobs.get(job_id).outputs] == [("", "done"), ("part", "kept")]
    job = store.jobs.retry(job_id)
    assert job.phase == "a" and [(o.name, o.value) for o in job.outputs] == [("part", "kept")]
    assert holder.advance(claim_one(holder, "a"), "b", "anew") is Verdict.RECORDED
    assert ("", "anew") in [(o.name, o.value) for o in store.jobs.get(job_id).outputs]


def test_a_retry_brings_back_an_output_that_is_null(store: Store) -> None:
    """JSON null is a value like any other."""
    job_id = one(store, phase="a")
    holder = store.join()
    holder.advance(claim_one(holder, "a"), "b", None)
    holder.fail(claim_one(holder, "b"), BOOM)
    job = store.jobs.retry(job_id)
    assert [(o.phase, o.value) for o in job.outputs] == [("a", None)]


def test_a_retried_completion_starts_its_phase_afresh(store: Store) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.checkpoint(lease, done=9, total=9)
    holder.put_output(lease, "old", name="part")
    holder.complete(lease)
    store.jobs.retry(job_id)
    assert store.jobs.progress(job_id) is None and store.jobs.get(job_id).outputs == ()
    holder.complete(claim_one(holder))
    assert store.jobs.get(job_id).progress is None


def test_a_retried_job_takes_its_live_key_again_or_is_refused(store: Store) -> None:
    job = NewJob(kind="work", key=Key("k"), args={"a": 1})
    first = store.enqueue([job])[0].id
    holder = store.join()
    holder.fail(claim_one(holder), BOOM)
    store.jobs.retry(first)
    assert store.enqueue([job])[0].id == first, "the key is held again"
    holder.fail(claim_one(holder), BOOM)
    second = store.enqueue([job])[0].id
    with pytest.raises(KeyConflictError) as caught:
        store.jobs.retry(first)
    assert caught.value.job_id == second and state(store, first) is State.FAILED
    assert_counts_are_true(store)


def _ended(store: Store, end: State) -> str:
    job_id = one(store, args={"x": 1})
    holder = store.join()
    lease = claim_one(holder)
    match end:
        case State.COMPLETED:
            holder.complete(lease)
        case State.FAILED:
            holder.fail(lease, BOOM)
        case _:
            holder.cancel(lease, "enough")
    return job_id


@pytest.mark.parametrize(
    ("end", "named", "advanced", "has_outputs"),
    [
        ("fail", True, False, True),
        ("complete", True, False, False),
        ("complete", True, True, True),
        ("fail", False, True, True),
        ("fail", False, False, False),
        ("cancel", False, False, False),  # with the output of its phase, which says that it is done
    ],
)
def test_a_retried_job_is_flagged_for_the_outputs_it_keeps(
    store: Store, end: str, named: bool, advanced: bool, has_outputs: bool
) -> None:
    """The flag has its end look for them; without a reason it would take the long way."""
    job_id = one(store, phase="a")
    holder, phase = store.join(), "a"
    if advanced:
        holder.advance(claim_one(holder, "a"), "b", 1)
        phase = "b"
    lease = claim_one(holder, phase)
    if named:
        holder.put_output(lease, 1, name="part")
    if end == "complete":
        holder.complete(lease)
    elif end == "fail":
        holder.fail(lease, BOOM)
    else:
        store.jobs.cancel(job_id)
        holder.advance(lease, "b", 1)
    store.jobs.retry(job_id)
    ((row,), kept) = rows(store, "job"), rows(store, "output")
    assert bool(row["flags"] & Flag.OUTPUT) is has_outputs is bool(kept)
