"""Jobs that wait for jobs: released once, by the parent's own commit, and never left without an answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.life import (
    BOOM,
    LEASE,
    assert_counts_are_true,
    claim_one,
    enqueue,
    every_job,
    one,
    state,
)
from tests.dependencies.children import ENDS, child
from windlass.clock import ManualClock
from windlass.errors import ConfigError
from windlass.features import Store, open_store
from windlass.model import After, Completed, DependencyPolicy, Key, NewJob, Retried, State, Verdict
from windlass.store.ids import new_id


def test_a_child_is_queued_by_the_commit_of_its_last_parent(store: Store) -> None:
    """I-18: pushed by the parent's completion, in the same transaction."""
    a, b = one(store, "a"), one(store, "b")
    waiting = child(store, [a, b])
    job = store.jobs.get(waiting)
    assert job.state is State.WAITING and job.pending == 2
    assert store.dependencies.link() == 1 and store.dependencies.link() == 0
    holder = store.join()
    ENDS["completed"](holder, store, "a")
    job = store.jobs.get(waiting)
    assert job.state is State.WAITING and job.pending == 1 and not holder.claim("child", 1)
    assert_counts_are_true(store)
    ENDS["completed"](holder, store, "b")
    assert state(store, waiting) is State.QUEUED, "no promoter, no linker in between"
    assert claim_one(holder, "child").id == waiting
    assert {(edge.parent, edge.parent_state) for edge in store.dependencies.of(waiting)} == {
        (a, "completed"),
        (b, "completed"),
    }
    assert_counts_are_true(store)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("policy", DependencyPolicy)
@pytest.mark.parametrize("linked", ["linked before", "linked after"])
def test_what_the_end_of_a_parent_does(store: Store, end: str, policy: DependencyPolicy, linked: str) -> None:
    """The same answer whether the parent ends before or after it was linked."""
    parent = one(store, "a")
    waiting = child(store, [parent], policy)
    holder = store.join()
    if linked == "linked before":
        store.dependencies.link()
    ENDS[end](holder, store, "a")
    store.dependencies.link()
    expected = {
        DependencyPolicy.CANCEL: State.CANCELLED,
        DependencyPolicy.WAIT: State.WAITING,
        DependencyPolicy.RUN: State.QUEUED,
    }[policy]
    job = store.jobs.get(waiting)
    assert job.state is (State.QUEUED if end == "completed" else expected)
    if job.state is State.CANCELLED:
        assert job.error is not None and job.error["code"] == "parent_not_completed"
        assert parent in job.error["message"] and end in job.error["message"]
        assert job.error["details"] == {"parent": parent, "parent_state": end}
        assert (job.error["phase"], job.error["attempt"]) == ("child", 0)
        assert job.error["correlation_id"] == job.correlation_id and job.error["at"] is not None
    (edge,) = store.dependencies.of(waiting)
    assert edge.parent_state == end
    assert_counts_are_true(store)


def test_the_parent_that_is_named_is_the_one_that_cancelled_the_job(store: Store, clock: ManualClock) -> None:
    """Not one that completed, not one whose end it could do without, and nobody where somebody else cancelled it."""
    fine, spare, bad = (one(store, kind) for kind in ("fine", "spare", "bad"))
    policies = {fine: "cancel", spare: "run", bad: "cancel"}
    after = [After(parent, DependencyPolicy(policy)) for parent, policy in policies.items()]
    by_parent, by_hand, bystander = (one(store, "child", after=after) for _ in range(3))
    store.dependencies.link()
    holder = store.join()
    holder.complete(claim_one(holder, "fine"))
    holder.fail(claim_one(holder, "spare"), BOOM)
    store.jobs.cancel(by_hand, "enough")
    clock.advance(1)
    holder.fail(claim_one(holder, "bad"), BOOM)
    for job_id in (by_parent, bystander):
        assert (store.jobs.get(job_id).error or {})["details"] == {"parent": bad, "parent_state": "failed"}
    error = store.jobs.get(by_hand).error or {}
    assert error["message"] == "enough" and "details" not in error


def test_a_child_of_a_parent_that_ended_long_ago_runs(store: Store) -> None:
    """An edge to an already finished parent counts at creation."""
    parent = one(store, "a")
    holder = store.join()
    ENDS["completed"](holder, store, "a")
    waiting = child(store, [parent])
    assert state(store, waiting) is State.WAITING
    store.dependencies.link()
    assert claim_one(holder, "child").id == waiting
    assert_counts_are_true(store)


def test_children_of_two_parents_with_one_ended_wait_for_the_other(store: Store) -> None:
    a, b = one(store, "a"), one(store, "b", delay=timedelta(hours=1))
    holder = store.join()
    ENDS["completed"](holder, store, "a")
    waiting = child(store, [a, b])
    store.dependencies.link()
    job = store.jobs.get(waiting)
    assert job.state is State.WAITING and job.pending == 1
    store.jobs.cancel(b)
    assert state(store, waiting) is State.CANCELLED
    assert_counts_are_true(store)


