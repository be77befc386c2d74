"""Heartbeats, dead instances, and what becomes of the jobs they held."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.conformance.life import BOOM, LEASE, assert_counts_are_true, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.errors import LeaseLost, StoreError
from windlass.features import Store
from windlass.model import Completed, Failed, Flag, JobError, Lease, Recovered, Retried, State, Verdict
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.recovery import DEATH_CAP, LONGEST_WAIT, Recovery, crash_delay, death_delay
from windlass.upkeep.recoverer import Recoverer

pytestmark = pytest.mark.older_postgres

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


def test_a_job_that_was_running_goes_back_to_its_old_place_at_once(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    """I-9, I-14: with its attempt, to run like any other, and the death on its timeline."""
    job_id = one(store)
    lease = claim_one(dying)
    clock.advance(LATER)
    store.recovery.recover()
    job = store.jobs.get(job_id)
    assert (job.state, job.attempt, job.crashes, job.run_at) == (State.QUEUED, 0, 0, lease.ready_at)
    assert job.started_at == lease.claimed_at
    (attempt,) = store.jobs.attempts(job_id)
    assert attempt.outcome == "recovered" and attempt.error is not None and attempt.instance == dying.id
    assert attempt.error["code"] == "instance_died" and attempt.error["details"] == {"deaths": 1}
    again = claim_one(store.join())
    assert again.attempt == 1 and not again.is_suspect


def die(
    store: Store,
    clock: ManualClock,
    phase: str = "work",
    *,
    entered: bool = True,
    orphan: bool = False,
    death_cap: int = DEATH_CAP,
) -> Recovered:
    """An instance claims the one job, enters its handler (or not) and dies; what recovery makes of it, once that is due. As an ``orphan``
    the job is found by the sweep."""
    holder = store.join(lease=LEASE)
    (lease,) = holder.claim(phase, 1, starting=0)
    if entered:
        holder.start([lease])
    if orphan:
        with store.db.effect(5) as tx:
            prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
            tx.connection.execute(f"DELETE FROM {prefix}claim WHERE token = {lease.token}")
    clock.advance(LATER)
    recover = store.recovery.sweep_orphans if orphan else store.recovery.recover
    (item,) = recover(death_cap=death_cap)
    clock.advance(2 * LONGEST_WAIT)
    store.upkeep.promote()
    return item


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
    assert "app.store.jobs.retry(id)" in job.error["message"]
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


def test_the_agenda_says_when_the_next_lease_can_run_out(
    store: Store, opened: Callable[[], Store], dying: Holder, clock: ManualClock
) -> None:
    """I-9: of the instances that live, and are not late already: those are to be recovered now."""
    seconds = LEASE.total_seconds()
    assert store.upkeep.agenda().expires_in == pytest.approx(seconds)
    opened().join(lease=10 * LEASE)
    assert store.upkeep.agenda().expires_in == pytest.approx(seconds)
    leaving = opened().join(lease=LEASE / 2)
    one(store)
    claim_one(leaving)
    leaving.leave()
    assert store.upkeep.agenda().expires_in == pytest.approx(seconds)
    clock.advance(LATER)
    agenda = store.upkeep.agenda()
    assert agenda.has_dead and agenda.expires_in == pytest.approx(9 * seconds, abs=0.1)


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
    assert state(store, held[1].id) is State.QUEUED and store.jobs.get(held[1].id).attempt == 0
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


def test_suspects_stay_suspects_when_released(store: Store, clock: ManualClock) -> None:
    one(store)
    die(store, clock)
    die(store, clock)
    holder = store.join()
    suspect = claim_one(holder)
    assert suspect.flags & Flag.SUSPECT
    holder.release(suspect)
    assert claim_one(holder).is_suspect


def _claims(store: Store) -> int:
    prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
    with store.db.effect(5) as tx:
        return int(tx.connection.execute(f"SELECT count(*) FROM {prefix}claim").fetchone()[0])


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


def test_jobs_held_for_a_probe_reach_the_caller_even_if_the_sweep_fails(
    store: Store, opened: Callable[[], Store], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(store)
    opened().join(lease=LEASE).claim("work", 1)
    clock.advance(LATER)
    run = store.db.run

    def no_sweep(verb: str, **parameters: object) -> list:
        if verb == "recover.sweep":
            raise StoreError("the connection broke")
        return run(verb, **parameters)

    monkeypatch.setattr(store.db, "run", no_sweep)
    (held,) = Recovery(store.db).recover(holder=store.join(), probed=["work"])
    assert held.verdict == "held" and held.is_held


def test_a_zombie_is_lost_after_recovery_moved_its_job_on(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    one(store)
    dead = opened().join(lease=LEASE)
    lease = claim_one(dead)
    dead.put_output(lease, 1, next_phase="next")
    clock.advance(LATER)
    assert [item.verdict for item in store.recovery.recover()] == ["advanced"]
    assert dead.record([Failed(lease, BOOM)]) == [Verdict.LOST]


def test_an_orphan_whose_output_is_there_is_moved_on(store: Store) -> None:
    """Recovery looks for the output in the net under the nets, too."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.put_output(lease, "done", next_phase="next")
    with store.db.effect(5) as tx:
        prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
        tx.connection.execute(f"DELETE FROM {prefix}claim")
    assert [item.verdict for item in store.recovery.sweep_orphans()] == ["advanced"]
    assert store.jobs.get(job_id).phase == "next"
