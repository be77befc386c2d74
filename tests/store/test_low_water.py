"""Low-water marks: where scans start, and that nothing stays behind for long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.waiting import Time
from windlass.store.jobs.low_water import FULL_EVERY, RECENT, LowWaterMarks, Scan, as_text

T0 = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def marks(time: Time) -> LowWaterMarks:
    return LowWaterMarks(2, time)


def scan(
    marks: LowWaterMarks, time: Time, took: float = 0.001, found: tuple = (), is_short: bool = False
) -> Scan:
    began = time.now
    kind, _ = marks.plan()
    time.now += took
    marks.learn(kind, began, found, is_short)
    return kind


def test_the_first_scan_is_full(marks: LowWaterMarks) -> None:
    assert marks.plan() == (Scan.FULL, [None, None])


def test_the_next_one_starts_where_the_last_ended_lane_by_lane(marks: LowWaterMarks, time: Time) -> None:
    scan(marks, time, found=((0, T0), (0, T0 + timedelta(seconds=1)), (1, T0)))
    assert marks.plan() == (Scan.MARK, [T0 + timedelta(seconds=1), T0])


def test_a_mark_never_goes_back_by_what_a_full_scan_finds(marks: LowWaterMarks, time: Time) -> None:
    scan(marks, time, found=((0, T0 + timedelta(seconds=9)),))
    time.now += 10
    assert scan(marks, time, found=((0, T0),), is_short=True) is Scan.FULL
    time.now += 0.0001
    assert marks.plan() == (Scan.MARK, [T0 + timedelta(seconds=9), None])


def test_a_rescan_that_came_back_full_goes_on_from_its_last_row(marks: LowWaterMarks, time: Time) -> None:
    """Or 500 released jobs would come back ten at a time, twice a second."""
    scan(marks, time, found=((0, T0 + timedelta(seconds=9)), (1, T0)))
    time.now += 10
    assert scan(marks, time, found=((0, T0 + timedelta(seconds=1)),)) is Scan.FULL
    assert marks.plan() == (Scan.MARK, [T0 + timedelta(seconds=1), T0])


def test_a_short_scan_is_followed_by_one_of_the_last_second(marks: LowWaterMarks, time: Time) -> None:
    scan(marks, time, found=((0, T0),))
    scan(marks, time, found=((0, T0),), is_short=True)
    time.now += 0.05
    assert marks.plan() == (Scan.RECENT, [T0 - RECENT, None])


def test_a_busy_queue_is_looked_through_again_every_quarter_second(marks: LowWaterMarks, time: Time) -> None:
    scan(marks, time, found=((0, T0),))
    kinds = []
    for _ in range(40):
        time.now += 0.009
        kinds.append(scan(marks, time, found=((0, T0),)))
    assert kinds.count(Scan.RECENT) == 1 and kinds.count(Scan.FULL) == 0


def test_a_full_scan_comes_back_soon_where_it_is_cheap(marks: LowWaterMarks, time: Time) -> None:
    scan(marks, time)
    time.now += FULL_EVERY
    assert marks.plan()[0] is Scan.FULL


def test_full_scans_take_at_most_a_twentieth_of_the_time(marks: LowWaterMarks, time: Time) -> None:
    """Where dead rows make it slow, it is done rarely, but it is done."""
    spent = {Scan.FULL: 0.0, Scan.RECENT: 0.0, Scan.MARK: 0.0}
    began = time.now
    cost = {Scan.FULL: 0.4, Scan.RECENT: 0.02, Scan.MARK: 0.002}
    for _ in range(200_000):
        kind = scan(marks, time, took=cost[marks.plan()[0]])
        spent[kind] += cost[kind]
    total = time.now - began
    assert 0.02 < spent[Scan.FULL] / total <= 0.06
    assert spent[Scan.RECENT] / total <= 0.12


def test_a_nudge_makes_the_next_scan_full(marks: LowWaterMarks, time: Time) -> None:
    scan(marks, time, found=((0, T0),))
    assert marks.plan()[0] is Scan.MARK
    marks.forget()
    assert marks.plan()[0] is Scan.FULL


def test_marks_travel_as_text() -> None:
    assert as_text([None, T0]) == ["-infinity", "2026-01-01T00:00:00+00:00"]
