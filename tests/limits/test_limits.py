"""Concurrency limits per key: parked, put at a gate, let in, phase by phase, as many as the phase allows (I-28)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, claim_one, enqueue, every_job, one, state
from tests.limits.limited import PHASE, gate, let_in, limited, places, where
from tests.limits.limited import always_true as always_true
from windlass.clock import ManualClock
from windlass.errors import ConfigError
from windlass.features import Store
from windlass.model import (
    After,
    Completed,
    Flow,
    Gate,
    JobLimit,
    NewJob,
    NewSchedule,
    Rate,
    State,
    Verdict,
)
from windlass.model.rule import Rule

# --- parking and letting in ------------------------------------------------------------------------------------------


def test_an_enqueue_parks_and_upkeep_lets_in_as_many_as_the_limit(store: Store) -> None:
    ids = limited(store, 5)
    assert where(store, ids) == ["waiting: limited"] * 5
    assert store.phases.counts()[PHASE].waiting == 5
    assert store.upkeep.agenda().has("parked")
    let_in(store)
    assert not store.upkeep.agenda().has("parked")
    assert where(store, ids) == ["queued"] * 2 + ["waiting: limited"] * 3
    assert gate(store) == Gate(PHASE, "a", 2, 2, 3)
    let_in(store)
    assert gate(store).admitted == 2
    assert [lease.id for lease in store.join().claim(PHASE, 9)] == ids[:2]


def test_keys_have_gates_of_their_own(store: Store) -> None:
    ours, theirs = limited(store, 3, key="a", limit=1), limited(store, 3, key="b", limit=1)
    elsewhere = limited(store, 3, key="a", limit=1, phase="other", kind="other")
    let_in(store)
    assert where(store, [ours[0], theirs[0], elsewhere[0]]) == ["queued"] * 3
    assert where(store, [*ours[1:], *theirs[1:], *elsewhere[1:]]) == ["waiting: limited"] * 6
    holder = store.join()
    holder.complete(claim_one(holder, "other"))
    assert where(store, elsewhere) == ["completed", "queued", "waiting: limited"]
    assert (gate(store).admitted, gate(store, "b").admitted, gate(store, "a", "other").admitted) == (1, 1, 1)


def test_jobs_without_a_limit_are_not_touched(store: Store) -> None:
    plain = one(store)
    limited(store, 2, limit=1)
    let_in(store)
    assert state(store, plain) is State.QUEUED
    holder = store.join()
    assert {lease.id for lease in holder.claim(PHASE, 9)} >= {plain}
    assert rows(store, "job_limit", f"job = '{plain}'") == []


def test_the_next_is_let_in_by_the_commit_that_frees_the_place_in_order_of_priority_then_age(
    store: Store, clock: ManualClock
) -> None:
    first = limited(store, 1, limit=1)
    let_in(store)
    low = limited(store, 1, limit=1, priority=1)
    clock.advance(1)
    late = limited(store, 1, limit=1, priority=9)
    clock.advance(-0.5)
    early = limited(store, 1, limit=1, priority=9)
    clock.advance(2)
    let_in(store)
    holder, served = store.join(), []
    for _ in range(4):
        lease = claim_one(holder)
        assert places(store) == 1
        served.append(lease.id)
        holder.complete(lease)
    assert served == [*first, *early, *late, *low]
    assert gate(store) == Gate(PHASE, "a", 1, 0, 0)


def test_several_places_freed_at_once_are_all_given_again_in_order(store: Store, clock: ManualClock) -> None:
    ids = limited(store, 9, limit=3)
    let_in(store)
    holder = store.join()
    leases = holder.claim(PHASE, 9)
    assert [lease.id for lease in leases] == ids[:3]
    clock.advance(1)
    assert holder.record([Completed(lease) for lease in leases]) == [Verdict.RECORDED] * 3
    assert [lease.id for lease in holder.claim(PHASE, 9)] == ids[3:6]


def test_pages_of_parked_jobs_are_all_sorted(store: Store) -> None:
    ids = limited(store, 7, limit=5)
    assert store.limits.assign(limit=2)
    assert where(store, ids) == ["queued"] * 5 + ["waiting: limited"] * 2
    assert gate(store).waiting == 2


def test_jobs_of_a_callers_transaction_are_parked_too(store: Store) -> None:
    with store.db.effect(5) as tx:
        made = store.enqueuer.enqueue_in(
            tx, [NewJob(kind=PHASE, limits=[JobLimit(phase=PHASE, key="a", limit=1)]) for _ in range(2)]
        )
    ids = [answer.id for answer in made]
    assert where(store, ids) == ["waiting: limited"] * 2
    store.upkeep.promote()
    let_in(store)
    assert where(store, ids) == ["queued", "waiting: limited"]


def test_a_delayed_job_is_parked_when_it_is_due(store: Store, clock: ManualClock) -> None:
    limited(store, 1, limit=1)
    let_in(store)
    (later,) = limited(store, 1, limit=1, delay=timedelta(seconds=10))
    plain = one(store, delay=timedelta(seconds=10))
    let_in(store)
    assert where(store, [later]) == ["scheduled: scheduled"]
    assert store.upkeep.promote() == {}
    clock.advance(10)
    assert store.upkeep.promote() == {PHASE: 2}
    assert where(store, [later, plain]) == ["waiting: limited", "queued"]
    let_in(store)
    assert gate(store) == Gate(PHASE, "a", 1, 1, 1)


def test_a_child_with_a_limit_is_parked_by_its_parents_end(store: Store) -> None:
    parent = one(store, "parent")
    (child,) = limited(store, 1, limit=1, after=[After(parent)])
    (future,) = limited(store, 1, limit=1, after=[After(parent)], delay=timedelta(seconds=60))
    plain = one(store, after=[After(parent)])
    store.dependencies.link()
    holder = store.join()
    holder.complete(claim_one(holder, "parent"))
    assert where(store, [child, future, plain]) == ["waiting: limited", "scheduled: scheduled", "queued"]
    let_in(store)
    assert where(store, [child]) == ["queued"]


# --- phases ----------------------------------------------------------------------------------------------------------


def test_each_phase_of_a_job_has_its_own_limit(store: Store) -> None:
    both = [JobLimit(phase="first", key="x", limit=2), JobLimit(phase="second", key="y", limit=1)]
    ids = enqueue(store, "pipe", 2, phase="first", limits=both)
    let_in(store)
    holder = store.join()
    for lease in holder.claim("first", 9):
        holder.advance(lease, "second", 1)
    assert where(store, ids) == ["waiting: limited"] * 2
    assert gate(store, "x", "first").admitted == 0
    let_in(store)
    assert where(store, ids) == ["queued", "waiting: limited"]
    lease = claim_one(holder, "second")
    holder.advance(lease, "third", 1)  # without a limit there
    assert where(store, ids) == ["queued", "queued"]
    assert store.jobs.get(ids[0]).phase == "third"
    assert gate(store, "y", "second") == Gate("second", "y", 1, 1, 0)
    holder.retry_later(claim_one(holder, "third"), BOOM, timedelta(0))
    store.upkeep.promote()
    let_in(store)
    assert where(store, ids) == ["queued", "queued"], "it is limited in other phases only"


def test_recovery_moves_a_job_on_into_its_next_phases_limit(store: Store, clock: ManualClock) -> None:
    """By an instance that knows nothing but the rows: what the phase produced, where it goes, and what it is limited to there."""
    (job_id,) = enqueue(store, "pipe", phase="first", limits=[JobLimit(phase="second", key="y", limit=1)])
    let_in(store)
    holder = store.join()
    holder.put_output(claim_one(holder, "first"), 1, next_phase="second", next_max_attempts=3)
    clock.advance(31)
    assert [item.verdict for item in store.recovery.recover()] == ["advanced"]
    assert where(store, [job_id]) == ["waiting: limited"]
    let_in(store)
    assert gate(store, "y", "second").admitted == 1


# --- what phases allow -----------------------------------------------------------------------------------------------


def test_a_changed_limit_takes_effect_for_those_who_wait(store: Store) -> None:
    ids = limited(store, 6, limit=1)
    let_in(store)
    assert store.limits.define([Flow(phase=PHASE, limit=3)]) == [PHASE]
    assert where(store, ids) == ["queued"] * 3 + ["waiting: limited"] * 3
    assert store.limits.define([Flow(phase=PHASE, limit=3)]) == []
    store.limits.define([Flow(phase=PHASE, limit=2)])
    holder = store.join()
    leases = holder.claim(PHASE, 9)
    holder.complete(leases[0])
    assert gate(store) == Gate(PHASE, "a", 2, 2, 3), "one place too many is not given again"
    holder.complete(leases[1])
    assert gate(store) == Gate(PHASE, "a", 2, 2, 2)
    store.limits.define([Flow(phase=PHASE)])
    assert where(store, ids[3:]) == ["queued"] * 3
    assert gate(store).limit is None


def test_what_an_instance_said_counts_more_than_what_jobs_say(store: Store) -> None:
    store.limits.define([Flow(phase=PHASE, limit=2), Flow(phase="unlimited")])
    assert store.limits.flows() == [Flow(phase=PHASE, limit=2)]
    limited(store, 5, limit=4)
    let_in(store)
    assert gate(store).admitted == 2


def test_an_instance_that_says_the_same_again_writes_nothing(store: Store, clock: ManualClock) -> None:
    flow = Flow(phase=PHASE, limit=2, limit_key="args.customer", rate=Rate(5, 10), age=timedelta(minutes=1))
    store.limits.define([flow])
    assert store.limits.flows() == [flow]
    before = rows(store, "flow")
    clock.advance(5)
    assert store.limits.define([flow]) == []
    assert rows(store, "flow") == before
    changes: list[dict[str, Any]] = [
        {"limit": 3},
        {"limit_key": "args.other"},
        {"rate": Rate(6, 10)},
        {"rate": Rate(5, 11)},
        {"age": timedelta(minutes=2)},
    ]
    for change in changes:
        said = {"phase": PHASE, "limit": 2, "limit_key": "args.customer", "rate": Rate(5, 10)}
        assert store.limits.define([Flow(**{**said, "age": timedelta(minutes=1), **change})]) == [PHASE]


BAD_FLOWS = [
    Flow(phase=PHASE, limit=0),
    Flow(phase=PHASE, limit=-1),
    Flow(phase=PHASE, limit=True),
    Flow(phase=PHASE, limit=1.5),  # type: ignore[arg-type]
    Flow(phase=PHASE, rate=Rate(0, 1)),
    Flow(phase=PHASE, rate=Rate(float("nan"), 1)),
    Flow(phase=PHASE, rate=Rate(1, 0)),
    Flow(phase=PHASE, rate=5),  # type: ignore[arg-type]
    Flow(phase=PHASE, age=timedelta(0)),
    Flow(phase="a b", limit=1),
]


def test_flow_control_that_cannot_work_is_refused(store: Store) -> None:
    for flow in BAD_FLOWS:
        with pytest.raises(ConfigError):
            store.limits.define([Flow(phase="good", limit=1), flow])
    assert store.limits.flows() == []


BAD_LIMITS: list[Any] = [
    [JobLimit(phase=PHASE, limit=0)],
    [JobLimit(phase=PHASE, limit=-3)],
    [JobLimit(phase=PHASE)],
    [JobLimit(phase=PHASE, limit=1, key="x" * 256)],
    [JobLimit(phase=PHASE, limit=1, key=7)],  # type: ignore[arg-type]
    [JobLimit(phase="a b", limit=1)],
    [JobLimit(phase=PHASE, limit=1), JobLimit(phase=PHASE, limit=2)],
    [JobLimit(phase=PHASE, rate=Rate(-1, 1))],
    ["three"],
]


def test_limits_that_cannot_work_are_refused_and_nothing_is_stored(store: Store) -> None:
    for limits in BAD_LIMITS:
        with pytest.raises(ConfigError):
            store.enqueue([NewJob(kind=PHASE), NewJob(kind=PHASE, limits=limits)])
    assert every_job(store) == []


# --- jobs that the store makes by itself -----------------------------------------------------------------------------


def test_jobs_of_rules_and_schedules_have_the_limits_that_are_known_of_their_phases(
    store: Store, clock: ManualClock
) -> None:
    """Whoever ends the parent, or fires the schedule, need not have the code."""
    store.limits.define(
        [
            Flow(phase="visit", limit=1, limit_key="args.customer"),
            Flow(phase="visit:later", limit=2),
            Flow(phase="visitor", limit=1),
        ]
    )
    rule = Rule(
        name="r", parents=("parent",), create="visit", phase="visit", args={"customer": "args.customer"}
    )
    store.rules.define([rule])
    holder = store.join()
    for customer in ("ada", "ada", None, "x" * 3000):
        one(store, "parent", args={"customer": customer})
        holder.complete(claim_one(holder, "parent"))
    made = every_job(store, kind="visit")
    assert [(job.state, job.reason) for job in made] == [(State.WAITING, "limited")] * 4
    let_in(store)
    assert {(item.phase, item.key, item.admitted, item.waiting) for item in store.limits.gates()} == {
        ("visit", "ada", 1, 1),
        ("visit", "", 1, 1),
    }
    assert len(rows(store, "job_limit", "phase = 'visit:later'")) == 4
    store.schedules.put(NewSchedule(name="nightly", kind="visit", expression="0 * * * *", args={}))
    assert store.jobs.get(store.schedules.run_now("nightly").id).reason == "limited"
    clock.advance(3600)
    assert len(store.schedules.fire_due()) == 1
    let_in(store)
    assert gate(store, "", "visit") == Gate("visit", "", 1, 1, 3)
