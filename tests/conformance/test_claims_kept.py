"""Instances and their claims: what a beat renews and releases, and what is removed of instances that ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.deaths import LATER, die
from tests.conformance.life import LEASE, assert_counts_are_true, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.errors import LeaseLost
from windlass.features import Store
from windlass.model import Completed, Flag, State, Verdict
from windlass.store.jobs.holder import Holder

pytestmark = pytest.mark.older_postgres


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
