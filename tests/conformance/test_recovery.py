"""Heartbeats, dead instances, and what becomes of the jobs they held."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.life import LEASE, assert_counts_are_true, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.errors import LeaseLost
from windlass.model import Completed, Flag, State, Verdict
from windlass.store import Store
from windlass.store.holder import Holder
from windlass.store.recovery import crash_delay
from windlass.upkeep.recoverer import Recoverer

LATER = LEASE + timedelta(milliseconds=1)


@pytest.fixture
def dying(opened: Callable[[], Store]) -> Holder:
    """An instance that will not beat again."""
    return opened().join(lease=LEASE, info={"host": "x"})


def test_a_beating_instance_keeps_its_jobs_for_ever(store: Store, dying: Holder, clock: ManualClock) -> None:
    """I-12: a lease says whether the instance lives, not how long a job may take."""
    one(store)
    lease = claim_one(dying)
    for _ in range(20):
        clock.advance(LEASE - timedelta(seconds=1))
        beat = dying.beat()
        assert (beat.released, list(beat.cancelled)) == (0, [])
        assert store.recovery.recover() == []
    assert dying.complete(lease) is Verdict.RECORDED


def test_a_lease_ends_by_the_databases_clock_and_not_before(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    job_id = one(store)
    claim_one(dying)
    clock.advance(LEASE)
    assert store.recovery.recover() == [] and state(store, job_id) is State.PROCESSING
    clock.advance(0.001)
    assert [(item.job_id, item.verdict) for item in store.recovery.recover()] == [(job_id, "released")]
    assert state(store, job_id) is State.QUEUED
    assert_counts_are_true(store)
    assert store.recovery.recover() == []


def test_an_instance_that_recovers_others_never_declares_itself_dead(
    store: Store, dying: Holder, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """After a pause or a step of the clock its recovery may come before its beat: it failed jobs that it was running."""
    enqueue(store, n=2, max_attempts=1)
    lease, others = claim_one(dying), claim_one(opened().join(lease=LEASE))
    clock.advance(LATER)
    assert [item.job_id for item in store.recovery.recover(holder=dying)] == [others.id]
    assert store.recovery.recover(holder=dying) == []
    assert dying.beat().released == 0
    assert dying.complete(lease) is Verdict.RECORDED


def test_an_instance_that_alone_is_late_has_nothing_to_recover(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    """Asked by itself, nothing is due, and a round costs one read; asked by anybody else, it is."""
    one(store)
    claim_one(dying)
    clock.advance(LATER)
    assert not store.db.is_worth("recover", own=dying.id)
    assert store.db.is_worth("recover", own=None) and store.db.is_worth("recover", own=store.join().id)


def test_each_lease_is_judged_by_its_holders_own_length(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    enqueue(store, n=2)
    short, long = opened().join(lease=timedelta(seconds=5)), opened().join(lease=timedelta(minutes=5))
    mine, _ = claim_one(short), claim_one(long)
    clock.advance(6)
    assert [item.job_id for item in store.recovery.recover()] == [mine.id]


def test_a_started_job_has_its_attempt_and_a_crash_counted(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    """I-14."""
    job_id = one(store)
    lease = claim_one(dying)
    clock.advance(LATER)
    store.recovery.recover()
    job = store.jobs.get(job_id)
    assert (job.attempt, job.crashes, job.run_at) == (1, 1, lease.ready_at)
    assert job.started_at == lease.claimed_at
    (attempt,) = store.jobs.attempts(job_id)
    assert attempt.outcome == "recovered" and attempt.error is not None
    assert attempt.error["code"] == "instance_died" and attempt.error["details"] == {"crashes": 1}
    again = claim_one(store.join())
    assert again.attempt == 2 and again.is_suspect and again.crashes == 1


def test_a_job_that_was_not_started_loses_nothing(store: Store, dying: Holder, clock: ManualClock) -> None:
    """Finding 3: what only waited in the dead instance's memory gets its attempt back, but is run alone once."""
    enqueue(store, n=3, max_attempts=1)
    started, waiting, also = dying.claim("work", 3, starting=1)
    dying.start([also])
    clock.advance(LATER)
    verdicts = {item.job_id: item.verdict for item in store.recovery.recover()}
    assert verdicts == {started.id: "failed", waiting.id: "released", also.id: "failed"}
    job = store.jobs.get(waiting.id)
    assert (job.attempt, job.crashes, job.state) == (0, 0, State.QUEUED)
    assert store.jobs.attempts(waiting.id) == []
    assert claim_one(store.join()).is_suspect
    assert_counts_are_true(store)