@pytest.mark.parametrize("how", ["queued", "scheduled", "waiting"])
def test_cancelling_a_parent_that_never_ran_reaches_its_children(store: Store, how: str) -> None:
    if how == "waiting":
        parent = one(store, "a", after=[After(one(store, "b"))])
    else:
        parent = one(store, "a", delay=timedelta(hours=1) if how == "scheduled" else None)
    waiting = child(store, [parent])
    grandchild = one(store, "grandchild", after=[After(waiting)])
    bystander = one(store, "bystander", after=[After(waiting, DependencyPolicy.RUN)])
    store.dependencies.link()
    store.jobs.cancel(parent)
    assert [state(store, job) for job in (waiting, grandchild, bystander)] == [
        "cancelled",
        "cancelled",
        "queued",
    ]
    assert_counts_are_true(store)


def test_a_chain_linked_after_the_fact_is_cancelled_to_its_end(store: Store) -> None:
    parent = one(store, "a")
    ids = [new_id() for _ in range(5)]
    store.enqueue(
        [NewJob(kind="child", id=ids[n], after=[After(ids[n - 1] if n else parent)]) for n in range(5)]
    )
    holder = store.join()
    ENDS["failed"](holder, store, "a")
    while store.dependencies.link():
        pass
    assert [str(state(store, job_id)) for job_id in ids] == ["cancelled"] * 5
    assert_counts_are_true(store)


def test_a_child_with_a_delay_waits_for_both(store: Store, clock: ManualClock) -> None:
    parent = one(store, "a")
    waiting = child(store, [parent], delay=timedelta(seconds=60))
    store.dependencies.link()
    holder = store.join()
    ENDS["completed"](holder, store, "a")
    assert state(store, waiting) is State.SCHEDULED
    assert_counts_are_true(store)
    clock.advance(61)
    store.upkeep.promote()
    assert claim_one(holder, "child").id == waiting
    assert_counts_are_true(store)


def test_the_flag_travels_with_the_parent(store: Store, clock: ManualClock) -> None:
    """A parent that is retried, promoted or advanced on its way still releases its child at its end."""
    parent = one(store, "a", delay=timedelta(seconds=1))
    waiting = child(store, [parent])
    store.dependencies.link()
    clock.advance(2)
    store.upkeep.promote()
    holder = store.join()
    holder.record([Retried(claim_one(holder, "a"), BOOM, timedelta(0))])
    store.upkeep.promote()
    holder.advance(claim_one(holder, "a"), "b")
    assert state(store, waiting) is State.WAITING
    holder.complete(claim_one(holder, "b"))
    assert state(store, waiting) is State.QUEUED


def test_a_parent_completed_twice_counts_once(store: Store) -> None:
    a, b = one(store, "a"), one(store, "b")
    waiting = child(store, [a, b], DependencyPolicy.WAIT)
    store.dependencies.link()
    holder = store.join()
    ENDS["completed"](holder, store, "a")
    store.jobs.retry(a)
    ENDS["completed"](holder, store, "a")
    job = store.jobs.get(waiting)
    assert job.state is State.WAITING and job.pending == 1


def test_jobs_of_one_call_may_wait_for_each_other(store: Store) -> None:
    top, left, right, bottom = (new_id() for _ in range(4))
    store.enqueue(
        [
            NewJob(kind="bottom", id=bottom, after=[After(left), After(right)]),
            NewJob(kind="left", id=left, after=[After(top)]),
            NewJob(kind="right", id=right, after=[After(top), After(top)]),
            NewJob(kind="top", id=top),
        ]
    )
    holder = store.join()
    order = []
    for _ in range(4):
        while store.dependencies.link():
            pass
        for phase in ("top", "left", "right", "bottom"):
            for lease in holder.claim(phase, 1):
                order.append(phase)
                holder.complete(lease)
    assert order == ["top", "left", "right", "bottom"]
    assert_counts_are_true(store)


def test_many_children_of_one_parent_and_many_parents_of_one_child(store: Store) -> None:
    parents = enqueue(store, "a", 40)
    sink = child(store, parents)
    fan_out = enqueue(store, "fan", 40, after=[After(parents[0])])
    while store.dependencies.link(limit=7):
        pass
    holder = store.join()
    for lease in holder.claim("a", 40):
        assert state(store, sink) is State.WAITING
        holder.complete(lease)
    assert state(store, sink) is State.QUEUED
    assert {str(state(store, job)) for job in fan_out} == {"queued"}
    assert_counts_are_true(store)


