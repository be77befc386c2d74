"""Heartbeats, dead instances, and what becomes of the jobs they held."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.conformance.deaths import LATER
from tests.conformance.life import BOOM, LEASE, assert_counts_are_true, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.errors import StoreError, StoreUnreachableError
from windlass.features import Store
from windlass.model import Completed, Failed, State, Verdict
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.recovery import Recovery
from windlass.upkeep.agenda import Agenda
from windlass.upkeep.recoverer import Recoverer

pytestmark = pytest.mark.older_postgres


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


def test_no_other_duty_comes_before_recovery(
    store: Store, opened: Callable[[], Store], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that goes away ends a round of upkeep: by then the jobs of a dead instance are in their queue again."""
    job_id = one(store)
    one(store, delay=timedelta(seconds=1))
    opened().join(lease=LEASE).claim("work", 1)
    clock.advance(LATER)

    def away(limit: int) -> dict[str, int]:
        raise StoreUnreachableError("the server went away")

    monkeypatch.setattr(store.upkeep, "promote", away)
    recoverer = Recoverer(
        store,
        instance=SimpleNamespace(holder=store.join()),
        phases={},
        death_cap=10,
        record=lambda _outcome: None,
        in_thread=lambda call: call(),
        on_recovered=lambda _recovered: None,
    )
    with pytest.raises(StoreUnreachableError):
        Agenda(store, recoverer, every=5.0, on_promoted=lambda _phase, _count: None).run()
    assert state(store, job_id) is State.QUEUED


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
