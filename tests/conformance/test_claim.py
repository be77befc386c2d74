"""Claiming: who gets what, and how many."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, every_job, one, state
from windlass.clock import ManualClock
from windlass.errors import ConfigError, StoreError
from windlass.features import Store
from windlass.model import Advanced, Completed, Flag, Json, Retried, State, Want

pytestmark = pytest.mark.older_postgres


def test_a_claimed_job_belongs_to_one_holder(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """A second instance gets nothing."""
    job_id = one(store, args={"n": 1}, max_attempts=4, priority=8)
    first, second = store.join(), opened().join()
    lease = claim_one(first)
    assert (lease.id, lease.attempt, lease.max_attempts, lease.priority, lease.generation) == (
        job_id,
        1,
        4,
        8,
        1,
    )
    assert lease.args == {"n": 1} and lease.claimed_at == clock.now() and lease.token > 0
    assert not second.claim("work", 10)
    job = store.jobs.get(job_id)
    assert job.state is State.PROCESSING and job.started_at == clock.now() and job.attempt == 1
    assert_counts_are_true(store)


def test_a_claim_returns_at_most_what_was_asked_for(store: Store) -> None:
    """I-3."""
    enqueue(store, n=25)
    holder = store.join()
    sizes = [len(holder.claim("work", 10)) for _ in range(4)]
    assert sizes == [10, 10, 5, 0]
    assert not holder.claim("work", 0)


def test_a_claim_takes_only_its_own_phase(store: Store) -> None:
    one(store, "other")
    mine = one(store, "work")
    holder = store.join()
    assert [lease.id for lease in holder.claim("work", 10)] == [mine]
    assert not holder.claim("none", 10)


def test_a_claim_without_suspects_goes_past_them(store: Store) -> None:
    """They stay where they are, for whoever has a place for them."""
    holder = store.join()
    suspect = one(store)
    holder.record([Retried(claim_one(holder), BOOM, timedelta(0), crashed=True)])
    store.upkeep.promote()
    assert not holder.step((), Want("work", 10, suspects=False)).claimed
    fresh = one(store)
    (lease,) = holder.step((), Want("work", 10, suspects=False)).claimed
    assert lease.id == fresh
    holder.nudge("work")
    assert claim_one(holder).id == suspect
    assert_counts_are_true(store)


def test_tokens_rise_with_every_claim(store: Store) -> None:
    """I-4: also after everything claimed before is finished and its claim rows are gone."""
    holder = store.join()
    last = 0
    for _ in range(5):
        one(store)
        lease = claim_one(holder)
        assert lease.token > last
        last = lease.token
        holder.complete(lease)
        holder.step()  # the emptied claim row goes one step later
    holder.leave()
    one(store)
    assert claim_one(store.join()).token > last


def test_a_step_records_and_claims_together(store: Store) -> None:
    enqueue(store, n=4)
    holder = store.join()
    first = holder.claim("work", 2)
    step = holder.step([Completed(lease) for lease in first], Want("work", 2))
    assert [str(verdict) for verdict in step.verdicts] == ["recorded", "recorded"]
    assert len(step.claimed) == 2
    assert_counts_are_true(store)


def test_jobs_behind_the_free_processors_are_not_marked_started(store: Store) -> None:
    """A claim may be larger than what starts at once; recovery must know the difference."""
    enqueue(store, n=3)
    one(store, priority=9)
    holder = store.join()
    claimed = holder.claim("work", 4, starting=2)
    assert [bool(lease.flags & Flag.STARTED) for lease in claimed] == [True, True, False, False]
    assert holder.start(claimed[2:3]) == {claimed[2].id}


def test_a_paused_phase_is_not_claimed(store: Store, opened: Callable[[], Store], clock: ManualClock) -> None:
    enqueue(store, n=2)
    one(store, "other")
    holder = opened().join()
    store.phases.pause("work", "their API is down")
    assert not holder.claim("work", 1)
    assert holder.claim("other", 1)
    (pause,) = store.phases.paused()
    assert (pause.phase, pause.reason, pause.since, pause.until) == (
        "work",
        "their API is down",
        clock.now(),
        None,
    )
    assert store.phases.resume("work") and not store.phases.resume("work")
    assert holder.claim("work", 1) and store.phases.paused() == []


def test_a_pause_with_an_end_ends_by_itself(store: Store, clock: ManualClock) -> None:
    one(store)
    holder = store.join()
    store.phases.pause("work", "first", lasts=timedelta(hours=1))
    store.phases.pause("work", "window", lasts=timedelta(seconds=10))
    assert store.phases.paused()[0].until == clock.now() + timedelta(seconds=10)
    clock.advance(9)
    assert not holder.claim("work", 1)
    clock.advance(1)
    assert store.phases.paused() == []
    assert holder.claim("work", 1)
    with pytest.raises(ConfigError):
        store.phases.pause("work", "x", lasts=timedelta(0))


def test_a_quiet_period_holds_fresh_jobs_back(store: Store, clock: ManualClock) -> None:
    old = one(store)
    clock.advance(20)
    one(store)
    clock.advance(10)
    holder = store.join()
    claimed = holder.claim("work", 5, quiet=timedelta(seconds=30))
    assert [lease.id for lease in claimed] == [old]
    assert len(holder.claim("work", 5)) == 1


def test_a_dead_instance_claims_nothing(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    one(store)
    zombie = opened().join(lease=timedelta(seconds=5))
    clock.advance(6)
    store.recovery.recover()
    assert not zombie.claim("work", 1)
    assert store.join().claim("work", 1)


@pytest.mark.parametrize("limit", [-1, 10_001])
def test_a_senseless_limit_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(ConfigError):
        store.join().claim("work", limit)


def test_a_lease_needs_a_length(store: Store) -> None:
    with pytest.raises(ConfigError):
        store.join(lease=timedelta(0))


def test_every_attempt_is_counted_at_the_claim(store: Store) -> None:
    """I-14: so that a crash counts too."""
    job_id = one(store)
    holder = store.join()
    claim_one(holder)
    assert store.jobs.get(job_id).attempt == 1
    assert state(store, job_id) is State.PROCESSING


def test_a_step_that_fails_claims_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording came after the claim: when it raised, the claimed jobs stayed processing as long as the instance lived."""
    enqueue(store, n=3)
    holder = store.join()
    (first,) = holder.claim("work", 1)
    broken = Advanced(first, "next", Json("{not json"))
    with pytest.raises(StoreError):
        holder.step([broken], Want("work", 2))
    assert [str(job.state) for job in every_job(store)].count("processing") == 1


def test_claims_the_caller_never_saw_are_given_back_by_the_beat(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(store, n=3)
    holder = store.join()
    (first,) = holder.claim("work", 1)
    holder.complete(first)

    def fails(*_: object) -> None:
        raise StoreError("the connection broke")

    monkeypatch.setattr(holder, "_resolve", fails)
    with pytest.raises(StoreError):
        holder.step([Completed(first)], Want("work", 2))
    monkeypatch.undo()
    clock.advance(6)
    assert holder.beat().released == 2
    assert len(holder.claim("work", 5)) == 2


def test_a_claim_made_while_a_beat_is_under_way_is_not_released(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beat names what it knew when it was sent; a slow one came back and released what was claimed meanwhile."""
    one(store)
    holder = store.join()
    run = store.db.run

    def slow(verb: str, **parameters: object) -> list:
        if verb == "beat":
            claim_one(holder)
            clock.advance(10)
        return run(verb, **parameters)

    monkeypatch.setattr(store.db, "run", slow)
    assert holder.beat().released == 0
