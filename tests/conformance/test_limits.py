"""Concurrency limits per key: parked, put at a gate, let in, freed once whatever ends the job (C8, I-28)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import prefix, rows
from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, every_job, one, state
from windlass.clock import ManualClock
from windlass.errors import ConfigError
from windlass.model import (
    Advanced,
    After,
    CancelAnswer,
    Completed,
    DependencyPolicy,
    Flow,
    Gate,
    JobLimit,
    Key,
    NewJob,
    NewSchedule,
    Rate,
    Retried,
    State,
    Verdict,
)
from windlass.rules import Rule
from windlass.store import Store
from windlass.store.holder import Holder
from windlass.store.ids import SMALLEST
from windlass.store.recording import apply

PHASE = "work"


def limited(
    store: Store, n: int = 1, *, key: str = "a", limit: int = 2, phase: str = PHASE, **options: Any
) -> list[str]:
    """Enqueue jobs that may be let in ``limit`` at a time."""
    options = {"limits": [JobLimit(phase=phase, key=key, limit=limit)], **options}
    return enqueue(store, n=n, **options)


def let_in(store: Store) -> None:
    """What upkeep does."""
    assert store.limits.sort()


def gate(store: Store, key: str = "a", phase: str = PHASE) -> Gate:
    (found,) = [item for item in store.limits.gates(phase) if item.key == key]
    return found


def where(store: Store, ids: list[str]) -> list[str]:
    """Each job's state, and why it waits."""
    jobs = [store.jobs.get(job_id) for job_id in ids]
    return [str(job.state) if job.reason is None else f"{job.state}: {job.reason}" for job in jobs]


@pytest.fixture(autouse=True)
def _always_true(store: Store) -> Any:
    """Counts that need no scan, and counts of gates, are true after every test."""
    yield
    assert_counts_are_true(store)
    assert store.limits.check() == []


def places(store: Store) -> int:
    """Jobs that are let in, by the tables themselves."""
    return len(rows(store, "job")) + len(rows(store, "job_later", "reason = 'paced'"))


# --- parking and letting in ------------------------------------------------------------------------------------------


def test_an_enqueue_parks_and_upkeep_lets_in_as_many_as_the_limit(store: Store) -> None:
    ids = limited(store, 5)
    assert where(store, ids) == ["waiting: limited"] * 5
    assert store.phases.counts()[PHASE].waiting == 5
    assert store.upkeep.agenda().has_parked
    let_in(store)
    assert not store.upkeep.agenda().has_parked
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
    assert store.limits.sort(limit=2)
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
    assert store.jobs.cancel(lease.id) is CancelAnswer.REQUESTED
    holder.record([Retried(lease, BOOM, timedelta(0))])


