"""How often a job met the death of its instance: isolated, delayed, and failed at the cap."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.conformance.deaths import LATER, die
from tests.conformance.life import BOOM, LEASE, assert_counts_are_true, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import Failed, Flag, JobError, Lease, Retried, State, Verdict
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.recovery import crash_delay, death_delay
from windlass.upkeep.recoverer import Recoverer

pytestmark = pytest.mark.older_postgres


def test_only_a_job_that_was_running_at_two_deaths_is_isolated(store: Store, clock: ManualClock) -> None:
    """I-14: what only waited in memory is not suspected, however often."""
    one(store)
    for entered, suspect in ((False, False), (True, False), (False, False), (False, False), (True, True)):
        assert not claim_and_release(store).is_suspect
        die(store, clock, entered=entered)
        assert claim_and_release(store).is_suspect is suspect
    die(store, clock, entered=False)
    assert claim_and_release(store).is_suspect, "it stays one"


def claim_and_release(store: Store) -> Lease:
    """The one job as its next holder sees it."""
    holder = store.join(lease=timedelta(days=9))
    lease = claim_one(holder)
    holder.release(lease)
    holder.leave()
    return lease


def test_a_job_that_met_a_death_is_running_when_its_holder_says_so(
    store: Store, opened: Callable[[], Store], dying: Holder, clock: ManualClock
) -> None:
    """The claim notes as started what will hardly wait. Of a job that met a death it says nothing: the next one has to be exact."""
    one(store)
    claim_one(dying)
    clock.advance(LATER)
    store.recovery.recover()
    second = opened().join(lease=LEASE)
    assert not claim_one(second).flags & Flag.STARTED
    clock.advance(LATER)
    assert [item.error for item in store.recovery.recover()] == [None]
    third = opened().join(lease=LEASE)
    third.start([claim_one(third)])
    clock.advance(LATER)
    (item,) = store.recovery.recover()
    assert item.error is not None and item.error.details == {"deaths": 2}


def test_a_job_that_was_not_started_loses_nothing(store: Store, dying: Holder, clock: ManualClock) -> None:
    """I-14: what only waited in the dead instance's memory."""
    enqueue(store, n=3, max_attempts=1)
    started, waiting, also = dying.claim("work", 3, starting=1)
    dying.start([also])
    clock.advance(LATER)
    verdicts = {item.job_id: item.verdict for item in store.recovery.recover()}
    assert verdicts == {started.id: "failed", waiting.id: "released", also.id: "failed"}
    job = store.jobs.get(waiting.id)
    assert (job.attempt, job.crashes, job.state) == (0, 0, State.QUEUED)
    assert store.jobs.attempts(waiting.id) == []
    assert not claim_one(store.join()).is_suspect
    assert_counts_are_true(store)


def test_a_job_of_one_attempt_is_not_run_twice(store: Store, dying: Holder, clock: ManualClock) -> None:
    job_id = one(store, max_attempts=1)
    claim_one(dying)
    clock.advance(LATER)
    assert [item.verdict for item in store.recovery.recover()] == ["failed"]
    job = store.jobs.get(job_id)
    assert job.state is State.FAILED and job.error is not None and job.error["code"] == "instance_died"
    assert_counts_are_true(store)


def test_a_job_that_sees_ten_deaths_fails_and_one_that_sees_nine_does_not(
    store: Store, clock: ManualClock
) -> None:
    """I-14: it cannot loop, however many attempts it has; and deaths spend none of them, so that it fails by no other count."""
    job_id = one(store, max_attempts=2)
    verdicts = [die(store, clock).verdict for _ in range(9)]
    assert verdicts == ["released", "released"] + ["retried"] * 7
    job = store.jobs.get(job_id)
    assert (job.state, job.attempt, job.crashes) == (State.QUEUED, 0, 0)
    assert_counts_are_true(store)
    assert die(store, clock).verdict == "failed"
    job = store.jobs.get(job_id)
    assert job.state is State.FAILED and job.error is not None
    assert job.error["code"] == "death_cap" and "10 instances died" in job.error["message"]
    assert "app.handle(id).retry()" in job.error["message"]
    assert len(store.jobs.attempts(job_id)) == 9
    assert_counts_are_true(store)


either = pytest.mark.parametrize("orphan", [False, True], ids=["claimed", "orphan"])


