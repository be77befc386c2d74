"""What each minute came to: written absolutely by each instance, read as sums."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.conformance.bystanders import rows
from windlass.errors import StoreError
from windlass.features import Store
from windlass.model import Rollup
from windlass.store.ids import new_id

A, B = new_id(), new_id()
MINUTE = timedelta(minutes=1)


@pytest.fixture
def at(store: Store) -> datetime:
    return store.now().replace(second=0, microsecond=0)


def full(minute: datetime, phase: str = "work", factor: int = 1) -> Rollup:
    return Rollup(
        minute=minute,
        phase=phase,
        completed=1 * factor,
        failed=2 * factor,
        retried=3 * factor,
        cancelled=4 * factor,
        released=5 * factor,
        wait=(6 * factor, 0, 7 * factor),
        run=(0, 8 * factor, 9 * factor),
        wait_ms_sum=10_000_000_000 * factor,
        run_ms_sum=20_000_000_000 * factor,
    )


def test_a_minute_is_read_as_it_was_written(store: Store, at: datetime) -> None:
    store.rollups.put(A, [full(at)])
    assert store.rollups.read(since=at) == [full(at)]
    bare = Rollup(minute=at + MINUTE, phase="bare")
    store.rollups.put(A, [bare])
    assert store.rollups.read(since=at + MINUTE) == [bare]


def test_a_minute_written_again_is_replaced(store: Store, at: datetime) -> None:
    """Absolute numbers: a repeated write, after a lost reply or with more to tell, counts nothing twice."""
    store.rollups.put(A, [full(at), full(at, "other")])
    for _ in range(2):
        store.rollups.put(A, [full(at, factor=3)])
    assert store.rollups.read(since=at) == [full(at, "other"), full(at, factor=3)]
    assert len(rows(store, "rollup")) == 2


def test_a_minute_named_twice_in_one_call_is_the_last_one(store: Store, at: datetime) -> None:
    store.rollups.put(A, [full(at), full(at, "other"), full(at, factor=2)])
    assert store.rollups.read(since=at) == [full(at, "other"), full(at, factor=2)]


def test_nothing_to_write_is_nothing(store: Store, at: datetime) -> None:
    store.rollups.put(A, [])
    assert store.rollups.read(since=at) == []


def test_instances_are_summed_minute_by_minute_and_phase_by_phase(store: Store, at: datetime) -> None:
    store.rollups.put(A, [full(at), full(at, "other"), full(at + MINUTE)])
    store.rollups.put(B, [full(at, factor=2), full(at - MINUTE, "other", 5)])
    store.rollups.put(new_id(), [full(at, factor=10)])
    assert store.rollups.read(since=at - MINUTE) == [
        full(at - MINUTE, "other", 5),
        full(at, "other"),
        full(at, factor=13),
        full(at + MINUTE),
    ]


def test_histograms_of_different_lengths_are_added_all_the_same(store: Store, at: datetime) -> None:
    """Two releases with different buckets may run side by side for a while."""
    store.rollups.put(A, [full(at)._replace(wait=(1, 2, 3, 4), run=())])
    store.rollups.put(B, [full(at)._replace(wait=(10, 20), run=(1,))])
    (row,) = store.rollups.read(since=at)
    assert (row.wait, row.run) == ((11, 22, 3, 4), (1,))


def test_a_read_is_of_the_minutes_and_the_phase_it_names(store: Store, at: datetime) -> None:
    minutes = [at + n * MINUTE for n in range(4)]
    for minute in minutes:
        store.rollups.put(A, [full(minute, "a"), full(minute, "b")])

    def seen(**only: object) -> list[tuple[int, str]]:
        found = store.rollups.read(**only)  # type: ignore[arg-type]
        return [(minutes.index(row.minute), row.phase) for row in found]

    assert seen(since=minutes[2]) == [(2, "a"), (2, "b"), (3, "a"), (3, "b")]
    assert seen(since=minutes[1], until=minutes[3], phase="b") == [(1, "b"), (2, "b")]
    assert seen(since=minutes[0] + timedelta(seconds=1), until=minutes[2]) == [(1, "a"), (1, "b")]
    assert seen(since=minutes[0], phase="none") == [] and seen(since=minutes[3] + MINUTE) == []


def test_old_minutes_are_removed(store: Store, at: datetime) -> None:
    store.rollups.put(A, [full(at - n * MINUTE) for n in range(5)])
    store.rollups.put(B, [full(at - 4 * MINUTE)])
    assert store.rollups.prune(at - 2 * MINUTE) == 3
    assert [row.minute for row in store.rollups.read(since=at - timedelta(days=1))] == [
        at - 2 * MINUTE,
        at - MINUTE,
        at,
    ]
    assert store.rollups.prune(at - 2 * MINUTE) == 0


def test_numbers_that_make_no_sense_are_refused_whole(store: Store, at: datetime) -> None:
    for bad in (full(at)._replace(failed=-1), full(at)._replace(minute=at + timedelta(seconds=30))):
        with pytest.raises(StoreError):
            store.rollups.put(A, [full(at + MINUTE), bad])
    assert store.rollups.read(since=at) == []
