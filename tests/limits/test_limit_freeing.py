"""Places given up in a handler's own transaction are freed afterwards, each place once."""

from __future__ import annotations

from functools import partial

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import enqueue, one, state
from tests.limits.limited import PHASE, gate, let_in, spoil
from tests.limits.limited import always_true as always_true
from windlass.features import Store
from windlass.limits import store as limits
from windlass.model import (
    Advanced,
    Completed,
    Flow,
    JobLimit,
    Outcome,
    Rate,
    State,
)
from windlass.store.ids import SMALLEST
from windlass.store.jobs.record import apply

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
    store.limits.define([Flow(phase=PHASE, limit=2, rate=rate)])
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
    store.limits.define([Flow(phase=PHASE, limit=2), Flow(phase="next", limit=2, rate=rate)])
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
    store.limits.define([Flow(phase=PHASE)])  # and nothing is mended
    assert store.limits.check() == [] and gate(store).admitted == 0
