"""Upkeep cancels jobs whose time is over: when it comes, in pages, in order, and beside rows that are stale."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import assert_counts_are_true, one, state
from tests.expiry.expired import expired
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.upkeep.agenda import Agenda

Opened = Callable[[], Store]


@pytest.fixture(autouse=True)
def _always_true(store: Store) -> Any:
    yield
    assert_counts_are_true(store)


class _Recoverer:
    own = None

    def run(self) -> None: ...


def test_upkeep_comes_when_the_next_job_expires(store: Store, clock: ManualClock) -> None:
    agenda = Agenda(store, _Recoverer(), every=300.0, on_promoted=lambda phase, count: None)  # type: ignore[arg-type]
    assert agenda.run() == 300.0, "nothing can expire"
    first, second = one(store, expires=40), one(store, expires=50)
    assert agenda.run() == 40.0
    clock.advance(40)
    assert agenda.run() == 0.0 and expired(store, first), "there may be more"
    assert agenda.run() == 10.0 and not state(store, second).is_final


def test_pages_and_a_process_that_dies_between_them(
    store: Store, clock: ManualClock, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [one(store, expires=5) for _ in range(5)]
    clock.advance(5)
    transact = store.db.transact
    pages: list[Any] = []

    def dying(work: Any, **options: Any) -> Any:
        if pages:
            raise KeyboardInterrupt
        pages.append(transact(work, **options))
        return pages[-1]

    monkeypatch.setattr(store.db, "transact", dying)
    with pytest.raises(KeyboardInterrupt):
        store.expiries.cancel_due(page=2)
    monkeypatch.undo()
    assert sum(expired(store, job) for job in jobs) == 2
    assert_counts_are_true(store)
    assert opened().expiries.cancel_due(page=2) == 3 and all(expired(store, job) for job in jobs)


def test_jobs_end_in_the_order_of_their_times(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, early = one(store, expires=9), one(store, expires=3)
    one(store, expires=11)
    same = [one(store, expires=6) for _ in range(3)]
    clock.advance(10)
    seen: list[str] = []
    read = store.db.read

    def noting(verb: str, **parameters: Any) -> Any:
        found = read(verb, **parameters)
        seen.extend(row[0] for row in found if verb == "expiry.due")
        return found

    monkeypatch.setattr(store.db, "read", noting)
    assert store.expiries.cancel_due(page=1) == 5
    monkeypatch.undo()
    assert seen == [early, *sorted(same), late]


@pytest.mark.parametrize("where", ["gone", "queued", "scheduled"])
def test_a_row_that_other_software_left_is_removed(store: Store, clock: ManualClock, where: str) -> None:
    """Its job is gone, or has no flag: it must not be found due for ever."""
    match where:
        case "gone":
            job = "01910000-0000-7000-8000-000000000001"
        case "queued":
            job = one(store)
        case _:
            job = one(store, delay=timedelta(hours=1))
    other = one(store)
    for left, lasts in ((job, 1), (other, 2)):
        store.db.run("enqueue.expiries", expiries=f'[{{"job":"{left}","lasts":{lasts}}}]')
    living = {one(store, expires=60), one(store, expires=60, delay=timedelta(seconds=30))}
    clock.advance(1)
    assert store.upkeep.agenda().seconds("expire_in") == 0.0
    assert store.expiries.cancel_due() == 0
    assert {row["job"] for row in rows(store, "expiry")} == {other, *living}, "what is not due is not judged"
    assert where == "gone" or not state(store, job).is_final


def test_the_row_of_a_job_that_has_not_begun_is_not_stale(store: Store) -> None:
    """Of one that another session had locked, say."""
    ids = [one(store, expires=5), one(store, expires=5, delay=timedelta(seconds=1))]
    store.db.run("expiry.stale", ids=ids)
    assert {row["job"] for row in rows(store, "expiry")} == set(ids)


def test_a_page_begins_behind_the_one_before(store: Store, clock: ManualClock) -> None:
    """Jobs that could not be ended are not found again by the same run."""
    first, second, third = sorted(one(store, expires=5) for _ in range(3))
    at = clock.now() + timedelta(seconds=5)
    clock.advance(6)
    found = store.db.read("expiry.due", after_at=at, after_job=second, limit=5)
    assert [row[0] for row in found] == [third]
    assert store.expiries.cancel_due() == 3 and expired(store, first)


def test_no_job_has_no_time(store: Store, clock: ManualClock) -> None:
    assert store.expiries.get("no id") is None and store.expiries.get(one(store)) is None
    for seconds in (60, 30, 90):
        at = clock.now() + timedelta(seconds=seconds)
        assert store.expiries.get(one(store, expires=seconds)) == at
