"""Verbs about dependencies take what they are asked for and no more, tested where there is more to take."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from tests.conformance.bystanders import Crowd, rows, rows_without
from tests.conformance.life import (
    BOOM,
    assert_counts_are_true,
    claim_one,
    one,
    state,
)
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    After,
    DependencyPolicy,
    State,
)
from windlass.store.ids import LARGEST, SMALLEST

# ------------------------------------------------------------------------------------------------------- dependencies


def test_linking_goes_by_pages_and_marks_only_its_own_edges(store: Store) -> None:
    parent = one(store, "a")
    holder = store.join()
    holder.complete(claim_one(holder, "a"))
    children = sorted(one(store, "child", after=[After(parent)], delay=timedelta(hours=1)) for _ in range(2))
    assert [row[0] for row in store.db.run("link.pick", after=SMALLEST, limit=1)] == children[:1]
    assert [row[0] for row in store.db.run("link.pick", after=children[0], limit=9)] == children[1:]
    edge = {
        "parent": parent,
        "child": children[0],
        "state": "completed",
        "ended_at": store.db.stamp(store.now()),
    }
    store.db.run("link.mark", edges=json.dumps([edge]))
    marked = [[edge.parent_state for edge in store.dependencies.of(child)] for child in children]
    assert marked == [[State.COMPLETED], [None]]
    assert store.dependencies.link(limit=1) == 2 and store.dependencies.link(limit=1) == 0


def test_only_the_parents_that_a_child_still_waits_for_are_open(store: Store) -> None:
    """Not one that completed, nor one that failed where the child runs or is retried with it, nor those of another child."""
    everything = {"sees": "all", "subject": None, "issuer": None, "tenant": None}
    done, queued, waited, passed = (one(store, kind) for kind in ("done", "queued", "waited", "passed"))
    policies = {waited: DependencyPolicy.WAIT, passed: DependencyPolicy.RUN}
    parents = (done, queued, waited, passed)
    child = one(
        store, "child", after=[After(job, policies.get(job, DependencyPolicy.WAIT)) for job in parents]
    )
    other = one(store, "child", after=[After(one(store, "more"))])
    holder = store.join()
    holder.complete(claim_one(holder, "done"))
    for kind in ("waited", "passed"):
        holder.fail(claim_one(holder, kind), BOOM)

    store.dependencies.link()
    store.dependencies.settle()

    def open_parents(limit: int) -> set[tuple[str, str | None]]:
        found = store.db.read("parents.open", child=child, limit=limit, **everything)
        return {(row[0], row[1]) for row in found}

    assert open_parents(9) == {(queued, None), (waited, "failed")} and other != child
    assert len(open_parents(1)) == 1
    assert len(store.parents.newest(child, limit=2, before=LARGEST)) == 2


def test_only_an_unlinked_child_is_linked(store: Store, crowd: Crowd) -> None:
    before = rows_without(store)
    for name, pending in (("waits to run", 0), ("left waiting", 2), ("retrying", 1)):
        store.db.run("link.done", children=json.dumps([{"id": crowd.ids[name], "pending": pending}]))
    assert rows_without(store) == before
    assert_counts_are_true(store)
    children = json.dumps([{"id": crowd.ids["unlinked"], "pending": 1}])
    assert store.db.run("link.done", children=children) == [], "it still waits for one"
    assert_counts_are_true(store)


def test_only_a_waiting_child_is_counted_down(store: Store, crowd: Crowd) -> None:
    """To zero and no further; one that is not linked yet is counted by the linker."""
    before = rows_without(store)
    satisfied = {
        "unlinked": 2,
        "scheduled": 0,
        "retrying": 0,
    }  # just what would free them, if they were counted
    asked = json.dumps([{"id": crowd.ids[name], "satisfied": n} for name, n in satisfied.items()])
    assert {row[0] for row in store.db.run("settle.count", children=asked)} <= {crowd.ids["scheduled"]}
    assert rows_without(store) == before
    assert_counts_are_true(store)
    child = one(store, "child", after=[After(crowd.ids["parent"]), After(crowd.ids["queued"])])
    store.dependencies.link()
    asked = json.dumps([{"id": child, "satisfied": 1}])
    assert store.db.run("settle.count", children=asked) == [], "one of two"
    assert store.jobs.get(child).pending == 1
    assert_counts_are_true(store)


def test_children_are_locked_by_name_and_by_what_they_wait_for(store: Store, crowd: Crowd) -> None:
    """On SQLite there is nothing to lock."""
    counted, doomed = (
        ["waits to run", "unlinked", "scheduled"],
        ["waits to cancel", "left waiting", "retrying"],
    )
    answer = store.db.run(
        "settle.lock",
        counted=[crowd.ids[name] for name in counted],
        doomed=[crowd.ids[name] for name in doomed],
        reasons=["waiting", "unlinked"],
    )
    expected = {crowd.ids[name] for name in ("waits to run", "waits to cancel", "left waiting")}
    assert {row[0] for row in answer} == (set() if store.db.dialect == "sqlite" else expected)


def test_only_children_that_are_due_and_named_are_queued(
    store: Store, crowd: Crowd, clock: ManualClock
) -> None:
    due = [one(store, "due", delay=timedelta(seconds=1)) for _ in range(2)]
    clock.advance(timedelta(days=30))
    crowd.keeper.beat()
    before = rows_without(store)
    store.db.run("settle.promote", ids=[crowd.ids[name] for name in ("waits to run", "unlinked", "retrying")])
    assert rows_without(store) == before
    store.db.run("settle.promote", ids=due[:1])
    assert [str(state(store, job_id)) for job_id in due] == ["queued", "scheduled"]
    assert rows_without(store, due[0]) == [row for row in before if due[0] not in row]
    assert_counts_are_true(store)


def test_a_retried_parent_is_open_again_only_for_who_still_waits_for_it(store: Store) -> None:
    """Not for a child that was let go or ended, nor for one that was sent on its way by hand."""
    holder = store.join()
    parent, other = one(store, "a"), one(store, "b", delay=timedelta(hours=1))
    anyway = [After(parent, DependencyPolicy.RUN)]
    waits, ran = one(store, "waits", after=[*anyway, After(other)]), one(store, "ran", after=anyway)
    by_hand = one(store, "hand", after=[After(parent, DependencyPolicy.WAIT)])
    ended = one(store, "ended", after=[After(parent, DependencyPolicy.WAIT)])
    left = one(store, "left", after=[After(parent, DependencyPolicy.WAIT)])
    store.dependencies.link()
    holder.fail(claim_one(holder, "a"), BOOM)
    for job_id in (by_hand, ended):
        store.jobs.cancel(job_id)
    store.jobs.retry(by_hand)
    holder.retry_later(claim_one(holder, "hand"), BOOM, timedelta(hours=1))
    store.jobs.retry(parent)
    states = {
        name: [edge.parent_state for edge in store.dependencies.of(name) if edge.parent == parent]
        for name in (waits, ran, by_hand, ended, left)
    }
    assert states == {waits: [None], ran: ["failed"], by_hand: ["failed"], ended: ["failed"], left: [None]}
    assert store.jobs.get(waits).pending == 2
    holder.complete(claim_one(holder, "a"))
    assert [str(state(store, name)) for name in (waits, ran, by_hand, ended, left)] == [
        "waiting",
        "queued",
        "scheduled",
        "cancelled",
        "queued",
    ]
    assert store.jobs.get(waits).pending == 1


def test_only_a_cancel_because_of_a_parent_is_taken_back(store: Store) -> None:
    """A child that failed with the same words keeps its end and its edge, and so does one that somebody cancelled; also
    where it ended so only after it was looked for."""
    holder = store.join()
    parent = one(store, "a")
    failed, by_hand, mine = (one(store, name, after=[After(parent)]) for name in ("failed", "hand", "mine"))
    store.dependencies.link()
    store.jobs.cancel(by_hand)
    holder.fail(claim_one(holder, "a"), BOOM)
    store.jobs.retry(failed)
    holder.fail(claim_one(holder, "failed"), replace(BOOM, code="parent_not_completed"))
    store.jobs.retry(parent, dependents=True)
    states = {name: store.dependencies.of(name)[0].parent_state for name in (failed, by_hand, mine)}
    assert states == {failed: "failed", by_hand: "failed", mine: None}
    assert [str(state(store, job)) for job in (failed, by_hand, mine)] == ["failed", "cancelled", "waiting"]
    (row,) = rows(store, "job_later")
    assert row["flags"] == 0, "nobody waits for it"
    late = [{"id": job_id, "pending": 1} for job_id in (failed, by_hand)]
    assert store.db.run("revive.take", children=json.dumps(late)) == [] and rows(store, "job_later") == [row]
    assert_counts_are_true(store)


def test_a_cancelled_child_names_its_own_parent_and_only_a_parent_that_is_the_reason(store: Store) -> None:
    """The edge to a failed parent stays when the child is sent on its way by hand."""
    holder = store.join()
    children = {}
    for phase in "ab":
        parent = one(store, phase)
        children[parent] = one(store, "child", after=[After(parent)])
    store.dependencies.link()
    for phase in "ab":
        holder.fail(claim_one(holder, phase), BOOM)
    for parent, child in children.items():
        error = store.jobs.get(child).error
        assert error is not None and error["details"]["parent"] == parent and parent in error["message"]
    store.jobs.retry(child)
    holder.retry_later(claim_one(holder, "child"), BOOM, timedelta(hours=1))
    store.jobs.cancel(child)
    error = store.jobs.get(child).error
    assert error is not None and parent not in error["message"] and "parent" not in error.get("details", {})
