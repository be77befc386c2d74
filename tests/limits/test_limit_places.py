"""The places of a limit: freed once whatever ends the job (I-28)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import prefix, rows
from tests.conformance.life import BOOM, claim_one, one, state
from tests.limits.limited import PHASE, gate, let_in, limited, where
from tests.limits.limited import always_true as always_true
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    Advanced,
    After,
    CancelResult,
    Completed,
    DependencyPolicy,
    Gate,
    Retried,
    State,
    Verdict,
)
from windlass.store.ids import SMALLEST
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.record import apply

# --- a place is freed exactly once, whatever ends the job ------------------------------------------------------------


def _complete(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.complete(lease)


def _complete_in_effect(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    with holder.transaction(lease) as tx:
        tx.complete()


def _fail(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.fail(lease, BOOM)


def _retry(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.retry_later(lease, BOOM, timedelta(seconds=60))


def _cancel_held(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    assert store.jobs.cancel(lease.id) is CancelResult.REQUESTED
    holder.record([Retried(lease, BOOM, timedelta(0))])


def _advance(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.advance(lease, "next", 1)


def _release_and_cancel(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.release(lease)
    assert gate(store).admitted == 1
    assert store.jobs.cancel(lease.id) is CancelResult.CANCELLED


def _die_three_times(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    """Released twice (the place is kept), then retried later (it is freed)."""
    clock.advance(31)
    for _ in range(2):
        assert [item.verdict for item in store.recovery.recover()] == ["released"]
        assert gate(store).admitted == 1
        other = store.join(lease=timedelta(seconds=1))
        (again,) = other.claim(PHASE, 9)
        assert again.id == lease.id and other.start([again])
        clock.advance(2)
    assert [item.verdict for item in store.recovery.recover()] == ["retried"]


def _die_at_the_cap(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    clock.advance(31)
    assert [item.verdict for item in store.recovery.recover(death_cap=1)] == ["failed"]


def _orphan(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    with store.db.effect(5) as tx:
        tx.connection.execute(f"DELETE FROM {prefix(store)}claim")
    assert [item.verdict for item in store.recovery.sweep_orphans(death_cap=1)] == ["failed"]


def _child_process(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    with store.writes().transaction(lease) as tx:
        tx.complete()


@pytest.mark.parametrize(
    "end",
    [
        _complete,
        _complete_in_effect,
        _fail,
        _retry,
        _cancel_held,
        _advance,
        _release_and_cancel,
        _die_three_times,
        _die_at_the_cap,
        _orphan,
        _child_process,
    ],
    ids=lambda end: end.__name__.lstrip("_"),
)
def test_every_end_frees_the_place_once_and_lets_the_next_in(
    store: Store, clock: ManualClock, end: Callable[..., None]
) -> None:
    ids = limited(store, 3, limit=1, max_attempts=5)
    let_in(store)
    holder = store.join()
    lease = claim_one(holder)
    assert lease.id == ids[0]
    end(store, holder, lease, clock)
    assert gate(store) == Gate(PHASE, "a", 1, 1, 1)
    assert where(store, ids[1:]) == ["queued", "waiting: limited"]
    assert store.limits.check() == []


def test_an_outcome_recorded_twice_frees_one_place(store: Store) -> None:
    ids = limited(store, 4, limit=1)
    let_in(store)
    holder = store.join()
    lease = claim_one(holder)
    assert holder.complete(lease) is Verdict.RECORDED
    assert holder.complete(lease) is Verdict.ALREADY_RECORDED
    assert where(store, ids) == ["completed", "queued", "waiting: limited", "waiting: limited"]


def test_a_released_job_keeps_its_place(store: Store) -> None:
    ids = limited(store, 2, limit=1)
    let_in(store)
    holder = store.join()
    holder.release(claim_one(holder))
    assert where(store, ids) == ["queued", "waiting: limited"]
    assert gate(store).admitted == 1


def test_a_job_that_only_waited_can_be_cancelled(store: Store) -> None:
    ids = limited(store, 3, limit=1)
    assert store.jobs.cancel(ids[2]) is CancelResult.CANCELLED
    let_in(store)
    assert store.jobs.cancel(ids[1]) is CancelResult.CANCELLED
    assert gate(store) == Gate(PHASE, "a", 1, 1, 0)
    assert [row["job"] for row in rows(store, "job_limit")] == [ids[0]]


def test_a_child_that_is_cancelled_with_its_parent_leaves_no_limits_behind(store: Store) -> None:
    parent = one(store, "parent")
    limited(store, 1, limit=1, after=[After(parent)])
    store.dependencies.link()
    store.jobs.cancel(parent)
    assert rows(store, "job_limit") == []


def test_a_retry_waits_for_a_place_again_when_it_is_due(store: Store, clock: ManualClock) -> None:
    ids = limited(store, 2, limit=1)
    let_in(store)
    holder = store.join()
    holder.retry_later(claim_one(holder), BOOM, timedelta(seconds=10))
    assert where(store, ids) == ["scheduled: retry", "queued"]
    clock.advance(10)
    store.upkeep.promote()
    let_in(store)
    assert where(store, ids) == ["waiting: limited", "queued"]
    holder.complete(claim_one(holder))
    assert where(store, ids) == ["queued", "completed"]
    assert claim_one(holder).attempt == 2


@pytest.mark.parametrize("is_let_in", [True, False], ids=["queued", "waiting"])
def test_a_cancelled_job_that_is_retried_has_its_own_limits_again(store: Store, is_let_in: bool) -> None:
    """And not those of others, which were there when it was cancelled."""
    (other,), (mine,) = limited(store, key="other", limit=3), limited(store, key="mine", limit=1)
    if is_let_in:
        let_in(store)
    assert store.jobs.cancel(mine) is CancelResult.CANCELLED
    store.jobs.retry(mine)
    let_in(store)
    assert sorted((row["key"], row["lim"]) for row in rows(store, "job_limit")) == [("mine", 1), ("other", 3)]
    assert where(store, [mine, other]) == ["queued", "queued"]


def test_a_failed_job_that_is_retried_has_its_own_limits_again(store: Store) -> None:
    """And not those of others, which were there when it failed; these keep their places."""
    (other,), (mine,) = limited(store, key="other", limit=3), limited(store, key="mine", limit=1)
    let_in(store)
    holder = store.join()
    (lease,) = [lease for lease in holder.claim(PHASE, 2) if lease.id == mine]
    holder.fail(lease, BOOM)
    let_in(store)
    assert (gate(store, "mine").admitted, gate(store, "other").admitted) == (0, 1)
    store.jobs.retry(mine)
    let_in(store)
    assert sorted((row["key"], row["lim"]) for row in rows(store, "job_limit")) == [("mine", 1), ("other", 3)]
    assert where(store, [mine, other]) == ["queued", "processing"]


def test_a_retry_by_hand_waits_for_a_place_again(store: Store) -> None:
    ids = limited(store, 2, limit=1, key="k")
    let_in(store)
    holder = store.join()
    holder.fail(claim_one(holder), BOOM)
    assert store.jobs.retry(ids[0]).state is State.WAITING
    let_in(store)
    assert where(store, ids) == ["waiting: limited", "queued"]
    assert gate(store, "k") == Gate(PHASE, "k", 1, 1, 1)
    store.jobs.cancel(ids[0])
    assert store.jobs.retry(ids[0]).reason == "limited"
    store.jobs.cancel(ids[1])
    let_in(store)
    assert where(store, ids) == ["queued", "cancelled"]


def test_a_cancelled_graph_that_is_retried_has_its_limits_again(store: Store) -> None:
    parent = one(store, "parent")
    (child,) = limited(store, 1, limit=1, after=[After(parent, DependencyPolicy.CANCEL)])
    store.dependencies.link()
    holder = store.join()
    holder.fail(claim_one(holder, "parent"), BOOM)
    assert state(store, child) is State.CANCELLED
    store.jobs.retry(parent, dependents=True)
    holder.complete(claim_one(holder, "parent"))
    assert where(store, [child]) == ["waiting: limited"]
    let_in(store)
    assert gate(store) == Gate(PHASE, "a", 1, 1, 0)


def test_a_place_given_up_in_a_handlers_own_transaction_is_freed_after_its_commit(store: Store) -> None:
    ids = limited(store, 4, limit=1)
    let_in(store)
    holder = store.join()
    for n in range(2):
        lease = claim_one(holder)
        outcome = Advanced(lease, "next", 1) if n else Completed(lease)
        with store.db.effect(5) as tx:
            apply(store.db, store.enqueuer, tx, [outcome], is_foreign=True)
        assert where(store, ids)[n + 1 :] == ["waiting: limited"] * (3 - n)
        assert store.limits.check() == [] and store.limits.mend() == 0
        assert store.upkeep.agenda().has("parked")
        let_in(store)
        assert not store.upkeep.agenda().has("parked")
        assert where(store, ids)[n + 1] == "queued"
    assert where(store, ids[:2]) == ["completed", "queued"] and store.jobs.get(ids[1]).phase == "next"
    assert sorted(row["job"] for row in rows(store, "job_limit")) == ids[1:]


def test_a_job_retried_by_hand_before_its_place_was_freed_waits_for_that(store: Store) -> None:
    ids = limited(store, 2, limit=1)
    let_in(store)
    holder = store.join()
    lease = claim_one(holder)
    with store.db.effect(5) as tx:
        apply(store.db, store.enqueuer, tx, [Completed(lease)], is_foreign=True)
    store.jobs.retry(ids[0])
    assert [row[0] for row in store.db.run("gate.pick", after=SMALLEST, limit=9)] == []
    let_in(store)
    assert where(store, ids) == ["waiting: limited", "queued"]
    assert gate(store) == Gate(PHASE, "a", 1, 1, 1)
