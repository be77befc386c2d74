"""Jobs are archived before they are pruned: those that go, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, every_job, one
from tests.conformance.test_prune import DAY, KEEP, ended
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    After,
    Archived,
    Retried,
)


def test_the_archive_sees_each_job_before_it_goes(store: Store, clock: ManualClock) -> None:
    ids = ended(store, "completed", 5)
    clock.advance(2 * DAY)
    retried = one(store)
    holder = store.join()
    holder.record([Retried(claim_one(holder), BOOM, timedelta(0))])
    store.upkeep.promote()
    holder.complete(claim_one(holder))
    clock.advance(2 * DAY)
    seen: list[Archived] = []
    told: list[int] = []
    before = {job.id: job for job in every_job(store)}
    assert store.upkeep.prune(KEEP, archive=seen.extend, page=2, progress=told.append) == 6
    assert sorted(item.job.id for item in seen) == sorted([*ids, retried])
    assert all(before[item.job.id] == item.job for item in seen)
    assert {item.job.id: [attempt.outcome for attempt in item.attempts] for item in seen}[retried] == [
        "retried"
    ]
    assert told[-1] == 6 and told == sorted(told)


def test_the_archive_gets_the_jobs_that_go_and_no_others(store: Store, clock: ManualClock) -> None:
    [needed] = ended(store, "completed", 1)
    one(store, "child", after=[After(needed)], delay=900 * DAY)
    gone = ended(store, "completed", 2)
    clock.advance(4 * DAY)
    ended(store, "completed", 2)
    seen: list[Archived] = []
    assert store.upkeep.prune(KEEP, archive=seen.extend) == 2
    assert sorted(item.job.id for item in seen) == sorted(gone)


def test_a_parent_whose_child_is_stored_while_it_is_archived_stays(store: Store, clock: ManualClock) -> None:
    """The page was found before, and is checked again when it is to be removed."""
    parent, other = ended(store, "completed", 2)
    clock.advance(2 * DAY)
    children: list[str] = []

    def archive(jobs: Sequence[Archived]) -> None:
        assert {item.job.id for item in jobs} == {parent, other}
        children.append(one(store, "child", after=[After(parent)]))

    assert store.upkeep.prune(KEEP, archive=archive) == 1
    assert store.dependencies.link() == 1
    (found,) = store.parents.page(children[0]).parents
    assert (found.id, found.is_gone) == (parent, False)
    assert_counts_are_true(store)


def test_an_archive_that_fails_loses_nothing(store: Store, clock: ManualClock) -> None:
    ended(store, "completed", 4)
    clock.advance(2 * DAY)
    calls = []

    def broken(jobs) -> None:
        calls.append(jobs)
        if len(calls) == 2:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.upkeep.prune(KEEP, archive=broken, page=2)
    assert len(every_job(store)) == 2
    assert_counts_are_true(store)
