"""Rates per phase: what a bucket allows is let in, over all instances together; and ageing: what waits long rises."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import prefix, rows
from tests.conformance.life import BOOM, claim_one, enqueue, one
from tests.limits.limited import always_true as always_true
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.limits.duty import LimitsDuty
from windlass.model import CancelResult, Flow, Gate, JobLimit, Rate
from windlass.model.rate import per_second

PHASE = "work"
FIVE = Rate(5, 2)  # five a second, two at once


def paced(store: Store, n: int = 1, *, rate: Rate = FIVE, **options: Any) -> list[str]:
    """Enqueue jobs of a phase with a rate, and sort them."""
    ids = enqueue(store, n=n, limits=[JobLimit(phase=PHASE, rate=rate)], **options)
    assert store.limits.assign()
    return ids


def queued(store: Store) -> list[str]:
    """The ids in the queue, in order of service."""
    return [row["id"] for row in rows(store, "job", "token IS NULL ORDER BY lane, ready_at, id")]


@pytest.mark.parametrize(("count", "late"), [(1, 0.09), (5, 0.03), (20, 0.0), (20, 0.09), (100, 0.03)])
def test_looks_that_come_late_lose_nothing_of_a_rate(
    store: Store, clock: ManualClock, count: int, late: float
) -> None:
    """By the database's clock, whatever a look takes: so many a second are let in, and not one more than the bound."""
    rate = per_second(count)
    paced(store, 4 * count + 20, rate=rate)
    seconds, pause, let_in = 0.0, 0.0, 0
    while seconds < 4:
        wait = store.limits.pace()
        let_in += len(store.join().claim(PHASE, 1000))
        assert wait is not None and let_in <= rate.burst + count * seconds + 0.001
        pause = wait + late
        clock.advance(pause)
        seconds += pause
    assert let_in >= count * (seconds - pause)


def test_the_time_that_a_look_takes_is_a_part_of_the_wait(store: Store) -> None:
    paced(store, 6)
    times = itertools.count(0, 0.03)
    wait = LimitsDuty(store.limits, every=5, monotonic=lambda: next(times)).run(store.upkeep.agenda())
    assert wait == pytest.approx(0.2 - 0.09), "the clock was looked at four times"


# --- rates -----------------------------------------------------------------------------------------------------------


def test_a_burst_goes_at_once_then_as_many_as_the_rate_allows(store: Store, clock: ManualClock) -> None:
    ids = paced(store, 6)
    assert store.upkeep.agenda().has("paced") and queued(store) == []
    assert store.limits.pace() == pytest.approx(0.2)
    assert queued(store) == ids[:2]
    holder = store.join()
    assert len(holder.claim(PHASE, 9)) == 2
    assert store.limits.pace() == pytest.approx(0.2)
    clock.advance(0.1)
    assert store.limits.pace() == pytest.approx(0.1)
    assert queued(store) == []
    clock.advance(0.1)
    assert store.limits.pace() == pytest.approx(0.2)
    assert queued(store) == ids[2:3]
    assert len(holder.claim(PHASE, 9)) == 1
    clock.advance(60)  # however long nobody looked, no more than the burst
    store.limits.pace()
    assert queued(store) == ids[3:5]
    holder.claim(PHASE, 9)
    clock.advance(0.2)
    store.limits.pace()
    clock.advance(60)
    assert store.limits.pace() is None, "nobody waits"
    assert not store.upkeep.agenda().has("paced")


def test_a_slow_rate_is_kept_to_over_many_looks(store: Store, clock: ManualClock) -> None:
    """Parts of a token are not lost by looking often."""
    paced(store, 20, rate=Rate(0.5, 1))
    holder, begun = store.join(lease=timedelta(hours=1)), 0
    for _ in range(160):
        store.limits.pace()
        begun += len(holder.claim(PHASE, 9))
        clock.advance(0.1)
    assert begun == 1 + 7, "one at once, then one every two seconds for sixteen"


def test_a_clock_that_goes_back_takes_nothing_away(store: Store, clock: ManualClock) -> None:
    ids = paced(store, 3, rate=Rate(5, 3))
    store.limits.define([Flow(phase=PHASE, rate=Rate(5, 1))])
    store.limits.pace()
    holder = store.join()
    assert [lease.id for lease in holder.claim(PHASE, 9)] == ids[:1]
    clock.advance(-3600)
    store.limits.pace()
    clock.advance(0.2)
    store.limits.pace()
    assert len(queued(store)) == 1


def test_a_queue_that_nobody_serves_does_not_fill_up(store: Store, clock: ManualClock) -> None:
    """Or all of it would run at once when somebody does."""
    paced(store, 10)
    for _ in range(20):
        clock.advance(1)
        assert store.limits.pace() == pytest.approx(0.2)
    assert len(queued(store)) == 2
    holder = store.join()
    holder.claim(PHASE, 1)
    store.limits.pace()
    assert len(queued(store)) == 2


