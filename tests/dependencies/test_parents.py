"""The parents of a job, as it reads them: page by page, in the order of their ids, wherever they are now."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.dependencies.parents import BEGINNING, END, ParentReader
from windlass.features import Store
from windlass.model import After, DependencyPolicy, ParentCounts, Retention, State, StoredParent

RUN = DependencyPolicy.RUN
DAY = timedelta(days=1)
KEEP = Retention(completed=DAY, failed=DAY, cancelled=100 * DAY)


def family(store: Store, n: int, size: int = 1) -> tuple[list[str], str]:
    """Parents that completed with their place and a text of this size, and their child."""
    parents = enqueue(store, "parent", n)
    child = one(store, "child", after=[After(parent, RUN) for parent in parents])
    store.dependencies.link()
    holder = store.join()
    for lease in holder.claim("parent", n):
        holder.complete(lease, [parents.index(lease.id), "x" * size])
    return parents, child


def everything(reader: ParentReader, child: str) -> list[list[StoredParent]]:
    pages, after = [], "00000000-0000-0000-0000-000000000000"
    while True:
        page = reader.page(child, after)
        pages.append(list(page.parents))
        if page.next_after is None:
            return pages
        after = page.next_after


@pytest.mark.parametrize("n", [0, 1, 4, 5, 8])
def test_parents_are_read_in_pages_in_the_order_of_their_ids(store: Store, n: int) -> None:
    bystanders = [After(parent, RUN) for parent in enqueue(store, "bystander", 2)]
    one(store, "other", after=bystanders)
    parents, child = family(store, n)
    pages = everything(ParentReader(store.db, limit=4), child)
    assert [parent.id for page in pages for parent in page] == sorted(parents)
    assert [parent.result for page in pages for parent in page] == [f'[{n},"x"]' for n in range(n)] or (
        store.db.dialect == "postgres"  # which writes JSON with spaces
    )
    assert max(map(len, pages)) <= 4
    assert store.parents.count(child) == ParentCounts(n, completed=n)


@pytest.mark.parametrize(("most", "expected"), [(1, [1] * 5), (25, [3, 2]), (10_000, [5])])
def test_a_page_ends_with_the_result_that_fills_it(store: Store, most: int, expected: list[int]) -> None:
    """Results of about ten bytes; errors count as well."""
    _, child = family(store, 5, size=4)
    found = everything(ParentReader(store.db, most=most), child)
    assert [len(page) for page in found if page] == expected


def test_a_page_is_filled_by_its_own_results(store: Store) -> None:
    parents = enqueue(store, "parent", 4)
    child = one(store, "child", after=[After(parent, RUN) for parent in parents])
    store.dependencies.link()
    holder = store.join()
    for lease in holder.claim("parent", 4):
        holder.complete(lease, "x" * (100 if lease.id == parents[1] else 1))
    assert [len(page) for page in everything(ParentReader(store.db, most=50), child) if page] == [2, 2]


def test_errors_fill_a_page_like_results(store: Store) -> None:
    parents = enqueue(store, "parent", 3)
    child = one(store, "child", after=[After(parent, RUN) for parent in parents])
    store.dependencies.link()
    holder = store.join()
    for lease in holder.claim("parent", 3):
        holder.fail(lease, BOOM)
    assert [len(page) for page in everything(ParentReader(store.db, most=20), child) if page] == [1, 1, 1]


def test_each_end_has_its_state_and_what_belongs_to_it(store: Store) -> None:
    ids = {end: one(store, end, max_attempts=1) for end in ("completed", "failed", "cancelled")}
    child = one(store, "child", after=[After(parent, RUN) for parent in ids.values()])
    store.dependencies.link()
    holder = store.join()
    holder.complete(claim_one(holder, "completed"), 7)
    holder.fail(claim_one(holder, "failed"), BOOM)
    assert store.parents.count(child) == ParentCounts(3, completed=1, failed=1)
    store.jobs.cancel(ids["cancelled"], "not today")
    assert store.parents.count(child) == ParentCounts(3, completed=1, failed=1, cancelled=1)
    found = {parent.state: parent for parent in store.parents.page(child).parents}
    assert {name: parent.id for name, parent in found.items()} == ids
    assert [parent.kind for parent in found.values()] == [*ids]
    assert (found[State.COMPLETED].result, found[State.COMPLETED].error) == ("7", None)
    failure, cancel = found[State.FAILED].error, found[State.CANCELLED].error
    assert failure is not None and failure["message"] == "it broke" and failure["at"]
    assert cancel is not None and cancel["message"] == "not today"
    assert not any(parent.is_gone for parent in found.values())


@pytest.mark.parametrize("place", ["queued", "processing", "scheduled", "inbox", "waiting"])
def test_a_parent_that_lives_again_is_shown_as_it_is(store: Store, clock: ManualClock, place: str) -> None:
    parents, child = family(store, 2)
    holder = store.join()
    store.jobs.retry(parents[0])
    if place == "processing":
        claim_one(holder, "parent")
    elif place in ("scheduled", "waiting", "inbox"):
        holder.retry_later(claim_one(holder, "parent"), BOOM, timedelta(hours=1))
    if place in ("waiting", "inbox"):
        with store.db.effect(5) as tx:
            prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
            tx.connection.execute(
                f"UPDATE {prefix}job_later SET reason = '{place}', pending = {int(place == 'waiting')}"
            )
    first, second = store.parents.page(child).parents
    expected = State.QUEUED if place == "inbox" else State(place)
    assert (first.state, first.kind, first.result, first.is_gone) == (expected, "parent", None, False)
    assert second.state is State.COMPLETED


@pytest.mark.owner
def test_a_parent_that_ended_at_another_time_than_its_edge_says_is_found(
    store: Store, clock: ManualClock
) -> None:
    """A parent that was retried by hand after its child was let go has a later end."""
    parents, child = family(store, 3)
    clock.advance(3 * DAY)
    store.upkeep.maintain()
    store.jobs.retry(parents[1])
    holder = store.join()
    holder.complete(claim_one(holder, "parent"), "again")
    found = store.parents.page(child).parents
    assert [parent.state for parent in found] == [State.COMPLETED] * 3
    assert found[1].result == '"again"'


@pytest.mark.owner
def test_a_pruned_parent_is_gone_and_its_end_is_known(store: Store, clock: ManualClock) -> None:
    parents, child = family(store, 3)
    holder = store.join()
    holder.complete(claim_one(holder, "child"))
    clock.advance(DAY / 2)
    store.jobs.retry(parents[2])
    holder.complete(claim_one(holder, "parent"), "kept")
    store.jobs.retry(child)
    store.jobs.cancel(child)
    clock.advance(DAY * 3 / 4)
    assert store.upkeep.prune(KEEP) == 2
    found = store.parents.page(child).parents
    assert [(parent.id, parent.is_gone, parent.state, parent.result) for parent in found] == [
        (parents[0], True, State.COMPLETED, None),
        (parents[1], True, State.COMPLETED, None),
        (parents[2], False, State.COMPLETED, '"kept"'),
    ]
    assert [parent.kind for parent in found] == [None, None, "parent"]


def test_the_verbs_take_the_jobs_that_are_named(store: Store) -> None:
    """Among jobs in other states, edges of other children and other ends."""
    family(store, 2)
    enqueue(store, "bystander", 2)
    one(store, "bystander", delay=DAY)
    parents, child = family(store, 2)
    rows = store.db.read("parents.read", ids=[parents[1]], oldest=BEGINNING, newest=END, bytes=1000)
    assert [row[0] for row in rows] == [parents[1]]
    assert store.db.read("parents.read", ids=[], oldest=BEGINNING, newest=END, bytes=1000) == []
    live, later = one(store), one(store, delay=DAY)
    found = store.db.read("parents.live", ids=[live, later, *parents])
    assert {(row[0], row[2]) for row in found} == {(live, "queued"), (later, "scheduled")}
    assert [row[0] for row in store.db.read("parents.page", child=child, after=parents[0], limit=9)] == [
        parents[1]
    ]
    assert state(store, child) is State.QUEUED
