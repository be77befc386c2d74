"""The places of a limit: freed once whatever ends the job, and counted anew where a count is wrong (I-28)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.conformance.bystanders import prefix, rows
from tests.conformance.life import BOOM, claim_one, enqueue, one, state
from tests.limits.limited import PHASE, gate, let_in, limited, where
from tests.limits.limited import always_true as always_true
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.limits import store as limits
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
    Outcome,
    Rate,
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
    assert store.jobs.cancel(lease.id) is CancelAnswer.REQUESTED
    holder.record([Retried(lease, BOOM, timedelta(0))])


def _advance(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.advance(lease, "next", 1)


def _release_and_cancel(store: Store, holder: Holder, lease: Any, clock: ManualClock) -> None:
    holder.release(lease)
    assert gate(store).admitted == 1
    assert store.jobs.cancel(lease.id) is CancelAnswer.CANCELLED


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


@pytest.mark.parametrize("is_let_in", [True, False], ids=["queued", "waiting"])
def test_a_cancelled_job_that_is_retried_has_its_own_limits_again(store: Store, is_let_in: bool) -> None:
    """And not those of others, which were there when it was cancelled."""
    (other,), (mine,) = limited(store, key="other", limit=3), limited(store, key="mine", limit=1)
    if is_let_in:
        let_in(store)
    assert store.jobs.cancel(mine) is CancelAnswer.CANCELLED
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
    assert (agenda.has("parked"), agenda.has("paced"), agenda.has("flowing"), agenda.resume_in) == (
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


# --- places given up in a handler's own transaction ------------------------------------------------------------------


def _end_in_a_handlers_transaction(store: Store, *outcomes: Outcome) -> None:
    store.db.transact(lambda tx: apply(store.db, store.enqueuer, tx, outcomes, is_foreign=True))


def test_more_ends_of_handlers_than_a_page_free_each_place_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place in the phase that was left is freed, not the one that the job has got in the next phase meanwhile."""
    monkeypatch.setattr(limits, "PAGE", 2)
    enqueue(store, n=8, limits=[JobLimit(phase=phase, key="a", limit=5) for phase in (PHASE, "next")])
    for n in (5, 3):
        let_in(store)
        leases = store.join().claim(PHASE, 9)
        assert len(leases) == n
        _end_in_a_handlers_transaction(store, *(Advanced(lease, "next") for lease in leases))
        let_in(store)
        assert store.limits.check() == []
        assert len(rows(store, "job", "phase = 'next'")) == gate(store, phase="next").admitted == 5
    assert gate(store, phase="next").waiting == 3 and gate(store).admitted == 0


def test_the_limits_of_an_ended_job_go_with_its_last_place(store: Store) -> None:
    """It moved on in one handler's transaction and ended in another's, and nobody looked in between."""
    phases = (PHASE, "next", "never")
    job_id = one(store, limits=[JobLimit(phase=phase, key="a", limit=1) for phase in phases])
    let_in(store)
    holder = store.join()
    _end_in_a_handlers_transaction(store, Advanced(holder.claim(PHASE, 1)[0], "next"))
    store.db.transact(lambda tx: store.limits._assign(9, SMALLEST, tx))
    _end_in_a_handlers_transaction(store, Completed(holder.claim("next", 1)[0]))
    assert [bool(row["gone"]) for row in rows(store, "job_limit")] == [True, True]
    assert store.limits.check() == []
    let_in(store)
    assert rows(store, "job_limit") == []
    assert [item.admitted for item in store.limits.gates()] == [0, 0]
    assert state(store, job_id) is State.COMPLETED


@pytest.mark.parametrize("is_paced", [False, True])
def test_a_job_that_is_let_in_without_a_place_is_seen_and_given_one(store: Store, is_paced: bool) -> None:
    """Whatever took its place away: the count went down with it, so the two alone look right."""
    rate = Rate(1, 1) if is_paced else None
    store.limits.tell([Flow(phase=PHASE, limit=2, rate=rate)])
    enqueue(store, n=3, limits=[JobLimit(phase=PHASE, key="a", limit=2, rate=rate)])
    store.limits.let_in()
    found = rows(store, "job_later", "reason = 'paced'") if is_paced else rows(store, "job")
    spoil(store, f"UPDATE {{}}job_limit SET admitted = FALSE WHERE job = '{found[0]['id']}'")
    spoil(store, "UPDATE {}gate SET admitted = admitted - 1")
    (drift,) = store.limits.check()
    assert (drift.phase, drift.key, drift.admitted, drift.given, drift.used) == (PHASE, "a", 1, 1, 2)
    assert store.limits.mend() == 1
    assert store.limits.check() == [] and gate(store).admitted == 2 and gate(store).waiting == 1


