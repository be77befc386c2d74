"""Lists by keyset and counts that do not scan."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, every_job, one
from windlass.clock import ManualClock
from windlass.errors import ConfigError
from windlass.features import Store
from windlass.model import After, Counts, JobFilter, NewJob, State


@pytest.fixture
def zoo(store: Store) -> dict[State, str]:
    """One job of kind `zoo` in every state, beside others of kind `noise`."""
    holder = store.join()
    ids: dict[State, str] = {}
    for end in ("completed", "failed", "cancelled", "processing"):
        ids[State(end)] = one(store, "zoo", correlation_id="c-zoo")
        lease = claim_one(holder, "zoo")
        if end == "completed":
            holder.complete(lease)
        elif end == "failed":
            holder.fail(lease, BOOM)
        elif end == "cancelled":
            holder.cancel(lease)
    ids[State.QUEUED] = one(store, "zoo", correlation_id="c-zoo")
    ids[State.SCHEDULED] = one(store, "zoo", correlation_id="c-zoo", delay=timedelta(hours=1))
    ids[State.WAITING] = one(store, "zoo", correlation_id="c-zoo", after=[After(ids[State.QUEUED])])
    for end in ("complete", "fail", "cancel"):
        one(store, "noise", phase="noise:a")
        lease = claim_one(holder, "noise:a")
        if end == "fail":
            holder.fail(lease, BOOM)
        elif end == "complete":
            holder.complete(lease)
        else:
            holder.cancel(lease)
    enqueue(store, "noise", 2, phase="noise:a")
    one(store, "noise", phase="noise:a", delay=timedelta(hours=1))
    return ids


@pytest.mark.parametrize("wanted", State)
def test_a_list_shows_one_state(store: Store, zoo: dict[State, str], wanted: State) -> None:
    jobs = every_job(store, state=wanted)
    assert {job.state for job in jobs} == {wanted}
    assert zoo[wanted] in [job.id for job in jobs]
    for only in ({"kind": "zoo"}, {"phase": "zoo"}, {"correlation_id": "c-zoo"}):
        assert [job.id for job in every_job(store, state=wanted, **only)] == [zoo[wanted]], only
    if wanted is not State.WAITING and wanted is not State.PROCESSING:
        noise = every_job(store, state=wanted, kind="noise")
        assert noise and {job.phase for job in noise} == {"noise:a"}
        assert [job.id for job in every_job(store, state=wanted, correlation_id=noise[0].id)] == [noise[0].id]
        assert every_job(store, state=wanted, phase="noise:a") == noise


def test_a_list_without_a_state_shows_everything_once(store: Store, zoo: dict[State, str]) -> None:
    jobs = every_job(store)
    assert len(jobs) == len({job.id for job in jobs}) == 7 + 6
    assert [job.id for job in jobs] == sorted((job.id for job in jobs), reverse=True)
    assert {job.id for job in every_job(store, kind="zoo")} == set(zoo.values())
    assert_counts_are_true(store)


def test_a_listed_job_is_the_job(store: Store, zoo: dict[State, str]) -> None:
    for job in every_job(store):
        assert replace(store.jobs.get(job.id), parents=None) == job, "a list does not count parents"


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_pages_join_without_gaps_or_doubles(store: Store, size: int) -> None:
    ids = enqueue(store, n=7)
    seen: list[str] = []
    cursor = None
    while True:
        page = store.jobs.list(JobFilter(state=State.QUEUED), cursor=cursor, limit=size)
        assert len(page.jobs) <= size
        seen += [job.id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == sorted(ids, reverse=True)


@pytest.mark.parametrize(
    ("options", "key"), [({"limit": 0}, "limit"), ({"limit": 1001}, "limit"), ({"cursor": "x"}, "cursor")]
)
def test_senseless_pages_are_refused(store: Store, options: dict, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store.jobs.list(**options)
    assert caught.value.key == key


def test_counts_are_the_same_before_and_after_folding(store: Store, zoo: dict[State, str]) -> None:
    before = store.phases.counts()
    assert before["zoo"] == Counts(1, 1, 1, 1, 1, 1, 1)
    store.upkeep.fold(limit=3)
    assert store.phases.counts() == before
    store.enqueue([NewJob(kind="zoo")])
    store.upkeep.fold()
    assert store.phases.counts()["zoo"].queued == 2
    assert_counts_are_true(store)


def test_the_oldest_queued_job_of_each_phase(store: Store, clock: ManualClock) -> None:
    """In whatever lane, and not one that is held, that waits for its time, or that ended."""
    assert store.phases.oldest() == {}
    one(store, "busy", priority=9)
    holder = store.join()
    lease = claim_one(holder, "busy")
    clock.advance(timedelta(seconds=10))
    one(store, "busy", priority=1)
    clock.advance(timedelta(seconds=20))
    one(store, "busy", priority=8)
    one(store, "later", delay=timedelta(seconds=1))
    clock.advance(timedelta(seconds=5))
    assert store.phases.oldest() == {"busy": pytest.approx(25), "later": 0}
    holder.release(lease)  # back to its old place
    assert store.phases.oldest()["busy"] == pytest.approx(35)
    store.upkeep.promote()
    clock.advance(timedelta(seconds=3))
    store.upkeep.fold()
    assert store.phases.oldest() == {"busy": pytest.approx(38), "later": pytest.approx(3)}
    store.phases.pause("busy", "a test")
    assert store.phases.oldest()["busy"] == pytest.approx(
        38
    )  # nobody comes for it, and that is what one wants to see
    holder.complete(claim_one(holder, "later"))
    assert store.phases.oldest()["later"] == 0