@either
@pytest.mark.parametrize("fresh", ["phase", "generation", "job"])
def test_the_deaths_of_another_phase_life_or_job_do_not_count(
    store: Store, clock: ManualClock, fresh: str, orphan: bool
) -> None:
    job_id = one(store)
    die(store, clock)
    holder = store.join(lease=timedelta(days=9))
    if fresh == "phase":
        holder.advance(claim_one(holder), "next", None)
    else:
        holder.complete(claim_one(holder))
        store.jobs.retry(job_id) if fresh == "generation" else one(store)
    for deaths in (1, 2):
        item = die(store, clock, "next" if fresh == "phase" else "work", orphan=orphan)
        assert item.error is not None and item.error.details == {"deaths": deaths}


@either
def test_a_crash_of_its_own_process_is_no_death_of_its_instance(
    store: Store, clock: ManualClock, orphan: bool
) -> None:
    """I-14: two counts, each with its own cap."""
    job_id = one(store, max_attempts=50)
    die(store, clock)
    holder = store.join(lease=timedelta(days=9))
    error = JobError(type="ProcessDied", code="process_died", message="died of SIGSEGV")
    for _ in range(2):
        holder.record([Retried(claim_one(holder), error, timedelta(0), crashed=True)])
        store.upkeep.promote()
    item = die(store, clock, orphan=orphan)
    assert item.error is not None and item.error.details == {"deaths": 2}
    assert store.jobs.get(job_id).crashes == 2


@pytest.mark.parametrize("how", ["failed", "out of attempts"])
def test_the_crash_that_ends_a_job_is_counted(store: Store, how: str) -> None:
    bystander, job_id = enqueue(store, n=2, max_attempts=1 if how == "out of attempts" else 9)
    holder = store.join()
    other, lease = sorted(holder.claim("work", 2), key=lambda lease: lease.id == job_id)
    crash = (
        Failed(lease, BOOM, crashed=True) if how == "failed" else Retried(lease, BOOM, LATER, crashed=True)
    )
    assert holder.record([crash, Failed(other, BOOM)]) == [Verdict.RECORDED] * 2
    assert (store.jobs.get(job_id).state, store.jobs.get(job_id).crashes) == (State.FAILED, 1)
    assert store.jobs.get(bystander).crashes == 0


@pytest.mark.parametrize("has_output", [False, True], ids=["no output", "output"])
@pytest.mark.parametrize("reason", ["the order was withdrawn", ""])
def test_a_cancel_that_an_instance_died_over_keeps_its_reason(
    store: Store, dying: Holder, clock: ManualClock, has_output: bool, reason: str
) -> None:
    job_id = one(store)
    lease = claim_one(dying)
    if has_output:
        dying.put_output(lease, "half", next_phase="next", next_max_attempts=9)
    store.jobs.cancel(job_id, *[reason] if reason else [])
    clock.advance(LATER)
    (item,) = store.recovery.recover()
    told = reason or "cancelled on request"
    assert (item.verdict, item.reason) == ("cancelled", told)
    ended = store.jobs.get(job_id)
    assert ended.state is State.CANCELLED and (ended.error or {})["message"] == told


def test_the_death_cap_is_a_setting(store: Store, clock: ManualClock) -> None:
    job_id = one(store)
    die(store, clock, death_cap=1)
    assert state(store, job_id) is State.FAILED


def test_crashes_are_followed_by_longer_and_longer_waits() -> None:
    seconds = [crash_delay(n).total_seconds() for n in range(1, 12)]
    assert seconds[:5] == [0, 1, 2, 4, 8] and max(seconds) == 60


def test_deaths_are_followed_by_waits_that_part_the_neighbours() -> None:
    """I-9: the first two are not. I-14: the one that kills the others does not meet all of them again, each time."""
    assert [death_delay(n) for n in (1, 2)] == [timedelta(0)] * 2
    waits = {death_delay(4).total_seconds() for _ in range(50)}
    assert len(waits) > 40 and 1 <= min(waits) < 1.5 and 2.5 < max(waits) <= 3


def test_the_recoverer_knows_the_death_cap(store: Store, clock: ManualClock) -> None:
    job_id = one(store)
    keeper, found = store.join(lease=timedelta(days=1)), []
    recoverer = Recoverer(
        store,
        instance=SimpleNamespace(holder=keeper),
        phases={},
        death_cap=2,
        record=lambda _outcome: None,
        in_thread=lambda call: call(),
        on_recovered=lambda item: found.append(item.verdict),
    )
    for _ in range(2):
        holder = store.join(lease=LEASE)
        holder.start([claim_one(holder)])
        clock.advance(LATER)
        recoverer.run()
    assert found == ["released", "failed"]
    error = store.jobs.get(job_id).error
    assert error is not None and error["code"] == "death_cap"