def test_a_paused_phase_lets_nobody_in(store: Store, clock: ManualClock) -> None:
    paced(store, 4)
    store.phases.pause("other", "not this one")
    store.phases.pause(PHASE, "maintenance", lasts=timedelta(seconds=10))
    assert store.limits.pace() is None
    assert queued(store) == []
    clock.advance(10)
    assert store.limits.pace() is not None
    assert len(queued(store)) == 2
    store.phases.pause(PHASE, "for ever")
    holder = store.join()
    store.phases.resume(PHASE)
    holder.claim(PHASE, 9)
    store.phases.pause(PHASE, "for ever")
    clock.advance(10)
    assert store.limits.pace() is None and queued(store) == []


def test_phases_have_buckets_of_their_own_and_plain_jobs_none(store: Store) -> None:
    paced(store, 3)
    enqueue(store, "other", 3, limits=[JobLimit(phase="other", rate=Rate(1, 1))])
    plain = one(store, "plain")
    store.limits.assign()
    store.limits.pace()
    by_phase = [row["phase"] for row in rows(store, "job", "TRUE ORDER BY phase")]
    assert by_phase == ["other", "plain", PHASE, PHASE]
    assert plain in queued(store)


def test_who_waits_for_the_rate_is_let_in_by_priority_then_age(store: Store, clock: ManualClock) -> None:
    low = paced(store, 1, priority=1)
    clock.advance(1)
    late = paced(store, 1, priority=8)
    clock.advance(-0.5)
    early = paced(store, 1, priority=8)
    clock.advance(5)
    served = []
    for _ in range(3):
        store.limits.pace()
        served += queued(store)
        holder = store.join()
        holder.claim(PHASE, 9)
        clock.advance(0.2)
    assert served == [*early, *late, *low]


def test_every_attempt_counts_and_a_release_does_not(store: Store, clock: ManualClock) -> None:
    (job_id,) = paced(store, 1, rate=Rate(1, 1))
    store.limits.pace()
    holder = store.join()
    holder.release(claim_one(holder))
    lease = claim_one(holder)
    holder.retry_later(lease, BOOM, timedelta(seconds=0.5))
    clock.advance(0.5)
    store.upkeep.promote()
    store.limits.assign()
    assert store.jobs.get(job_id).reason == "paced"
    assert store.limits.pace() == pytest.approx(0.5)
    assert queued(store) == []
    clock.advance(0.5)
    store.limits.pace()
    assert queued(store) == [job_id]


def test_a_rate_that_changes_takes_effect_and_one_that_goes_lets_all_in(
    store: Store, clock: ManualClock
) -> None:
    ids = paced(store, 9, rate=Rate(1, 1))
    store.limits.pace()
    store.join().claim(PHASE, 9)
    assert store.limits.define([Flow(phase=PHASE, rate=Rate(10, 5))]) == [PHASE]
    clock.advance(0.3)
    store.limits.pace()
    assert queued(store) == ids[1:4]
    clock.advance(0.1)
    store.limits.define([Flow(phase=PHASE)])
    store.limits.pace()
    assert queued(store) == ids[1:]
    store.limits.define([Flow(phase=PHASE, rate=Rate(1, 4))])
    more = paced(store, 5, priority=9)
    store.join().claim(PHASE, 99)
    store.limits.pace()
    assert queued(store) == more[:4], "a bucket that is new is full"


def test_a_limit_and_a_rate_hold_together(store: Store, clock: ManualClock) -> None:
    both = [JobLimit(phase=PHASE, key="a", limit=3, rate=Rate(1, 1))]
    ids = enqueue(store, n=6, limits=both)
    store.limits.assign()
    reasons = [store.jobs.get(job_id).reason for job_id in ids]
    assert reasons == ["paced"] * 3 + ["limited"] * 3
    assert store.limits.gates() == [Gate(PHASE, "a", 3, 3, 3)]
    store.limits.pace()
    assert queued(store) == ids[:1]
    holder = store.join()
    holder.complete(claim_one(holder))
    assert [store.jobs.get(job_id).reason for job_id in ids[1:]] == ["paced"] * 3 + ["limited"] * 2
    assert queued(store) == [], "its place was given on, but the bucket is empty"
    assert store.jobs.cancel(ids[1]) is CancelResult.CANCELLED  # it had a place
    assert store.limits.gates() == [Gate(PHASE, "a", 3, 3, 1)]
    clock.advance(1)
    store.limits.pace()
    assert queued(store) == ids[2:3]


# --- ageing ----------------------------------------------------------------------------------------------------------


def lanes(store: Store, table: str = "job") -> dict[str, int]:
    return {row["id"]: row["lane"] for row in rows(store, table)}


