"""Verbs about limits take what they are asked for and no more, tested where there is more to take."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from tests.conformance.bystanders import Crowd, execute, rows, rows_without
from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, one
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import After, Flow, JobLimit, Rate
from windlass.store.ids import SMALLEST

LIMITED, BOTH = ("crowd.limited", "k"), ("crowd.both", "k")


def limited(store: Store, n: int = 1, *, phase: str = "work", key: str = "a", limit: int = 1) -> list[str]:
    """Enqueue jobs that may be let in ``limit`` at a time."""
    return enqueue(store, phase, n, limits=[JobLimit(phase=phase, key=key, limit=limit)])


# --------------------------------------------------------------------------------------------- what phases allow


def test_only_a_phase_that_allows_something_else_is_told_anew(store: Store, clock: ManualClock) -> None:
    flows = [Flow(phase=phase, limit=2, rate=Rate(1, 1), age=timedelta(seconds=9)) for phase in "ab"]
    store.limits.define(flows)
    before = rows(store, "flow", "phase = 'a'")
    clock.advance(1)
    assert store.limits.define([flows[0], Flow(phase="b", limit=3)]) == ["b"]
    assert rows(store, "flow", "phase = 'a'") == before


def test_what_a_job_says_of_its_phase_does_not_change_what_is_known(store: Store) -> None:
    store.limits.define([Flow(phase="known", limit=2)])
    before = rows(store, "flow")
    said = [{"phase": phase, "lim": 7, "rate": None, "burst": None} for phase in ("known", "new")]
    store.db.run("flow.first", phases=json.dumps(said))
    assert rows(store, "flow", "phase = 'known'") == before
    assert [row["lim"] for row in rows(store, "flow", "phase = 'new'")] == [7]


# ---------------------------------------------------------------------------------------------- parking, gates


def test_only_a_queued_job_with_a_limit_of_its_own_is_parked(store: Store, crowd: Crowd) -> None:
    """Not one that is held, nor one without a limit in a phase where others have one."""
    plain = one(store, "crowd.limited")
    before = rows_without(store)
    assert store.db.run("park", ids=[plain, crowd.ids["limited, held"]])[0][0] == 0
    assert rows_without(store) == before
    assert_counts_are_true(store)


def test_a_due_job_with_a_limit_is_parked_alone(store: Store, crowd: Crowd, clock: ManualClock) -> None:
    limits = [JobLimit(phase="crowd.limited", key="k", limit=2)]
    due = one(store, "crowd.limited", delay=timedelta(seconds=1), limits=limits)
    clock.advance(2)
    before = rows_without(store, due)
    assert store.upkeep.promote() == {"crowd.limited": 1}
    assert store.jobs.get(due).reason == "limited"
    assert rows_without(store, due) == before
    assert_counts_are_true(store)


def test_of_children_with_a_limit_only_those_that_are_due_and_named_are_parked(
    store: Store, crowd: Crowd, clock: ManualClock
) -> None:
    limits = [JobLimit(phase="crowd.limited", key="k", limit=2)]
    named, other, late = (
        one(store, "crowd.limited", delay=timedelta(seconds=seconds), limits=limits) for seconds in (1, 1, 9)
    )
    clock.advance(2)
    before = rows_without(store, named)
    paced, gated = crowd.ids["both, paced"], crowd.ids["limited, waiting"]
    store.db.run("settle.promote", ids=[named, late, paced, gated])
    assert [store.jobs.get(job_id).reason for job_id in (named, other)] == ["limited", "scheduled"]
    assert rows_without(store, named) == before
    assert_counts_are_true(store)


def test_parked_jobs_are_picked_a_page_at_a_time(store: Store) -> None:
    ids = sorted(limited(store, 3))
    assert [row[0] for row in store.db.run("gate.pick", after=SMALLEST, limit=2)] == ids[:2]
    assert [row[0] for row in store.db.run("gate.pick", after=ids[1], limit=2)] == ids[2:]


def test_only_the_gates_where_these_jobs_have_places_are_locked(store: Store, crowd: Crowd) -> None:
    """Not those of other jobs, nor those where they only wait."""
    both, waiting = crowd.ids["both, queued"], crowd.ids["limited, waiting"]
    assert store.db.run("free.lock", ids=[both, waiting]) == [BOTH]
    assert store.db.run("free.lock", ids=[crowd.ids["limited, held"]]) == [LIMITED]


def test_the_jobs_that_wait_at_a_gate_are_counted_by_phase_and_key(store: Store) -> None:
    for phase, key, n in (("work", "a", 2), ("work", "b", 3), ("other", "a", 4)):
        limited(store, n, phase=phase, key=key)
    store.limits.assign()
    waiting = {(gate.phase, gate.key): gate.waiting for gate in store.limits.gates()}
    assert waiting == {("work", "a"): 1, ("work", "b"): 2, ("other", "a"): 3}


def test_a_gate_has_room_where_a_job_waits_and_a_place_is_free(store: Store, crowd: Crowd) -> None:
    """Not one that is full, nor one where nobody waits though jobs do wait at the same key of another phase, at another key of the phase
    and elsewhere."""
    limited(store, 3, phase="crowd.limited", key="full")
    limited(store, 1, phase="crowd.limited", key="free")
    limited(store, 1, phase="free", key="k", limit=2)
    store.limits.assign()
    assert store.db.read("gates.room", limit=9) == []
    execute(store, "UPDATE {p}gate SET admitted = 0 WHERE key <> 'free' AND phase <> 'free'")
    room = [BOTH, ("crowd.limited", "full"), LIMITED]
    assert store.db.read("gates.room", limit=9) == room
    assert store.db.read("gates.room", limit=2) == room[:2]


def test_idle_gates_are_found_a_page_at_a_time(store: Store, clock: ManualClock) -> None:
    holder = store.join(lease=timedelta(days=1))
    for key in "abc":
        limited(store, key=key)
        store.limits.assign()
        holder.complete(claim_one(holder))
    clock.advance(3601)
    assert store.db.run("gates.idle", limit=2) == [("work", "a"), ("work", "b")]


# ------------------------------------------------------------------------------------------------ letting in


def test_only_jobs_that_wait_for_the_rate_are_let_in_by_it(store: Store, crowd: Crowd) -> None:
    """Not those of the phase that wait at its gate, nor those that wait for something else."""
    assert store.db.run("pace.pick", phase="crowd.both", limit=9) == [(crowd.ids["both, paced"],)]
    before = rows_without(store)
    others = ("both, limited", "parked", "scheduled", "retrying", "waits to run", "unlinked", "inbox")
    assert store.db.run("admit.move", ids=[crowd.ids[name] for name in others]) == []
    assert rows_without(store) == before
    assert_counts_are_true(store)


def test_queued_jobs_rise_a_page_at_a_time(store: Store, clock: ManualClock) -> None:
    enqueue(store, n=3)
    clock.advance(100)
    assert [store.db.run("age", phase="work", age=60.0, limit=2) for _ in range(3)] == [
        [(2,)],
        [(1,)],
        [(0,)],
    ]


def test_only_jobs_that_wait_for_a_place_or_the_rate_of_the_phase_rise(
    store: Store, crowd: Crowd, clock: ManualClock
) -> None:
    """Not those of other phases, nor one that is due, nor one that has the highest priority already; a page at a time."""
    one(store, "crowd.both", delay=timedelta(seconds=1))
    one(store, "crowd.both", limits=[JobLimit(phase="crowd.both", key="k", limit=2)], priority=9)
    enqueue(store, "slow", 2, limits=[JobLimit(phase="slow", rate=Rate(0.001, 1))])
    store.limits.let_in()
    clock.advance(100)
    before = rows(store, "job_later")
    raised = [store.db.run("age.later", phase="crowd.both", age=60.0, limit=n) for n in (1, 9, 9)]
    assert raised == [[(1,)], [(1,)], [(0,)]]
    changed = {row["id"] for row in rows(store, "job_later") if row not in before}
    assert changed == {crowd.ids["both, paced"], crowd.ids["both, limited"]}


def test_limits_come_back_only_with_a_child_that_comes_back(store: Store) -> None:
    """Not with one that failed with the same words, nor with one that somebody cancelled."""
    holder = store.join()
    parent = one(store, "a")
    ids = [
        one(store, name, after=[After(parent)], limits=[JobLimit(phase=name, limit=1)])
        for name in ("failed", "hand")
    ]
    store.dependencies.link()
    store.jobs.cancel(ids[1])
    holder.fail(claim_one(holder, "a"), BOOM)
    store.jobs.retry(ids[0])
    store.limits.assign()
    holder.fail(claim_one(holder, "failed"), replace(BOOM, code="parent_not_completed"))
    late = [{"id": job_id, "pending": 1} for job_id in ids]
    assert store.db.run("revive.take", children=json.dumps(late)) == []
    assert rows(store, "job_limit") == []