def test_only_the_places_of_the_page_are_freed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that moved on and two that ended in handlers' transactions, and one that runs, each at a gate of its own: page by page, each
    loses its place or its limits, and nobody else does."""
    monkeypatch.setattr(limits, "PAGE", 1)
    both = {
        key: one(store, limits=[JobLimit(phase=phase, key=key, limit=1) for phase in (PHASE, "next")])
        for key in "abcde"
    }
    let_in(store)
    leases = {lease.id: lease for lease in store.join().claim(PHASE, 9)}
    ends: list[Outcome] = [Advanced(leases[both[key]], "next") for key in "ac"]
    _end_in_a_handlers_transaction(store, *ends, *(Completed(leases[both[key]]) for key in "bd"))
    store.db.transact(lambda tx: store.limits._assign(9, SMALLEST, tx))

    def seen() -> dict[str, list[tuple[str, bool, bool]]]:
        found: dict[str, list[tuple[str, bool, bool]]] = {key: [] for key in both}
        for row in sorted(rows(store, "job_limit"), key=lambda row: str(row["phase"])):
            found[row["key"]].append((row["phase"], bool(row["admitted"]), bool(row["gone"])))
        return found

    moved, kept = ("next", True, False), ("next", False, False)
    expected = {
        "a": [moved, (PHASE, True, True)],
        "b": [(PHASE, True, True)],
        "c": [moved, (PHASE, True, True)],
        "d": [(PHASE, True, True)],
        "e": [kept, (PHASE, True, False)],
    }
    after: tuple[str, str] | None = (SMALLEST, "")
    for key in "abcd":
        assert seen() == expected
        assert after is not None
        is_missed, after = store.db.transact(partial(store.limits._free_gone, after))
        assert not is_missed
        expected[key] = [moved, (PHASE, False, False)] if key in "ac" else []
        admitted = {(item.phase, item.key): item.admitted for item in store.limits.gates()}
        assert all(admitted[PHASE, done] == int(done > key) for done in both), key
        assert admitted["next", "a"] == admitted["next", "c"] == 1
    assert seen() == expected and store.limits.check() == []


@pytest.mark.parametrize("ends", [False, True])
def test_two_places_of_one_job_are_freed_one_by_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """Where only one of their gates is to be had, the other one is not touched."""
    monkeypatch.setattr(limits, "PAGE", 1)
    one(store, limits=[JobLimit(phase=phase, key="a", limit=1) for phase in (PHASE, "next", "last")])
    let_in(store)
    holder = store.join()
    _end_in_a_handlers_transaction(store, Advanced(holder.claim(PHASE, 1)[0], "next"))
    store.db.transact(lambda tx: store.limits._assign(9, SMALLEST, tx))
    (lease,) = holder.claim("next", 1)
    _end_in_a_handlers_transaction(store, Completed(lease) if ends else Advanced(lease, "last"))
    store.db.transact(partial(store.limits._free_gone, (SMALLEST, "")))
    assert gate(store, phase="next").admitted == 0 and gate(store).admitted == 1
    assert [row["phase"] for row in rows(store, "job_limit", "gone")] == [PHASE]
    assert store.limits.check() == []


def test_jobs_that_need_no_place_are_not_missed_one(store: Store) -> None:
    """With a rate alone; in a phase whose limit was taken back; limited in another phase than the one they are in."""
    rate = Rate(1, 1)
    store.limits.tell([Flow(phase=PHASE, limit=2), Flow(phase="next", limit=2, rate=rate)])
    one(store, phase="next", limits=[JobLimit(phase="next", rate=rate)])
    enqueue(
        store,
        n=2,
        phase="next",
        limits=[JobLimit(phase=PHASE, limit=2), JobLimit(phase="next", limit=2, rate=rate)],
    )
    let_in(store)
    store.limits.pace()
    assert len(rows(store, "job_later", "reason = 'paced'")) == 2 and store.limits.check() == []
    one(store, limits=[JobLimit(phase=PHASE, key="a", limit=2)])
    let_in(store)
    spoil(store, "UPDATE {}job_limit SET gone = TRUE WHERE key = 'a'")
    (drift,) = store.limits.check()
    assert (drift.key, drift.admitted, drift.given, drift.used) == ("a", 1, 1, 2), "given up while it runs"
    assert store.limits.mend() == 1 and store.limits.check() == []
    spoil(store, "UPDATE {}job_limit SET admitted = FALSE WHERE key = 'a'")
    spoil(store, "UPDATE {}gate SET admitted = 0 WHERE key = 'a'")
    store.limits.tell([Flow(phase=PHASE)])  # and nothing is mended
    assert store.limits.check() == [] and gate(store).admitted == 0
