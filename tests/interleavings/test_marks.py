"""The rule that decides where scans start, by itself, on a clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.waiting import Time
from windlass.store.jobs.low_water import FULL_EVERY, FULL_SHARE, RECENT, RECENT_EVERY, LowWaterMarks, Scan

pytestmark = pytest.mark.timing

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def time() -> Time:
    return Time()


def scan(
    marks: LowWaterMarks,
    time: Time,
    found: list[tuple[int, datetime]],
    *,
    short: bool = False,
    took: float = 0.001,
) -> tuple[Scan, list[datetime | None]]:
    """One scan: where it started, and what it found."""
    planned = marks.plan()
    began = time.now
    time.now += took
    marks.learn(planned[0], began, found, short)
    return planned


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_scans_start_where_the_last_one_ended(time: Time) -> None:
    """After the first full scan the mark follows the rows; a rescan of the last second and a full one come in between."""
    marks = LowWaterMarks(1, time)
    assert scan(marks, time, [(0, at(1)), (0, at(2))]) == (Scan.FULL, [None])
    assert scan(marks, time, [(0, at(3))]) == (Scan.MARK, [at(2)])
    time.now += RECENT_EVERY
    assert scan(marks, time, [(0, at(4))]) == (Scan.RECENT, [at(3) - RECENT])
    time.now += FULL_EVERY
    assert scan(marks, time, [(0, at(5))]) == (Scan.FULL, [None])


def test_a_short_claim_looks_at_the_last_second_next(time: Time) -> None:
    """Nothing ahead: what committed a moment late is looked for at once."""
    marks = LowWaterMarks(1, time)
    scan(marks, time, [(0, at(9))], took=0.0)
    scan(marks, time, [], short=True, took=0.0)
    assert marks.plan() == (Scan.RECENT, [at(9) - RECENT])


def test_a_full_scan_that_came_back_full_goes_on_from_its_last_row(time: Time) -> None:
    """Rows behind the mark, more than one claim takes: the next claim goes on there, until one comes back short; the
    lanes above are done, those below keep their marks."""
    marks = LowWaterMarks(3, time)
    scan(marks, time, [(0, at(50)), (1, at(50)), (2, at(50))])
    marks.forget()
    assert scan(marks, time, [(0, at(10)), (1, at(11)), (1, at(12))])[0] is Scan.FULL
    assert scan(marks, time, [(1, at(13))]) == (Scan.MARK, [at(50), at(12), at(50)])
    assert marks.plan() == (Scan.MARK, [at(50), at(13), at(50)])


def test_a_full_scan_that_came_back_short_leaves_the_mark(time: Time) -> None:
    """It has seen everything: there is nothing to go on with."""
    marks = LowWaterMarks(1, time)
    scan(marks, time, [(0, at(50))])
    marks.forget()
    assert scan(marks, time, [(0, at(10))], short=True)[0] is Scan.FULL
    assert marks.plan() == (Scan.MARK, [at(50)])


def test_dear_full_scans_become_rare_but_one_stall_does_not_make_them_so(time: Time) -> None:
    """A scan that always takes long gets its twentieth of the time; a single slow one changes nothing."""
    marks = LowWaterMarks(1, time)
    for _ in range(3):
        scan(marks, time, [], took=0.003)
        time.now += FULL_EVERY
    scan(marks, time, [], took=0.5)  # the machine was busy
    time.now += FULL_EVERY
    assert marks.plan()[0] is Scan.FULL
    for _ in range(10):
        while marks.plan()[0] is not Scan.FULL:
            time.now += 0.01
        scan(marks, time, [], took=0.2)
    began = time.now
    while marks.plan()[0] is not Scan.FULL:
        time.now += 0.01
    assert time.now - began == pytest.approx(0.2 * FULL_SHARE, abs=0.05)


def test_a_nudge_brings_the_next_full_scan_forward(time: Time) -> None:
    """Forgetting makes the next scan a full one, unless full scans are dear: their share is not exceeded."""
    marks = LowWaterMarks(1, time)
    scan(marks, time, [(0, at(1))])
    assert marks.plan()[0] is not Scan.FULL
    marks.forget()
    assert marks.plan()[0] is Scan.FULL
    for _ in range(10):
        while marks.plan()[0] is not Scan.FULL:
            time.now += 0.01
        scan(marks, time, [], took=0.2)
    marks.forget()
    assert marks.plan()[0] is not Scan.FULL
