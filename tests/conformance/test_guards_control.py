"""Verbs of searches, edits and acts take what they are asked for and no more, tested where there is more to take."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import LONG, Crowd, rows_without
from tests.conformance.life import BOOM, claim_one, enqueue, one
from windlass.clock import ManualClock
from windlass.control.actor import Scope
from windlass.control.filters import Filter
from windlass.control.filters.conditions import Conditions
from windlass.features import Store
from windlass.model import JobLimit, Json, Key
from windlass.store.ids import LARGEST
from windlass.store.jobs.edits import Edit


def asked(text: str = "") -> Mapping[str, Any]:
    """The parameters of a search for all jobs of a filter."""
    only = Conditions.of(Filter.parse(text), datetime.now(UTC)).parameters
    return {**only, **Scope("all").parameters()}


def failed(store: Store, kind: str, **options: Any) -> str:
    holder = store.join()
    job_id = one(store, kind, **options)
    holder.fail(claim_one(holder, kind), BOOM)
    return job_id


# ------------------------------------------------------------------------------------------------------------ searches


def test_a_window_over_a_kind_has_no_more_rows_than_asked_for(store: Store, crowd: Crowd) -> None:
    ids = [failed(store, "mine") for _ in range(4)]
    window = store.search.of_kind("mine", LARGEST, 2, asked())
    assert (list(window.found), window.searched, window.is_last) == ([ids[3], ids[2]], 2, False)
    window = store.search.of_kind("mine", ids[2], 5, asked())
    assert (list(window.found), window.searched, window.is_last) == ([ids[1], ids[0]], 2, True)


def test_ended_jobs_of_a_key_are_found_newest_first_and_no_others(store: Store, crowd: Crowd) -> None:
    ids = [failed(store, "mine", key=Key("k")) for _ in range(3)]
    failed(store, "mine")
    failed(store, "mine", key=Key("other"))
    assert store.search.keyed(["mine:k"], LARGEST, 9) == ids[::-1]
    assert store.search.keyed(["mine:k"], LARGEST, 2) == [ids[2], ids[1]]
    assert store.search.keyed(["mine:k"], ids[1], 9) == [ids[0]]


def test_the_queue_of_a_phase_has_no_held_jobs(store: Store, crowd: Crowd) -> None:
    ids = enqueue(store, "mine", 3)
    (held,) = (lease.id for lease in store.join().claim("mine", 1))
    assert set(store.search.queued("mine", 9)) == {*ids} - {held}
    assert len(store.search.queued("mine", 1)) == 1
    assert len(store.search.held(2)) == 2 and held in store.search.held(1000)


# --------------------------------------------------------------------------------------------------------------- edits


@pytest.mark.parametrize("options", [{}, {"delay": LONG}], ids=["queued", "scheduled"])
def test_an_edit_reads_and_changes_its_own_job(store: Store, crowd: Crowd, options: dict[str, Any]) -> None:
    job_id = one(store, "mine", args={"n": 1}, **options)
    before = rows_without(store, job_id)
    version = store.jobs.get(job_id).version
    job = store.jobs.edit(job_id, Edit(args=Json('{"n":2}'), priority=1, version=version))
    assert (job.id, job.args, job.priority) == (job_id, {"n": 2}, 1)
    assert rows_without(store, job_id) == before


def test_a_job_is_due_by_its_own_time(store: Store, crowd: Crowd, clock: ManualClock) -> None:
    soon, later = one(store, "mine", delay=timedelta(seconds=1)), one(store, "mine", delay=LONG)
    clock.advance(2)

    def is_due(job_id: str) -> bool:
        return bool(store.db.transact(lambda tx: tx.run("is_due", id=job_id)))

    assert is_due(soon) and not is_due(later)
    assert [name for name, job_id in crowd.ids.items() if is_due(job_id)] == []


# ----------------------------------------------------------------------------------------------------------------- why


def test_the_error_of_a_job_that_waits_is_that_of_its_phase_and_generation(store: Store) -> None:
    """A job that waits for a place has the error of no attempt of an earlier phase, and none of before its retry by hand."""
    holder = store.join()
    limit = [JobLimit(phase="mine", key="k", limit=1)]
    moved = one(store, "mine", phase="mine.first", limits=limit)
    store.limits.let_in()
    holder.retry_later(claim_one(holder, "mine.first"), BOOM, timedelta(0))
    store.upkeep.promote()
    again = one(store, "mine", limits=limit, max_attempts=1)
    store.limits.let_in()
    holder.fail(claim_one(holder, "mine"), BOOM)
    one(store, "mine", limits=limit)
    store.limits.let_in()
    holder.advance(claim_one(holder, "mine.first"), "mine")
    store.jobs.retry(again)

    def waits(job_id: str) -> tuple[str, object]:
        (row,) = store.db.read("why.job", id=job_id)
        return row[0], row[-2]

    assert waits(moved) == waits(again) == ("later", None)
