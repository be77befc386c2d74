"""Places of a limit that are counted wrongly, missing or left behind are found and corrected (I-28)."""

from __future__ import annotations

from datetime import timedelta

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, claim_one, enqueue
from tests.limits.limited import PHASE, gate, let_in, limited, spoil, where
from tests.limits.limited import always_true as always_true
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    Completed,
    Gate,
    JobLimit,
    Key,
    NewJob,
)


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