def test_a_job_out_of_attempts_fails_with_a_reason(store: Store, dying: Holder, clock: ManualClock) -> None:
    job_id = one(store, max_attempts=1)
    claim_one(dying)
    clock.advance(LATER)
    assert [item.verdict for item in store.recovery.recover()] == ["failed"]
    job = store.jobs.get(job_id)
    assert job.state is State.FAILED and job.error is not None and job.error["code"] == "instance_died"
    assert_counts_are_true(store)


def test_a_job_that_kills_its_instances_fails_at_the_crash_cap(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """I-14: it cannot loop, however many attempts it has."""
    job_id = one(store, max_attempts=50)
    verdicts = []
    for _ in range(3):
        holder = opened().join(lease=LEASE)
        assert holder.claim("work", 1)
        clock.advance(LATER)
        verdicts += [item.verdict for item in store.recovery.recover()]
        clock.advance(5)
        store.upkeep.promote()
    assert verdicts == ["released", "retried", "failed"]
    job = store.jobs.get(job_id)
    assert job.state is State.FAILED and job.error is not None
    assert job.error["code"] == "crash_cap" and "3 times" in job.error["message"]
    assert "app.store.jobs.retry(id)" in job.error["message"]
    assert_counts_are_true(store)


def test_the_crash_cap_is_a_setting(store: Store, dying: Holder, clock: ManualClock) -> None:
    job_id = one(store)
    claim_one(dying)
    clock.advance(LATER)
    store.recovery.recover(crash_cap=1)
    assert state(store, job_id) is State.FAILED


def test_a_suspect_that_ran_apart_is_hardly_what_killed_its_instance(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """I-14: good jobs that were unlucky three times beside poison are not taken for it, and keep their attempts."""
    job_id = one(store, max_attempts=2)
    seen = []
    for _ in range(10):
        holder = opened().join(lease=LEASE)
        lease = claim_one(holder)
        holder.start([lease])
        seen.append((lease.attempt, lease.crashes))
        clock.advance(LEASE + timedelta(seconds=1))
        store.recovery.recover(crash_cap=3, isolated_cap=6)
        if store.jobs.get(job_id).state is State.FAILED:
            break
        clock.advance(60)
        store.upkeep.promote()
    assert seen == [(1, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5)], "the first may have been its own doing"
    error = store.jobs.get(job_id).error
    assert error is not None and error["code"] == "crash_cap" and "6 times" in error["message"]


def test_crashes_are_followed_by_longer_and_longer_waits() -> None:
    """Later ones wait, but the first recovery is at once (I-9)."""
    seconds = [crash_delay(n).total_seconds() for n in range(1, 12)]
    assert seconds[:5] == [0, 1, 2, 4, 8] and max(seconds) == 60


def test_a_job_whose_output_is_there_is_moved_on_as_done(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    """Does the output exist? The database is asked first."""
    enqueue(store, n=4, max_attempts=1)
    last, middle, named, old = dying.claim("work", 4)
    dying.put_output(last, {"answer": 1})
    dying.put_output(middle, "half", next_phase="next", next_max_attempts=9)
    dying.put_output(named, "side", name="thumbnail")
    clock.advance(LATER)
    verdicts = {item.job_id: item.verdict for item in store.recovery.recover()}
    assert verdicts == {last.id: "completed", middle.id: "advanced", named.id: "failed", old.id: "failed"}
    assert store.jobs.get(last.id).result == {"answer": 1}
    moved = store.jobs.get(middle.id)
    assert (moved.phase, moved.state, moved.max_attempts, moved.attempt) == ("next", State.QUEUED, 9, 0)
    assert [output.value for output in moved.outputs] == ["half"]
    assert_counts_are_true(store)


def test_an_output_of_an_earlier_phase_or_life_does_not_count(
    store: Store, opened: Callable[[], Store], dying: Holder, clock: ManualClock
) -> None:
    job_id = one(store, phase="a", max_attempts=5)
    holder = store.join()
    holder.advance(claim_one(holder, "a"), "b", "from a", max_attempts=5)
    claim_one(dying, "b")
    clock.advance(LATER)
    store.recovery.recover()
    job = store.jobs.get(job_id)
    assert (job.phase, job.state) == ("b", State.QUEUED)


def test_a_probed_phase_is_held_for_the_users_own_question(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    """The question "is my output there?" is asked outside of any transaction, under a new token."""
    enqueue(store, n=2)
    other = one(store, "other")
    old = dying.claim("work", 2)
    dying.claim("other", 1)
    clock.advance(LATER)
    asker = store.join()
    recovered = {item.job_id: item for item in store.recovery.recover(holder=asker, probed=["work"])}
    assert recovered[other].verdict == "released" and not recovered[other].is_held
    assert all(recovered[lease.id].is_held for lease in old)
    first, second = (recovered[lease.id].lease for lease in old)
    assert first.token > old[0].token and first.attempt == 1
    assert state(store, first.id) is State.PROCESSING
    assert dying.record([Completed(old[0])]) == [Verdict.LOST]
    assert asker.complete(first, "was there") is Verdict.RECORDED
    assert asker.release(second, counted=True) is Verdict.RECORDED
    assert store.jobs.get(second.id).attempt == 1
    assert_counts_are_true(store)
    clock.advance(1)
    assert asker.beat().released == 0


def test_a_held_job_is_recovered_if_the_asker_dies_too(
    store: Store, opened: Callable[[], Store], dying: Holder, clock: ManualClock
) -> None:
    job_id = one(store)
    claim_one(dying)
    clock.advance(LATER)
    asker = opened().join(lease=LEASE)
    assert store.recovery.recover(holder=asker, probed=["work"])[0].verdict == "held"
    clock.advance(LATER)
    assert [item.verdict for item in store.recovery.recover()] == ["released"]
    assert state(store, job_id) is State.QUEUED


def test_recovery_works_in_pages(store: Store, dying: Holder, clock: ManualClock) -> None:
    """A full page must not starve the rest."""
    enqueue(store, n=25)
    dying.claim("work", 10)
    dying.claim("work", 15)
    clock.advance(LATER)
    sizes = [len(store.recovery.recover(limit=10)) for _ in range(4)]
    assert sizes == [10, 10, 5, 0]
    assert len(store.join().claim("work", 100)) == 25


def test_a_dead_instance_is_told_and_finds_its_row_dead(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    """I-10: a beat that finds it was declared dead has lost all leases."""
    clock.advance(LATER)
    store.recovery.recover()
    with pytest.raises(LeaseLost):
        dying.beat()
    (instance,) = [item for item in store.instances.list() if item.id == dying.id]
    assert instance.dead_at == clock.now() and instance.lease == LEASE and instance.info == {"host": "x"}
    clock.advance(timedelta(minutes=61))
    store.recovery.recover()
    assert dying.id not in [item.id for item in store.instances.list()]
    with pytest.raises(LeaseLost):
        dying.beat()


def test_a_dead_instance_with_jobs_left_is_not_forgotten(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    enqueue(store, n=2)
    dying.claim("work", 2)
    clock.advance(LATER)
    store.recovery.recover(limit=1)
    clock.advance(timedelta(minutes=61))
    assert len(store.recovery.recover(limit=1)) == 1
    assert store.recovery.recover() == []


def test_beats_of_one_instance_are_not_anothers(
    store: Store, opened: Callable[[], Store], dying: Holder, clock: ManualClock
) -> None:
    other = opened().join(lease=LEASE)
    one(store)
    claim_one(dying)
    clock.advance(LEASE - timedelta(seconds=1))
    other.beat()
    clock.advance(2)
    assert len(store.recovery.recover()) == 1
    other.beat()


def test_claims_whose_reply_was_lost_are_released_by_the_beat(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    """Finding 4: the instance lives, the database says it holds jobs, and it knows nothing of them."""
    enqueue(store, n=3, max_attempts=1)
    known = claim_one(dying)
    lost = dying.claim("work", 2)
    dying.checkpoint(lost[0], done=1)
    store.jobs.cancel(lost[1].id)
    dying._left.pop(lost[0].token)  # as if the reply had never arrived
    clock.advance(4)
    assert dying.beat().released == 0, "a claim just made may still be on its way"
    clock.advance(2)
    beat = dying.beat()
    assert beat.released == 2
    job = store.jobs.get(lost[0].id)
    assert (job.state, job.attempt, job.crashes) == (State.QUEUED, 0, 0)
    assert state(store, lost[1].id) is State.CANCELLED
    assert not claim_one(dying).is_suspect
    assert dying.complete(known) is Verdict.RECORDED
    assert dying.beat().released == 0
    assert_counts_are_true(store)


def test_an_instance_that_leaves_gives_nothing_up_silently(
    store: Store, dying: Holder, opened: Callable[[], Store]
) -> None:
    enqueue(store, n=2)
    first, second = dying.claim("work", 2)
    dying.complete(first)
    dying.leave()
    (instance,) = store.instances.list()
    assert instance.dead_at is not None
    assert [item.job_id for item in store.recovery.recover()] == [second.id]
    clean = opened().join()
    clean.complete(claim_one(clean))
    clean.leave()
    assert clean.id not in [item.id for item in store.instances.list()]


def test_orphans_are_found_page_by_page(store: Store, dying: Holder, clock: ManualClock) -> None:
    """The net under the nets: a held job that no claim row covers. Its error says as much as any other."""
    enqueue(store, n=30, correlation_id="c-1")
    held = dying.claim("work", 12)
    good = dying.claim("work", 3)
    for lease in held[:10]:
        dying.start([lease])
    store.jobs.cancel(held[0].id)
    with store.db.effect(5) as tx:
        prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
        tx.connection.execute(f"DELETE FROM {prefix}claim WHERE token = {held[0].token}")
    assert store.recovery.recover() == []
    found = [item for _ in range(8) for item in store.recovery.sweep_orphans(limit=7)]
    assert sorted(item.job_id for item in found) == sorted(lease.id for lease in held)
    assert {item.job_id: item.verdict for item in found}[held[0].id] == "cancelled"
    assert state(store, held[1].id) is State.QUEUED and store.jobs.get(held[1].id).crashes == 1
    (lost,) = store.jobs.attempts(held[1].id)
    assert lost.error is not None and lost.error["code"] == "instance_died"
    assert (lost.error["phase"], lost.error["attempt"], lost.error["correlation_id"]) == ("work", 1, "c-1")
    assert state(store, good[0].id) is State.PROCESSING
    assert_counts_are_true(store)


def test_claim_rows_go_one_step_after_the_commit_that_emptied_them(store: Store, dying: Holder) -> None:
    """Finding 4: never in the same commit, or a lost reply leaves a held job without a claim row."""
    enqueue(store, n=2)
    leases = dying.claim("work", 2)
    dying.complete(leases[0])
    assert _claims(store) == 1
    dying.complete(leases[1])
    assert _claims(store) == 1
    dying.step()
    assert _claims(store) == 0


def test_an_outcome_recorded_twice_does_not_let_go_of_its_neighbour(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    """Found by the state machine: the second reply emptied the claim row under a job that was still held."""
    enqueue(store, n=2)
    first, second = dying.claim("work", 2)
    dying.complete(first)
    assert dying.record([Completed(first)]) == [Verdict.ALREADY_RECORDED]
    dying.step()
    clock.advance(LATER)
    assert [item.job_id for item in store.recovery.recover()] == [second.id]


def test_one_instance_cannot_remove_anothers_claims(
    store: Store, dying: Holder, opened: Callable[[], Store], clock: ManualClock
) -> None:
    one(store)
    lease = claim_one(dying)
    other = opened().join()
    other._emptied.append(lease.token)
    other.step()
    assert _claims(store) == 1
    clock.advance(LATER)
    assert len(store.recovery.recover()) == 1


def test_suspects_stay_suspects_when_released(store: Store, dying: Holder, clock: ManualClock) -> None:
    one(store)
    claim_one(dying)
    clock.advance(LATER)
    store.recovery.recover()
    holder = store.join()
    suspect = claim_one(holder)
    assert suspect.flags & Flag.SUSPECT
    holder.release(suspect)
    assert claim_one(holder).is_suspect


def _claims(store: Store) -> int:
    prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
    with store.db.effect(5) as tx:
        return int(tx.connection.execute(f"SELECT count(*) FROM {prefix}claim").fetchone()[0])


def test_the_recoverer_lets_a_suspect_have_twice_as_many_crashes(store: Store, clock: ManualClock) -> None:
    """It ran in a process of its own, and when its instance died, others were likelier to be why."""
    job_id = one(store, max_attempts=50)
    keeper, found = store.join(lease=timedelta(days=1)), []
    recoverer = Recoverer(
        store,
        holder=lambda: keeper,
        phases={},
        crash_cap=3,
        record=lambda _outcome: None,
        in_thread=lambda call: call(),
        on_recovered=lambda item: found.append(item.verdict),
    )
    for _ in range(6):
        claim_one(store.join(lease=LEASE))
        clock.advance(LATER)
        recoverer.run()
        clock.advance(60)
        store.upkeep.promote()
    assert found == ["released", "retried", "retried", "retried", "retried", "failed"]
    error = store.jobs.get(job_id).error
    assert error is not None and error["code"] == "crash_cap" and "6 times" in error["message"]
