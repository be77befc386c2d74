"""Jobs that wait for jobs, when a parent or a child is retried: the graph continues where it failed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.life import (
    BOOM,
    assert_counts_are_true,
    claim_one,
    every_job,
    one,
    state,
)
from tests.dependencies.children import ENDS, child
from windlass.errors import KeyConflictError
from windlass.features import Store
from windlass.model import After, DependencyPolicy, Key, Retried, State


def test_a_retried_parent_is_open_again_for_those_left_waiting(store: Store) -> None:
    parent = one(store, "a")
    left = child(store, [parent], DependencyPolicy.WAIT)
    ran = one(store, "ran", after=[After(parent, DependencyPolicy.RUN)])
    gone = one(store, "gone", after=[After(parent, DependencyPolicy.CANCEL)])
    store.dependencies.link()
    holder = store.join()
    ENDS["failed"](holder, store, "a")
    assert [str(state(store, job)) for job in (left, ran, gone)] == ["waiting", "queued", "cancelled"]
    store.jobs.retry(parent)
    (edge,) = store.dependencies.of(left)
    assert edge.parent_state is None
    assert [edge.parent_state for edge in store.dependencies.of(ran)] == ["failed"], (
        "consumed edges stay consumed"
    )
    ENDS["completed"](holder, store, "a")
    assert [str(state(store, job)) for job in (left, ran, gone)] == ["queued", "queued", "cancelled"]
    assert store.jobs.get(ran).pending == 0
    assert_counts_are_true(store)


def test_a_child_retried_by_hand_no_longer_waits_for_its_parent(store: Store) -> None:
    """Found by the state machine: the parent's later end cancelled a child that was waiting for its own retry."""
    parent = one(store, "a")
    waiting = child(store, [parent])
    store.dependencies.link()
    store.jobs.cancel(waiting)
    store.jobs.retry(waiting)
    holder = store.join()
    holder.record([Retried(claim_one(holder, "child"), BOOM, timedelta(hours=1))])
    store.jobs.cancel(parent)
    assert state(store, waiting) is State.SCHEDULED
    assert_counts_are_true(store)


def test_a_parent_retried_after_its_child_came_releases_it(store: Store) -> None:
    """Found by the state machine: the parent had ended before it had dependents, so its row carried no flag."""
    parent = one(store, "a")
    holder = store.join()
    ENDS["failed"](holder, store, "a")
    waiting = child(store, [parent], DependencyPolicy.WAIT)
    store.dependencies.link()
    assert state(store, waiting) is State.WAITING
    store.jobs.retry(parent)
    ENDS["completed"](holder, store, "a")
    assert state(store, waiting) is State.QUEUED


def test_a_failed_graph_goes_on_from_where_it_failed(store: Store) -> None:
    """A retry with dependents brings back what was cancelled because of the job, down the graph; what completed stays, what
    was satisfied stays satisfied, and the rest of the graph runs as it would have."""
    done, failing = one(store, "done"), one(store, "failing")
    left = one(store, "left", after=[After(done), After(failing)], priority=7, max_attempts=2)
    right = one(store, "right", after=[After(failing)])
    anyway = one(store, "anyway", after=[After(failing, DependencyPolicy.RUN)])
    bottom = one(store, "bottom", after=[After(left), After(right), After(done)])
    last = one(store, "last", after=[After(bottom)])
    while store.dependencies.link():
        pass
    holder = store.join()
    for phase in ("done", "failing"):
        ENDS["completed" if phase == "done" else "failed"](holder, store, phase)
    ENDS["completed"](holder, store, "anyway")
    graph = (left, right, bottom, last)
    assert {str(state(store, job)) for job in graph} == {"cancelled"}
    store.jobs.retry(failing, dependents=True)
    found = [store.jobs.get(job) for job in graph]
    assert [(str(job.state), job.pending, job.generation, job.error) for job in found] == [
        ("waiting", 1, 2, None),
        ("waiting", 1, 2, None),
        ("waiting", 2, 2, None),
        ("waiting", 1, 2, None),
    ]
    assert (found[0].priority, found[0].max_attempts, found[0].attempt) == (7, 2, 0)
    assert [str(state(store, job)) for job in (done, anyway)] == ["completed"] * 2
    assert_counts_are_true(store)
    for phase in ("failing", "left", "right", "bottom", "last"):
        ENDS["completed"](holder, store, phase)
    assert {str(job.state) for job in every_job(store)} == {"completed"}
    assert_counts_are_true(store)


