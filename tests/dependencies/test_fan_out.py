"""Many children of one parent: an end lets a page of them know, upkeep the others, each once."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.dependencies import linking as dependencies
from windlass.features import Store, open_store
from windlass.model import After, Completed, DependencyPolicy, Retention, State
from windlass.model.rule import Rule
from windlass.store.database import Transaction

PAGE = 5
CANCEL, WAIT, RUN = DependencyPolicy.CANCEL, DependencyPolicy.WAIT, DependencyPolicy.RUN


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "PAGE", PAGE)


def fan_out(
    store: Store, n: int, policy: DependencyPolicy = CANCEL, parent: str = ""
) -> tuple[str, list[str]]:
    """A queued parent (or this one) with n children that are linked to it."""
    parent = parent or one(store, "parent")
    children = enqueue(store, "child", n, after=[After(parent, policy)])
    store.dependencies.link()
    return parent, children


def end(store: Store, how: str = "completed") -> None:
    holder = store.join(lease=timedelta(days=9))
    lease = claim_one(holder, "parent")
    if how == "completed":
        holder.complete(lease)
    else:
        holder.fail(lease, BOOM)


def states(store: Store, jobs: list[str]) -> list[State]:
    return [state(store, job) for job in jobs]


@pytest.mark.parametrize(
    ("how", "policy", "then"),
    [
        ("completed", CANCEL, State.QUEUED),
        ("failed", RUN, State.QUEUED),
        ("failed", CANCEL, State.CANCELLED),
    ],
)
def test_an_end_lets_a_page_of_children_know_and_upkeep_the_others(
    store: Store, how: str, policy: DependencyPolicy, then: State
) -> None:
    parent, children = fan_out(store, 3 * PAGE + 1, policy)
    assert not store.upkeep.agenda().has("settling")
    end(store, how)
    assert state(store, parent) == State(how)
    assert states(store, children).count(then) == PAGE
    assert store.upkeep.agenda().has("settling")
    assert store.dependencies.settle(1)
    assert states(store, children).count(then) == 2 * PAGE
    assert not store.dependencies.settle()
    assert states(store, children) == [then] * len(children)
    assert not store.upkeep.agenda().has("settling")
    assert_counts_are_true(store)


def test_children_of_several_parents_share_a_page(store: Store) -> None:
    holder = store.join()
    graphs = [fan_out(store, 3) for _ in range(4)]
    leases = holder.claim("parent", 4)
    holder.record([Completed(lease) for lease in leases])
    children = [child for _, some in graphs for child in some]
    assert states(store, children).count(State.QUEUED) == PAGE
    store.dependencies.settle()
    assert states(store, children) == [State.QUEUED] * len(children)
    assert_counts_are_true(store)


def test_a_child_of_two_large_parents_runs_once_when_both_let_it_know(store: Store) -> None:
    holder = store.join()
    parents = enqueue(store, "parent", 2)
    children = enqueue(store, "child", 2 * PAGE, after=[After(parent) for parent in parents])
    store.dependencies.link()
    first, second = holder.claim("parent", 2)
    holder.complete(first)
    while store.dependencies.settle():
        pass
    assert states(store, children) == [State.WAITING] * len(children)
    holder.complete(second)
    while store.dependencies.settle():
        pass
    assert states(store, children) == [State.QUEUED] * len(children)
    assert len(store.join().claim("child", 1000)) == len(children)


def test_a_cascade_goes_on_page_by_page(store: Store) -> None:
    """Children that are cancelled have children of their own; no transaction lets more than a page know."""
    _, children = fan_out(store, PAGE - 1)
    grandchildren = [child for job in children for child in fan_out(store, PAGE, parent=job)[1]]
    end(store, "failed")
    told = states(store, [*children, *grandchildren]).count(State.CANCELLED)
    assert told == PAGE
    pages = 0
    while store.dependencies.settle(1):
        pages += 1
        now = states(store, [*children, *grandchildren]).count(State.CANCELLED)
        assert now - told <= PAGE
        told = now
    assert told == len(children) + len(grandchildren)
    assert_counts_are_true(store)


@pytest.mark.parametrize("dependents", [False, True])
def test_a_retry_of_a_parent_lets_the_other_children_know_first(store: Store, dependents: bool) -> None:
    parent, children = fan_out(store, 3 * PAGE)
    end(store, "failed")
    assert State.WAITING in states(store, children)
    store.jobs.retry(parent, dependents=dependents)
    assert not store.upkeep.agenda().has("settling")
    assert states(store, children) == [State.WAITING if dependents else State.CANCELLED] * len(children)
    end(store)
    while store.dependencies.settle():
        pass
    assert states(store, children) == [State.QUEUED if dependents else State.CANCELLED] * len(children)
    assert_counts_are_true(store)


def test_a_retry_of_a_completed_parent_leaves_no_child_behind(store: Store) -> None:
    parent, children = fan_out(store, 3 * PAGE)
    end(store)
    store.jobs.retry(parent)
    assert states(store, children) == [State.QUEUED] * len(children)
    end(store)
    assert len(store.join().claim("child", 1000)) == len(children)


def test_a_retry_lets_the_children_of_revived_children_know_first(store: Store) -> None:
    parent, (child,) = fan_out(store, 1)
    _, grandchildren = fan_out(store, 3 * PAGE, parent=child)
    end(store, "failed")
    assert state(store, child) is State.CANCELLED and State.WAITING in states(store, grandchildren)
    store.jobs.retry(parent, dependents=True)
    assert states(store, [child, *grandchildren]) == [State.WAITING] * (1 + len(grandchildren))
    end(store)
    holder = store.join()
    holder.complete(claim_one(holder, "child"))
    while store.dependencies.settle():
        pass
    assert states(store, grandchildren) == [State.QUEUED] * len(grandchildren)
    assert_counts_are_true(store)


@pytest.mark.parametrize("policy", list(DependencyPolicy))
def test_a_child_that_comes_while_others_are_let_know_is_told_once(
    store: Store, policy: DependencyPolicy
) -> None:
    parent, children = fan_out(store, 3 * PAGE, policy)
    end(store, "failed")
    late = [one(store, "child", after=[After(parent, policy)]) for _ in range(2)]
    store.dependencies.settle(1)
    store.dependencies.link()
    while store.dependencies.settle():
        pass
    store.dependencies.link()
    then = {CANCEL: State.CANCELLED, RUN: State.QUEUED, WAIT: State.WAITING}[policy]
    assert states(store, [*children, *late]) == [then] * (len(children) + 2)
    assert_counts_are_true(store)


def test_a_parent_is_not_pruned_before_all_children_know(store: Store, clock: ManualClock) -> None:
    _, children = fan_out(store, 2 * PAGE)
    end(store)
    clock.advance(timedelta(days=400))
    keep = Retention(completed=timedelta(1), failed=timedelta(1), cancelled=timedelta(1))
    assert store.upkeep.prune(keep) == 0
    while store.dependencies.settle():
        pass
    assert states(store, children) == [State.QUEUED] * len(children)
    assert store.upkeep.prune(keep) == 0, "the children may read its result"


def test_two_instances_let_each_child_know_once(store: Store, opened: Callable[[], Store]) -> None:
    _, children = fan_out(store, 30 * PAGE)
    end(store)
    stores = [opened() for _ in range(3)]

    def see_to_it(each: Store) -> None:
        while each.upkeep.agenda().has("settling"):
            each.dependencies.settle(1)

    threads = [threading.Thread(target=see_to_it, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states(store, children) == [State.QUEUED] * len(children)
    assert_counts_are_true(store)


def _dies_in_the_second_page(url: str, word: Connection) -> None:
    dependencies.PAGE = PAGE
    promote = dependencies.promote
    pages: list[int] = []

    def stop(tx: Transaction, due: Sequence[str]) -> None:
        promote(tx, due)
        pages.append(len(due))
        if len(pages) == 2:
            word.send("in the middle of a page")
            signal.pause()

    dependencies.promote = stop
    with open_store(url) as store:
        store.dependencies.settle()


def test_whoever_is_killed_between_pages_leaves_the_rest_to_any_instance(store_url: str) -> None:
    with open_store(store_url) as store:
        store.upkeep.maintain()
        _, children = fan_out(store, 5 * PAGE)
        end(store)
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_dies_in_the_second_page, args=(store_url, theirs)
        )
        process.start()
        assert ours.poll(60) and ours.recv()
        process.kill()
        process.join()
        assert (
            states(store, children).count(State.QUEUED) == 2 * PAGE
        )  # the end's own page, and the one that was committed
        while store.upkeep.agenda().has("settling"):
            store.dependencies.settle()
        assert states(store, children) == [State.QUEUED] * len(children)
        assert len(store.join().claim("child", 1000)) == len(children)
        assert_counts_are_true(store)


def test_rules_fire_for_children_that_upkeep_cancels(store: Store) -> None:
    store.rules.define(
        [Rule(name="each", parents=("child",), create="made", phase="made", args={}, policy=RUN)]
    )
    _, children = fan_out(store, 3 * PAGE)
    end(store, "failed")
    while store.dependencies.settle():
        pass
    assert len(store.join().claim("made", 1000)) == len(children)


def half_settled(store: Store, n: int = 3) -> list[tuple[str, list[str]]]:
    """Some parents that completed, and have most of their children still to let know, by id."""
    graphs = []
    for _ in range(n):
        graphs.append(fan_out(store, 3 * PAGE))
        end(store)
    return sorted(graphs)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_parent_can_be_seen_to_alone(store: Store, which: int) -> None:
    graphs = half_settled(store)
    assert store.dependencies.settle(1, parent=graphs[which][0])
    told = [states(store, children).count(State.QUEUED) for _, children in graphs]
    assert told == [2 * PAGE if place == which else PAGE for place in range(3)]
    while store.dependencies.settle():
        pass
    assert [states(store, children).count(State.QUEUED) for _, children in graphs] == [3 * PAGE] * 3


def test_a_retry_sees_to_its_own_job_alone(store: Store) -> None:
    settled, _ = fan_out(store, 1)
    end(store)
    graphs = half_settled(store, 2)
    store.jobs.retry(settled)
    assert [states(store, children).count(State.QUEUED) for _, children in graphs] == [PAGE] * 2
    store.jobs.retry(graphs[0][0])
    assert [states(store, children).count(State.QUEUED) for _, children in graphs] == [3 * PAGE, PAGE]


def test_a_late_child_with_another_parent_is_not_counted_down_twice(store: Store) -> None:
    """The linker knows that its first parent has ended; the page that meets the edge again leaves it alone."""
    parent, _ = fan_out(store, 3 * PAGE)
    end(store)
    late = one(store, "child", after=[After(parent), After(one(store, "other"))])
    store.dependencies.link()
    while store.dependencies.settle():
        pass
    job = store.jobs.get(late)
    assert (job.state, job.pending) == (State.WAITING, 1)


def test_each_late_child_has_the_end_of_its_parent_on_its_own_edge(store: Store) -> None:
    parent, _ = fan_out(store, 1)
    end(store)
    for _ in range(2):
        late = one(store, "child", after=[After(parent)])
        store.dependencies.link()
        assert [edge.parent_state for edge in store.dependencies.of(late)] == [State.COMPLETED]
