"""Reads find what they are asked for and no more, tested where there is more to find."""

from __future__ import annotations

from datetime import timedelta

from tests.conformance.life import BOOM, claim_one, enqueue
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import JobLimit, Retried


def test_of_ends_only_those_of_the_jobs_and_since_the_time_are_read(store: Store, clock: ManualClock) -> None:
    holder = store.join()
    early, late, other = enqueue(store, n=3)
    leases = {lease.id: lease for lease in holder.claim("work", 3)}
    holder.complete(leases[early], 1)
    clock.advance(10)
    moment = clock.now()
    for job_id in (late, other):
        holder.complete(leases[job_id], 2)
    assert {end.id for end in store.ends.of([early, late])} == {early, late}
    assert [end.id for end in store.ends.of([early, late], since=moment)] == [late]


def test_the_agenda_has_the_last_pause_that_is_over(store: Store, clock: ManualClock) -> None:
    store.phases.pause("a", "short", lasts=timedelta(seconds=5))
    store.phases.pause("b", "long", lasts=timedelta(seconds=60))
    assert store.upkeep.agenda().resumed_at is None
    over = clock.now() + timedelta(seconds=5)
    clock.advance(10)
    assert store.upkeep.agenda().resumed_at == over.timestamp()


def test_the_error_of_a_job_that_waits_is_that_of_its_phase(store: Store, clock: ManualClock) -> None:
    """A job that waits for a place in its second phase had its error in the first."""
    place = [JobLimit(phase="two", key="k", limit=1)]
    holder = store.join()
    ids = enqueue(store, "pipe", 2, phase="one", limits=place)
    for _ in ids:
        store.limits.assign()
        holder.record([Retried(claim_one(holder, "one"), BOOM, timedelta(0))])
        clock.advance(1)
        store.upkeep.promote()
        store.limits.assign()
        holder.advance(claim_one(holder, "one"), "two")
    store.limits.assign()
    held = claim_one(holder, "two")
    (waiting,) = {*ids} - {held.id}
    ((place_, *facts),) = store.db.read("why.job", id=waiting)
    assert (place_, facts[13], facts[16]) == ("later", "limited", None)