def _advance(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.advance(lease, "next", 1)


def _release_and_cancel(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.release(lease)
    assert gate(store).admitted == 1
    assert store.jobs.cancel(lease.id) is CancelAnswer.CANCELLED


def _die_three_times(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    """Released once (the place is kept), then retried later (it is freed)."""
    clock.advance(31)
    assert [item.verdict for item in store.recovery.recover()] == ["released"]
    assert gate(store).admitted == 1
    second = store.join(lease=timedelta(seconds=1))
    assert [item.id for item in second.claim(PHASE, 9)] == [lease.id]
    clock.advance(2)
    assert [item.verdict for item in store.recovery.recover()] == ["retried"]


def _die_at_the_cap(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    clock.advance(31)
    assert [item.verdict for item in store.recovery.recover(crash_cap=1)] == ["failed"]


def _orphan(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    with store.db.effect(5) as tx:
        tx.connection.execute(f"DELETE FROM {prefix(store)}claim")
    assert [item.verdict for item in store.recovery.sweep_orphans(crash_cap=1)] == ["failed"]


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
    assert store.jobs.cancel(ids[2]) is CancelAnswer.CANCELLED
    let_in(store)
    assert store.jobs.cancel(ids[1]) is CancelAnswer.CANCELLED
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
        assert store.upkeep.agenda().has_parked
        let_in(store)
        assert not store.upkeep.agenda().has_parked
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
    assert [row[0] for row in store.db.run("sort.pick", after=SMALLEST, limit=9)] == []
    let_in(store)
    assert where(store, ids) == ["waiting: limited", "queued"]
    assert gate(store) == Gate(PHASE, "a", 1, 1, 1)


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
    assert store.limits.tell([Flow(phase=PHASE, limit=3)]) == [PHASE]
    assert where(store, ids) == ["queued"] * 3 + ["waiting: limited"] * 3
    assert store.limits.tell([Flow(phase=PHASE, limit=3)]) == []
    store.limits.tell([Flow(phase=PHASE, limit=2)])
    holder = store.join()
    leases = holder.claim(PHASE, 9)
    holder.complete(leases[0])
    assert gate(store) == Gate(PHASE, "a", 2, 2, 3), "one place too many is not given again"
    holder.complete(leases[1])
    assert gate(store) == Gate(PHASE, "a", 2, 2, 2)
    store.limits.tell([Flow(phase=PHASE)])
    assert where(store, ids[3:]) == ["queued"] * 3
    assert gate(store).limit is None


def test_what_an_instance_said_counts_more_than_what_jobs_say(store: Store) -> None:
    store.limits.tell([Flow(phase=PHASE, limit=2), Flow(phase="unlimited")])
    assert store.limits.flows() == [Flow(phase=PHASE, limit=2)]
    limited(store, 5, limit=4)
    let_in(store)
    assert gate(store).admitted == 2


def test_an_instance_that_says_the_same_again_writes_nothing(store: Store, clock: ManualClock) -> None:
    flow = Flow(phase=PHASE, limit=2, limit_key="args.customer", rate=Rate(5, 10), age=timedelta(minutes=1))
    store.limits.tell([flow])
    assert store.limits.flows() == [flow]
    before = rows(store, "flow")
    clock.advance(5)
    assert store.limits.tell([flow]) == []
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
        assert store.limits.tell([Flow(**{**said, "age": timedelta(minutes=1), **change})]) == [PHASE]


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
            store.limits.tell([Flow(phase="good", limit=1), flow])
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


# --- the net ---------------------------------------------------------------------------------------------------------


def spoil(store: Store, statement: str) -> None:
    with store.db.effect(5) as tx:
        tx.connection.execute(statement.format(prefix(store)))


def test_a_count_that_is_wrong_is_found_and_counted_anew(store: Store) -> None:
    ids = limited(store, 4, limit=2)
    limited(store, 1, key="fine")
    let_in(store)
    for wrong in (0, 5):
        spoil(store, f"UPDATE {{}}gate SET admitted = {wrong} WHERE key = 'a'")
        (drift,) = store.limits.check()
        assert (drift.phase, drift.key, drift.admitted, drift.given, drift.used) == (PHASE, "a", wrong, 2, 2)
        assert store.limits.mend() == 1
        assert store.limits.check() == []
        assert where(store, ids) == ["queued"] * 2 + ["waiting: limited"] * 2


def test_a_gate_that_is_missing_is_made_again(store: Store) -> None:
    limited(store, 3, limit=1)
    let_in(store)
    spoil(store, "DELETE FROM {}gate")
    assert [drift.given for drift in store.limits.check()] == [1]
    store.limits.mend()
    assert gate(store) == Gate(PHASE, "a", 1, 1, 2)


def test_places_of_jobs_that_are_gone_are_taken_back(store: Store) -> None:
    """As an instance of an older release would leave them, which knows nothing of limits."""
    ids = limited(store, 3, limit=1)
    other = limited(store, 1, key="other")
    let_in(store)
    holder = store.join()
    spoil(store, f"UPDATE {{}}job SET flags = 0 WHERE id = '{ids[0]}'")
    leases = {lease.id: lease for lease in holder.claim(PHASE, 9)}
    holder.complete(leases[ids[0]])
    assert [(drift.key, drift.given, drift.used) for drift in store.limits.check()] == [("a", 1, 0)]
    store.limits.mend()
    assert where(store, ids) == ["completed", "queued", "waiting: limited"]
    assert {row["job"] for row in rows(store, "job_limit")} == {ids[1], ids[2], other[0]}


def test_a_place_of_a_job_that_went_elsewhere_is_taken_back(store: Store) -> None:
    ids = limited(store, 2, limit=1)
    let_in(store)
    holder = store.join()
    holder.retry_later(claim_one(holder), BOOM, timedelta(seconds=60))
    spoil(store, f"UPDATE {{}}job_limit SET admitted = TRUE WHERE job = '{ids[0]}'")
    assert store.limits.mend() == 1
    assert where(store, ids) == ["scheduled: retry", "queued"]
    assert [(row["job"], bool(row["admitted"])) for row in rows(store, "job_limit", "TRUE ORDER BY job")] == [
        (ids[0], False),
        (ids[1], True),
    ]


def test_a_place_that_nobody_gave_is_given(store: Store) -> None:
    ids = limited(store, 2, limit=1)
    let_in(store)
    spoil(store, f"DELETE FROM {{}}job WHERE id = '{ids[0]}'")
    spoil(store, "DELETE FROM {}job_limit WHERE admitted")
    spoil(store, "UPDATE {}gate SET admitted = 0")
    spoil(store, "DELETE FROM {}delta")
    spoil(store, "INSERT INTO {}delta (phase, waiting) VALUES ('work', 1)")
    assert store.limits.check() == []
    assert store.limits.mend() == 0
    assert where(store, ids[1:]) == ["queued"]


def test_gates_that_nobody_uses_are_forgotten_after_an_hour(store: Store, clock: ManualClock) -> None:
    limited(store, 1, key="used")
    limited(store, 2, key="busy", limit=1)
    let_in(store)
    holder = store.join(lease=timedelta(days=1))
    for lease in holder.claim(PHASE, 9):
        if lease.id in {row["job"] for row in rows(store, "job_limit", "key = 'used'")}:
            holder.complete(lease)
    clock.advance(3599)
    store.limits.mend()
    assert {item.key for item in store.limits.gates()} == {"used", "busy"}
    clock.advance(2)
    limited(store, 1, key="new")
    let_in(store)
    store.limits.mend()
    assert {item.key for item in store.limits.gates()} == {"busy", "new"}


def test_a_gate_where_somebody_waits_is_not_forgotten(store: Store, clock: ManualClock) -> None:
    ids = limited(store, 2, limit=1)
    let_in(store)
    store.jobs.cancel(ids[0])
    clock.advance(7200)
    store.limits.mend()
    assert gate(store).admitted == 1


def test_the_gates_of_one_phase_are_listed(store: Store) -> None:
    limited(store, 1, key="b")
    limited(store, 1, key="a")
    limited(store, 1, key="a", phase="other", kind="other")
    let_in(store)
    assert [(item.phase, item.key) for item in store.limits.gates()] == [
        ("other", "a"),
        (PHASE, "a"),
        (PHASE, "b"),
    ]
    assert [item.key for item in store.limits.gates(PHASE)] == ["a", "b"]
    assert len(store.limits.gates(limit=2)) == 2


def test_a_limited_job_with_a_key_frees_both(store: Store) -> None:
    ids = limited(store, 1, limit=1)
    keyed = enqueue(store, key=Key("k"), limits=[JobLimit(phase=PHASE, key="a", limit=1)])
    let_in(store)
    holder = store.join()
    holder.complete(claim_one(holder))
    holder.complete(claim_one(holder))
    assert where(store, [*ids, *keyed]) == ["completed"] * 2
    assert store.enqueue([NewJob(kind=PHASE, key=Key("k"))])[0].created


def test_one_key_in_two_phases_is_two_gates(store: Store) -> None:
    """Whichever came first, and when places of both are freed by one commit."""
    ours = limited(store, 3, limit=1)
    let_in(store)
    theirs = limited(store, 4, limit=2, phase="other", kind="other")
    let_in(store)
    assert where(store, [ours[0], *theirs[:2]]) == ["queued"] * 3
    holder = store.join()
    holder.record(
        [
            Completed(claim_one(holder)),
            Completed(claim_one(holder, "other")),
            Completed(claim_one(holder, "other")),
        ]
    )
    assert (gate(store).admitted, gate(store, phase="other").admitted) == (1, 2)
    assert store.limits.check() == []
    with store.db.effect(5) as tx:
        assert tx.run("gate.try", gates='[{"phase":"work","key":"a"}]') == [("work", "a")]


def test_jobs_go_in_by_their_time_whatever_their_ids(store: Store, clock: ManualClock) -> None:
    late, middle, early = (
        limited(store, limit=5, delay=timedelta(seconds=seconds))[0] for seconds in (20, 15, 10)
    )
    clock.advance(30)
    store.upkeep.promote()
    let_in(store)
    assert [lease.id for lease in store.join().claim(PHASE, 9)] == [early, middle, late]


def test_the_agenda_has_only_those_that_can_be_let_in(store: Store, clock: ManualClock) -> None:
    """Neither jobs that stand at a gate or wait for their time, nor a pause that is over."""
    enqueue(store, delay=timedelta(hours=1))
    limited(store, 2, limit=1)
    let_in(store)
    agenda = store.upkeep.agenda()
    assert (agenda.has_parked, agenda.has_paced, agenda.has_flow, agenda.resume_in) == (
        False,
        False,
        True,
        None,
    )
    store.phases.pause("other", "for ever")
    store.phases.pause(PHASE, "for a minute", lasts=timedelta(minutes=1))
    clock.advance(20)
    assert store.upkeep.agenda().resume_in == 40.0
    clock.advance(41)
    assert store.upkeep.agenda().resume_in is None


# --- jobs that the store makes by itself -----------------------------------------------------------------------------


def test_jobs_of_rules_and_schedules_have_the_limits_that_are_known_of_their_phases(
    store: Store, clock: ManualClock
) -> None:
    """Whoever ends the parent, or fires the schedule, need not have the code."""
    store.limits.tell(
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
