"""Verbs about instances and their claims take what they are asked for and no more, tested where there is more to take."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from unittest.mock import ANY

import pytest

from tests.conformance.bystanders import Crowd, prefix, rows
from tests.conformance.life import (
    LEASE,
    claim_one,
    enqueue,
    one,
)
from windlass.clock import ManualClock
from windlass.errors import LeaseLost
from windlass.features import Store
from windlass.store.ids import SMALLEST

# ---------------------------------------------------------------------------------------------------------- instances


def test_the_dead_stay_as_dead_as_they_were(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """Neither a late beat nor a late goodbye changes when an instance was last alive or when it was declared dead."""
    dying = opened().join(lease=LEASE)
    one(store)
    claim_one(dying)
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    (before,) = rows(store, "instance")
    clock.advance(1)
    store.db.run("recover.declare_dead", own=None)
    with pytest.raises(LeaseLost):
        dying.beat()
    store.db.run("leave", instance=dying.id)
    assert rows(store, "instance") == [before]


def test_a_beat_answers_claims_that_are_old_own_and_unknown(store: Store, clock: ManualClock) -> None:
    mine, other = store.join(), store.join()
    enqueue(store, n=4)
    known, lost = claim_one(mine).token, claim_one(mine).token
    claim_one(other)
    clock.advance(6)
    claim_one(mine)
    ((_, unknown),) = store.db.run("beat", instance=mine.id, known=[known], grace=5.0)
    assert unknown == str(lost)


def test_an_instance_is_dead_alive_or_unknown(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    late = opened().join(lease=LEASE)
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    living = [opened().join(lease=LEASE) for _ in range(2)]
    assert store.instances.is_dead(late.id) is True
    assert [store.instances.is_dead(holder.id) for holder in living] == [False, False]
    assert store.instances.is_dead(SMALLEST) is None and store.instances.is_dead("worker-1") is None


def test_only_the_late_are_buried(store: Store, opened: Callable[[], Store], clock: ManualClock) -> None:
    late, fresh = opened().join(lease=LEASE), opened().join(lease=2 * LEASE)
    clock.advance(LEASE + timedelta(seconds=1))
    assert [row[0] for row in store.db.run("recover.declare_dead", own=None)] == [late.id]
    assert {item.id: item.dead_at is None for item in store.instances.list()} == {
        late.id: False,
        fresh.id: True,
    }


def test_a_dead_instance_is_remembered_while_it_has_claims(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    dying = opened().join(lease=LEASE)
    enqueue(store, n=2)
    dying.claim("work", 2)
    clock.advance(LEASE + timedelta(hours=2))
    store.recovery.recover(limit=1)
    clock.advance(timedelta(hours=2))
    store.db.run("recover.sweep")
    assert [item.id for item in store.instances.list()] == [dying.id]
    for _ in range(2):  # first its claims go, then the instance
        store.recovery.recover()
    assert store.instances.list() == []


def test_an_instance_that_died_lately_is_still_shown(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    dying = opened().join(lease=LEASE)
    clock.advance(LEASE + timedelta(seconds=1))
    store.recovery.recover()
    clock.advance(timedelta(minutes=59))
    store.recovery.recover()
    assert [item.id for item in store.instances.list()] == [dying.id]


def test_jobs_of_an_instance_nobody_knows_are_recovered(
    store: Store, opened: Callable[[], Store], crowd: Crowd
) -> None:
    """Its row is gone, the claim is not. Others live."""
    lost = opened().join()
    job_id, named = one(store, "s"), one(store, "n")
    claim_one(lost, "s")
    with store.db.effect(5) as tx:
        tx.connection.execute(f"DELETE FROM {prefix(store)}instance WHERE id = '{lost.id}'")
    token = claim_one(crowd.keeper, "n").token
    picked = store.db.run("recover.pick", tokens=[token], limit=9)
    assert [row[0] for row in picked] == [named], "asked by token, nobody else's dead matter"
    assert [item.job_id for item in store.recovery.recover()] == [job_id]
    assert lost.id not in [str(row["instance"]) for row in rows(store, "claim")]


def test_a_holder_is_told_of_its_own_cancels_once(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """Also where others hold jobs of the same phase, lane and moment, and where its claim covers several lanes."""
    mine, theirs = opened().join(lease=LEASE), store.join()
    low, high = one(store, priority=1), one(store, priority=8)
    held = mine.claim("work", 2)
    assert {lease.id for lease in held} == {low, high} and len({lease.token for lease in held}) == 1
    other = one(store, priority=1)
    claim_one(theirs)
    store.jobs.cancel(other)
    assert (mine.beat().cancelled, theirs.beat().cancelled) == ([], [(other, ANY)])
    store.jobs.cancel(low)
    store.jobs.cancel(high)
    assert sorted(mine.beat().cancelled) == sorted((job, held[0].token) for job in (low, high))
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    picked = store.db.run("recover.pick", tokens=[held[0].token], limit=9)
    assert sorted(row[0] for row in picked) == sorted([low, high])


def test_with_tokens_given_other_peoples_dead_are_left_out(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    dying, living = opened().join(lease=LEASE), store.join(lease=timedelta(days=1))
    one(store, "dead"), one(store, "alive")
    claim_one(dying, "dead")
    lease = claim_one(living, "alive")
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    assert [row[0] for row in store.db.run("recover.pick", tokens=[lease.token], limit=9)] == [lease.id]
    assert store.db.run("recover.pick", tokens=[], limit=9) == []


def test_empty_claims_of_the_living_are_not_swept(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """They go with their holder's next step; of the dead, only those that cover nothing."""
    living, dying = store.join(lease=timedelta(days=1)), opened().join(lease=LEASE)
    one(store, "a"), one(store, "b"), one(store, "c")
    tokens = {name: claim_one(holder, name) for name, holder in {"a": living, "b": dying, "c": dying}.items()}
    for name in ("a", "b"):
        lease = tokens[name]
        store.db.run(
            "record.finish",
            outcomes=json.dumps([{"id": lease.id, "token": lease.token, "state": "completed"}]),
        )
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    store.db.run("recover.sweep")
    assert {row["token"] for row in rows(store, "claim")} == {tokens["a"].token, tokens["c"].token}


def test_orphans_are_looked_for_a_page_at_a_time(store: Store) -> None:
    ids = sorted(enqueue(store, n=5))
    page = store.db.run("recover.orphans", after=SMALLEST, limit=2)
    assert [row[0] for row in page] == ids[:2]
    assert [row[0] for row in store.db.run("recover.orphans", after=ids[1], limit=9)] == ids[2:]