def test_a_retry_without_dependents_leaves_cancelled_children_alone(store: Store) -> None:
    parent = one(store, "a")
    gone = child(store, [parent])
    store.dependencies.link()
    holder = store.join()
    ENDS["failed"](holder, store, "a")
    store.jobs.retry(parent)
    ENDS["completed"](holder, store, "a")
    assert state(store, gone) is State.CANCELLED and store.jobs.get(gone).generation == 1


def test_only_what_was_cancelled_because_of_a_parent_comes_back(store: Store) -> None:
    """Not what somebody cancelled by hand, what ended in another way after its own retry, or what never was a child."""
    parent = one(store, "a")
    by_hand, own_way, mine = (child(store, [parent]) for _ in range(3))
    stranger = one(store, "b")
    strangers = one(store, "stranger", after=[After(stranger)])
    store.dependencies.link()
    holder = store.join()
    store.jobs.cancel(by_hand)
    ENDS["failed"](holder, store, "a")
    ENDS["failed"](holder, store, "b")
    store.jobs.retry(own_way)
    ENDS["cancelled"](holder, store, "child")
    store.jobs.retry(parent, dependents=True)
    assert [str(state(store, job)) for job in (by_hand, own_way, mine, strangers)] == [
        "cancelled",
        "cancelled",
        "waiting",
        "cancelled",
    ]
    (edge,) = store.dependencies.of(strangers)
    assert edge.parent_state is State.FAILED
    assert_counts_are_true(store)


@pytest.mark.parametrize("first", ["plain", "dependents"])
def test_a_child_of_two_failed_parents_comes_back_with_the_second(store: Store, first: str) -> None:
    """Until then it would only wait for a job that nobody runs. It does not matter how the first was retried, nor
    whether it has ended again."""
    a, b = one(store, "a"), one(store, "b")
    both = child(store, [a, b])
    store.dependencies.link()
    holder = store.join()
    ENDS["failed"](holder, store, "a")
    ENDS["failed"](holder, store, "b")
    store.jobs.retry(a, dependents=first == "dependents")
    assert state(store, both) is State.CANCELLED
    ENDS["completed"](holder, store, "a")
    store.jobs.retry(b, dependents=True)
    job = store.jobs.get(both)
    assert job.state is State.WAITING and job.pending == 1
    ENDS["completed"](holder, store, "b")
    assert claim_one(holder, "child").id == both
    assert_counts_are_true(store)


def test_a_child_comes_back_to_wait_also_for_those_it_may_wait_for(store: Store) -> None:
    """One parent is retried, one still lives, and one failed whose failure the child was to sit out."""
    failed, alive, patient = one(store, "failed"), one(store, "alive"), one(store, "patient")
    waiting = one(
        store,
        "child",
        after=[After(failed), After(alive), After(patient, DependencyPolicy.WAIT)],
    )
    store.dependencies.link()
    holder = store.join()
    ENDS["failed"](holder, store, "patient")
    ENDS["failed"](holder, store, "failed")
    store.jobs.retry(failed, dependents=True)
    assert store.jobs.get(waiting).pending == 3
    for phase in ("failed", "alive"):
        ENDS["completed"](holder, store, phase)
    assert store.jobs.get(waiting).pending == 1
    store.jobs.retry(patient)
    ENDS["completed"](holder, store, "patient")
    assert state(store, waiting) is State.QUEUED
    assert_counts_are_true(store)


def test_a_child_that_comes_back_takes_its_key_again(store: Store) -> None:
    parent = one(store, "a")
    waiting = child(store, [parent], key=Key("k"))
    store.dependencies.link()
    holder = store.join()
    ENDS["failed"](holder, store, "a")
    store.jobs.retry(parent, dependents=True)
    with pytest.raises(KeyConflictError):
        one(store, "child", args={"other": 1}, key=Key("k"))
    ENDS["failed"](holder, store, "a")
    other = one(store, "child", key=Key("k"))
    with pytest.raises(KeyConflictError):
        store.jobs.retry(parent, dependents=True)
    assert [str(state(store, job)) for job in (parent, waiting, other)] == ["failed", "cancelled", "queued"]
    assert_counts_are_true(store)


def test_a_graph_can_fail_and_go_on_more_than_once(store: Store) -> None:
    parent = one(store, "a")
    waiting = child(store, [parent])
    store.dependencies.link()
    holder = store.join()
    for generation in (2, 3, 4):
        ENDS["failed"](holder, store, "a")
        assert state(store, waiting) is State.CANCELLED
        store.jobs.retry(parent, dependents=True)
        assert store.jobs.get(waiting).generation == generation
    ENDS["completed"](holder, store, "a")
    assert claim_one(holder, "child").id == waiting
