"""Rows that somebody wrote past us, with values nobody can use: they must not keep a claim, a beat or a recovery from the others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.life import one
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import Completed, JobError, Retried, Verdict
from windlass.store.jobs.holder import Holder

BOOM = JobError(type="E", code="e", message="e")
LEASE = timedelta(seconds=30)
# Times that Python has no datetime for, and counts that cannot be counted on.
ODD = {
    "made before all time": ("created_at", "'-infinity'", -(2**62)),
    "made before Christ": ("created_at", "'4000-01-01 BC'", -(10**17)),
    "made after all time": ("created_at", "'infinity'", 2**62),
    "made in year 20000": ("created_at", "'20000-01-01'", 10**18),
    "ready before all time": ("ready_at", "'-infinity'", -(2**62)),
    "as many attempts as fit": ("attempt", 32767, 32767),
    "as many crashes as fit": ("crashes", 32767, 32767),
    "every flag": ("flags", 32767, 32767),
}


def odd_and_even(store: Store, what: str) -> tuple[str, str]:
    """Two jobs of one phase; the first is odd."""
    column, postgres, sqlite = ODD[what]
    value, table = (sqlite, "windlass_job") if store.db.dialect == "sqlite" else (postgres, "windlass.job")
    first = one(store)
    with store.db.effect(10) as tx:
        tx.connection.execute(f"UPDATE {table} SET {column} = {value}")
    return first, one(store)


def claimed(holder: Holder, count: int) -> set[str]:
    return {lease.id for lease in holder.claim("work", count)}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_row_is_claimed_with_its_neighbours_and_ends(store: Store, what: str) -> None:
    pair = odd_and_even(store, what)
    leases = store.join().claim("work", 5)
    assert {lease.id for lease in leases} == set(pair)
    assert store.join().record([Completed(lease) for lease in leases]) == [Verdict.RECORDED] * 2


@pytest.mark.parametrize("what", ODD)
def test_the_age_of_an_odd_row_can_be_read(store: Store, what: str) -> None:
    odd_and_even(store, what)
    assert store.phases.oldest()["work"] >= 0


@pytest.mark.parametrize("what", ODD)
def test_an_odd_row_can_be_given_back_and_tried_again(store: Store, clock: ManualClock, what: str) -> None:
    """One that has no attempt left fails instead."""
    odd_and_even(store, what)
    holder = store.join()
    first, second = holder.claim("work", 5)
    assert holder.release(first, counted=True) is Verdict.RECORDED
    holder.record([Retried(second, BOOM, timedelta(seconds=1), crashed=True)])
    (again,) = holder.claim("work", 5)
    holder.record([Retried(again, BOOM, timedelta(seconds=1), crashed=True)])
    clock.advance(timedelta(seconds=2))
    store.upkeep.promote(10)
    store.limits.let_in()  # every flag: it may have a limit, too
    assert len(claimed(holder, 5)) + store.phases.counts()["work"].failed == 2


@pytest.mark.parametrize("what", ODD)
def test_an_odd_row_is_found_when_its_claim_was_lost(store: Store, clock: ManualClock, what: str) -> None:
    pair = odd_and_even(store, what)
    holder = store.join()
    claimed(holder, 5)
    holder._left.clear()  # as if the reply had never arrived
    clock.advance(timedelta(seconds=6))
    assert holder.beat().released == 2
    assert claimed(holder, 5) == set(pair)


@pytest.mark.parametrize("what", ODD)
def test_an_odd_row_of_a_dead_instance_is_recovered(store: Store, clock: ManualClock, what: str) -> None:
    pair = odd_and_even(store, what)
    claimed(store.join(lease=LEASE), 5)
    clock.advance(LEASE + timedelta(seconds=1))
    assert {item.job_id for item in store.recovery.recover()} == set(pair)