def test_recovery_that_fails_a_parent_reaches_its_children(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    parent = one(store, "a", max_attempts=1)
    waiting = child(store, [parent])
    store.dependencies.link()
    opened().join(lease=LEASE).claim("a", 1)
    clock.advance(LEASE + timedelta(seconds=1))
    store.recovery.recover()
    assert state(store, parent) is State.FAILED and state(store, waiting) is State.CANCELLED
    assert_counts_are_true(store)


def test_a_cancelled_child_frees_its_key(store: Store) -> None:
    parent = one(store, "a")
    waiting = child(store, [parent], key=Key("k"))
    store.dependencies.link()
    store.jobs.cancel(parent)
    assert state(store, waiting) is State.CANCELLED
    assert child(store, [parent], DependencyPolicy.RUN, key=Key("k")) != waiting


def test_dependents_in_the_callers_own_transaction(store: Store) -> None:
    with store.db.effect(5) as tx:
        parent = store.enqueuer.enqueue_in(tx, [NewJob(kind="a")])[0].id
        waiting = store.enqueuer.enqueue_in(tx, [NewJob(kind="child", after=[After(parent)])])[0].id
    store.dependencies.link()
    store.upkeep.promote()
    holder = store.join()
    ENDS["completed"](holder, store, "a")
    assert state(store, waiting) is State.QUEUED
    assert len(every_job(store)) == 2


def test_a_parent_that_was_pruned_under_its_child_counts_as_cancelled(store: Store) -> None:
    """I-19: pruned between the child's check and its commit, which an insert-only enqueue cannot prevent."""
    parents = enqueue(store, "a", 3)
    children = [
        child(store, [parent], policy) for parent, policy in zip(parents, DependencyPolicy, strict=True)
    ]
    table = "windlass_job" if store.db.dialect == "sqlite" else "windlass.job"
    with store.db.effect(5) as tx:
        tx.connection.execute(f"DELETE FROM {table}")
    assert store.dependencies.link() == 3
    assert [str(state(store, job)) for job in children] == ["cancelled", "waiting", "queued"]


def test_a_child_inherits_the_correlation_id_of_its_first_parent(store: Store) -> None:
    """Also from a parent that ended, or that stands behind it in the same call; one that is given stays."""
    a, b = one(store, "a", correlation_id="order-7"), one(store, "b")
    holder = store.join()
    ENDS["completed"](holder, store, "a")
    assert store.jobs.get(child(store, [a, b])).correlation_id == "order-7"
    assert store.jobs.get(child(store, [b, a])).correlation_id == b, "a job without one has its own id"
    assert store.jobs.get(child(store, [a], correlation_id="other")).correlation_id == "other"
    first, second, third = new_id(), new_id(), new_id()
    store.enqueue(
        [
            NewJob(kind="child", id=third, after=[After(second)]),
            NewJob(kind="child", id=second, after=[After(first), After(a)]),
            NewJob(kind="child", id=first, delay=timedelta(hours=1), correlation_id="order-8"),
        ]
    )
    assert [store.jobs.get(job_id).correlation_id for job_id in (first, second, third)] == ["order-8"] * 3
    later = one(store, "later", delay=timedelta(hours=1), correlation_id="order-9")
    assert store.jobs.get(child(store, [later])).correlation_id == "order-9"


def test_a_parent_that_is_named_with_two_policies_is_refused(store: Store) -> None:
    parent = one(store)
    twice = [After(parent), After(parent, DependencyPolicy.RUN)]
    with pytest.raises(ConfigError, match="one policy for each parent"):
        store.enqueue([NewJob(kind="child", after=twice)])
    (child,) = store.enqueue([NewJob(kind="child", after=[After(parent), After(parent)])])
    assert store.jobs.get(child.id).state is State.WAITING


def test_a_stale_end_does_nothing_to_the_children_of_a_job_that_goes_on(store: Store) -> None:
    parent = one(store)
    child = one(store, "child", after=[After(parent)])
    store.dependencies.link()
    holder = store.join()
    stale = claim_one(holder)
    holder.checkpoint(stale, done=1)
    holder.release(stale)
    new = claim_one(holder)
    verdicts = holder.record([Completed(stale), Retried(new, BOOM, timedelta(hours=1))])
    assert verdicts == [Verdict.LOST, Verdict.RECORDED]
    assert state(store, child) is State.WAITING and store.jobs.progress(parent) is not None


def test_a_child_waits_for_the_job_that_holds_its_parents_key(store: Store) -> None:
    winner = one(store, "parent", key=Key("k"))
    parent = new_id()
    child = new_id()
    store.enqueue(
        [
            NewJob(kind="parent", id=parent, key=Key("k")),
            NewJob(kind="child", id=child, after=[After(parent)]),
        ]
    )
    assert [edge.parent for edge in store.dependencies.of(child)] == [winner]


def test_children_of_a_locked_parent_hold_up_nobody_behind_them(postgres_dsn: str) -> None:
    with open_store(postgres_dsn) as store:
        parent = one(store, "a")
        holder = store.join()
        lease = claim_one(holder, "a")
        enqueue(store, "stuck", 5, after=[After(parent)])
        free = one(store, "b")
        behind = one(store, "behind", after=[After(free, DependencyPolicy.RUN)])
        with holder.transaction(lease) as tx:
            tx.put_output(1, name="x")
            assert store.dependencies.link(limit=2) == 1
        store.jobs.cancel(free)
        assert state(store, behind) is State.QUEUED
        assert store.dependencies.link(limit=2) == 5