def test_a_job_rises_one_priority_for_every_age_it_has_waited(store: Store, clock: ManualClock) -> None:
    store.limits.define([Flow(phase=PHASE, age=timedelta(seconds=60))])
    old = one(store, priority=3)
    clock.advance(30)
    young = one(store, priority=3)
    other = one(store, "other", priority=3)
    clock.advance(29.9)
    assert store.limits.age() == 0
    clock.advance(0.1)
    before = {row["id"]: row["ready_at"] for row in rows(store, "job")}
    assert store.limits.age() == 1
    assert store.limits.age() == 0, "once for each"
    assert lanes(store) == {old: 5, young: 6, other: 6}
    clock.advance(180)
    assert store.limits.age() == 2
    assert lanes(store) == {old: 2, young: 3, other: 6}
    clock.advance(3600)
    assert store.limits.age() == 2
    assert store.limits.age() == 0
    assert lanes(store) == {old: 0, young: 0, other: 6}
    assert {row["id"]: row["ready_at"] for row in rows(store, "job")} == before, "they keep their age"


def test_an_old_job_overtakes_a_newer_one_of_higher_priority(
    store: Store, clock: ManualClock, opened: Callable[[], Store]
) -> None:
    store.limits.define([Flow(phase=PHASE, age=timedelta(seconds=10))])
    old = one(store, priority=4)
    clock.advance(20)
    new = one(store, priority=6)
    store.limits.age()
    holder = opened().join()
    assert [lease.id for lease in holder.claim(PHASE, 9)] == [old, new]


def test_what_is_held_does_not_rise_and_a_release_keeps_what_it_has_risen(
    store: Store, clock: ManualClock
) -> None:
    store.limits.define([Flow(phase=PHASE, age=timedelta(seconds=10))])
    held = one(store, priority=4)
    clock.advance(10)
    store.limits.age()
    holder = store.join(lease=timedelta(hours=1))
    lease = claim_one(holder)
    assert lease.priority == 5
    clock.advance(100)
    assert store.limits.age() == 0
    holder.release(lease)
    assert lanes(store) == {held: 4}
    assert store.limits.age() == 1
    assert lanes(store) == {held: 0}


def test_a_new_phase_and_a_new_attempt_begin_to_wait_anew(store: Store, clock: ManualClock) -> None:
    store.limits.define([Flow(phase=name, age=timedelta(seconds=10)) for name in (PHASE, "next")])
    job_id = one(store, priority=3)
    clock.advance(20)
    store.limits.age()
    holder = store.join(lease=timedelta(hours=1))
    holder.advance(claim_one(holder), "next")
    assert lanes(store) == {job_id: 4}
    clock.advance(9)
    assert store.limits.age() == 0
    clock.advance(1)
    assert store.limits.age() == 1
    assert lanes(store) == {job_id: 3}
    holder.retry_later(claim_one(holder, "next"), BOOM, timedelta(0))
    store.upkeep.promote()
    clock.advance(9)
    assert store.limits.age() == 0
    clock.advance(1)
    assert store.limits.age() == 1
    assert lanes(store) == {job_id: 2}


def test_pages_of_old_jobs_all_rise(store: Store, clock: ManualClock) -> None:
    store.limits.define([Flow(phase=PHASE, age=timedelta(seconds=10))])
    enqueue(store, n=7, priority=3)
    clock.advance(25)
    assert store.limits.age(limit=2) == 7
    assert set(lanes(store).values()) == {4}


def test_jobs_at_a_gate_or_waiting_for_the_rate_rise_too(store: Store, clock: ManualClock) -> None:
    store.limits.define([Flow(phase=PHASE, limit=1, rate=Rate(1, 1), age=timedelta(seconds=10))])
    both = [JobLimit(phase=PHASE, key="a", limit=1, rate=Rate(1, 1))]
    enqueue(store, n=3, priority=3, limits=both)
    sleeper = one(store, priority=3, delay=timedelta(hours=1))
    (elsewhere,) = enqueue(store, "other", priority=3, limits=[JobLimit(phase="other", key="a", limit=1)])
    top = enqueue(store, priority=9, limits=[JobLimit(phase=PHASE, key="b", limit=1)])
    store.limits.assign()
    clock.advance(25)
    assert store.limits.age(limit=2) == 3
    assert store.limits.age() == 0
    found = lanes(store, "job_later") | lanes(store)
    assert sorted(found.values()) == [0, 4, 4, 4, 6, 6]
    assert found[sleeper] == found[elsewhere] == 6 and found[top[0]] == 0
    with store.db.effect(5) as tx:
        tx.connection.execute(f"UPDATE {prefix(store)}job_later SET risen = NULL")
    assert store.limits.age() == 3


def test_a_phase_where_no_job_waits_for_the_rate_is_left_out(store: Store) -> None:
    """Its bucket is empty, one of its jobs is scheduled, and a job of another phase waits for its own rate."""
    paced(store, 2)
    store.limits.pace()
    assert store.limits.pace() is None
    one(store, delay=timedelta(minutes=1), limits=[JobLimit(phase=PHASE, rate=FIVE)])
    assert store.limits.pace() is None
    enqueue(store, "other", n=2, limits=[JobLimit(phase="other", rate=Rate(2, 1))])
    assert store.limits.assign()
    assert store.limits.pace() == pytest.approx(0.5)
