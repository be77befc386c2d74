"""Members of a batch that are retried by hand: the job that waits for all of them waits for these again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, one, state
from tests.dependencies.children import ENDS
from windlass.features import Store
from windlass.model import After, DependencyPolicy, NewJob, State
from windlass.store.ids import new_id

RUN = DependencyPolicy.RUN


def batch(store: Store, *kinds: str) -> tuple[list[str], str]:
    """Members and the job that runs when they have ended, stored by one call."""
    members, then = [new_id() for _ in kinds], new_id()
    jobs = [NewJob(kind=kind, id=member, max_attempts=1) for kind, member in zip(kinds, members, strict=True)]
    store.enqueue([*jobs, NewJob(kind="then", id=then, after=[After(member, RUN) for member in members])])
    return members, then


def test_jobs_of_one_call_are_linked_without_the_linker(store: Store) -> None:
    """Also a chain; but not a child that waits for a job of another call, too."""
    outside = one(store, "outside")
    _, then = batch(store, "a", "b")
    first, second, mixed = new_id(), new_id(), new_id()
    store.enqueue(
        [
            NewJob(kind="a", id=first),
            NewJob(kind="c", id=second, after=[After(first)]),
            NewJob(kind="d", id=mixed, after=[After(first), After(outside)]),
        ]
    )
    assert [store.jobs.get(job).reason for job in (then, second, mixed)] == ["waiting", "waiting", "unlinked"]
    holder = store.join()
    for lease in holder.claim("a", 2):
        holder.complete(lease)
    assert [str(state(store, job)) for job in (then, second, mixed)] == ["waiting", "queued", "waiting"]
    holder.fail(claim_one(holder, "b"), BOOM)
    assert state(store, then) is State.QUEUED
    store.dependencies.link()
    assert store.jobs.get(mixed).pending == 1
    assert_counts_are_true(store)


@pytest.mark.parametrize("end", ENDS)
def test_a_member_retried_before_the_batch_is_over_is_waited_for_again(store: Store, end: str) -> None:
    batch(store, "bystander")
    (first, _), then = batch(store, "a", "b")
    holder = store.join()
    ENDS[end](holder, store, "a")
    assert store.jobs.get(then).pending == 1
    store.jobs.retry(first)
    assert store.jobs.get(then).pending == 2
    assert store.jobs.get(then).why == "waits for 2 of 2 jobs"
    holder.complete(claim_one(holder, "b"))
    assert state(store, then) is State.WAITING
    holder.complete(claim_one(holder, "a"))
    assert state(store, then) is State.QUEUED
    assert_counts_are_true(store)


def test_a_member_retried_after_the_summary_was_let_go_changes_nothing(store: Store) -> None:
    (first,), then = batch(store, "a")
    holder = store.join()
    holder.fail(claim_one(holder, "a"), BOOM)
    lease = claim_one(holder, "then")
    store.jobs.retry(first)
    holder.complete(claim_one(holder, "a"))
    assert holder.claim("then", 1) == []
    holder.complete(lease)
    store.jobs.retry(first)
    holder.complete(claim_one(holder, "a"))
    assert state(store, then) is State.COMPLETED and store.jobs.get(then).generation == 1
    assert_counts_are_true(store)


def test_two_members_retried_one_after_the_other_are_both_waited_for(store: Store) -> None:
    members, then = batch(store, "a", "a", "b")
    holder = store.join()
    for lease in holder.claim("a", 2):
        holder.fail(lease, BOOM)
    for member in members[:2]:
        store.jobs.retry(member)
    assert store.jobs.get(then).pending == 3
    for lease in [*holder.claim("a", 2), claim_one(holder, "b")]:
        assert state(store, then) is State.WAITING
        holder.fail(lease, BOOM)
    assert state(store, then) is State.QUEUED


def test_only_the_edges_of_the_retried_member_and_of_waiting_children_are_opened(store: Store) -> None:
    """A child with another policy, one that was let go, and the edge of another member keep their state."""
    (first, second, third), then = batch(store, "a", "b", "c")
    holder = store.join()
    ran = one(store, "ran", after=[After(first, RUN)])
    later = one(store, "later", after=[After(first, RUN)], delay=timedelta(hours=1))
    satisfied = one(store, "satisfied", after=[After(first), After(third)])
    store.dependencies.link()
    holder.complete(claim_one(holder, "a"))
    holder.fail(claim_one(holder, "b"), BOOM)
    store.jobs.retry(first)

    def edges(child: str) -> dict[str, str | None]:
        return {
            edge.parent: edge.parent_state for edge in store.dependencies.of(child) if edge.child == child
        }

    assert edges(then) == {first: None, second: "failed", third: None}
    assert edges(ran) == edges(later) == {first: "completed"}
    assert edges(satisfied) == {first: "completed", third: None}
    assert [store.jobs.get(job).pending for job in (then, satisfied, later)] == [2, 1, 0]


def test_a_member_between_others_is_reopened_alone(store: Store) -> None:
    members, then = batch(store, "a", "b", "c", "d")
    holder = store.join()
    for kind in ("a", "b", "c"):
        holder.fail(claim_one(holder, kind), BOOM)
    store.jobs.retry(members[1])
    assert [edge.parent_state for edge in store.dependencies.of(then)] == ["failed", None, "failed", None]
    assert store.jobs.get(then).pending == 2


def test_a_revived_member_is_waited_for_again(store: Store) -> None:
    """A member that was cancelled because of its parent comes back with that parent."""
    failing, member, other, then = (new_id() for _ in range(4))
    store.enqueue(
        [
            NewJob(kind="failing", id=failing, max_attempts=1),
            NewJob(kind="member", id=member, after=[After(failing)]),
            NewJob(kind="other", id=other),
            NewJob(kind="then", id=then, after=[After(member, RUN), After(other, RUN)]),
        ]
    )
    holder = store.join()
    holder.fail(claim_one(holder, "failing"), BOOM)
    assert (state(store, member), store.jobs.get(then).pending) == (State.CANCELLED, 1)
    store.jobs.retry(failing, dependents=True)
    assert (state(store, member), store.jobs.get(then).pending) == (State.WAITING, 2)
    for kind in ("failing", "other", "member"):
        assert state(store, then) is State.WAITING
        holder.complete(claim_one(holder, kind))
    assert state(store, then) is State.QUEUED
    assert_counts_are_true(store)


def test_a_child_that_comes_back_waits_for_every_parent_that_lives_again(store: Store) -> None:
    """Also for one whose end, whatever it is, satisfies it: retried before the child came back."""
    any_end, strict, then = new_id(), new_id(), new_id()
    after = [After(any_end, RUN), After(strict, DependencyPolicy.CANCEL)]
    store.enqueue([NewJob(kind="a", id=any_end, max_attempts=1), NewJob(kind="b", id=strict, max_attempts=1)])
    store.enqueue([NewJob(kind="then", id=then, after=after)])
    store.dependencies.link()
    holder = store.join()
    for kind in ("a", "b"):
        holder.fail(claim_one(holder, kind), BOOM)
    assert state(store, then) is State.CANCELLED
    store.jobs.retry(any_end)
    assert state(store, then) is State.CANCELLED
    store.jobs.retry(strict, dependents=True)
    assert store.jobs.get(then).pending == 2
    holder.complete(claim_one(holder, "b"))
    assert state(store, then) is State.WAITING
    holder.fail(claim_one(holder, "a"), BOOM)
    assert state(store, then) is State.QUEUED
    assert_counts_are_true(store)
