"""Statistics over time: minutes, and the hours and days that are made of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.control.conftest import ANNA
from windlass import App, ConfigError, NotAllowedError
from windlass.features import Store
from windlass.model import Rollup
from windlass.store.ids import new_id

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def _write(store: Store, *times: datetime, phase: str = "welcome") -> None:
    rows = [
        Rollup(minute=at, phase=phase, completed=2, failed=1, wait=(0, 1), run=(1, 0, 1), run_ms_sum=7)
        for at in times
    ]
    store.rollups.put(new_id(), rows)


def test_hours_and_days_are_the_sums_of_their_minutes(app: App, store: Store) -> None:
    _write(store, *(START + number * MINUTE for number in range(90)))
    hours = app.history.read(since=START, until=START + DAY, step=3600)
    assert [(point.at, point.completed, point.failed) for point in hours] == [
        (START, 120, 60),
        (START + HOUR, 60, 30),
    ]
    (day,) = app.history.read(since=START - 10 * HOUR, until=START + DAY, step=86_400)
    assert day.completed == 180 and day.wait_p50 == 2.0 and day.run_p95 == 5.0


def test_folded_hours_outlive_their_minutes_and_are_not_counted_twice(app: App, store: Store) -> None:
    _write(store, *(START + number * MINUTE for number in range(150)))
    before = app.history.read(since=START, until=START + DAY, step=3600)
    now = START + 2 * HOUR + 10 * MINUTE
    store.rollups.fold(now)
    store.rollups.fold(now)
    assert app.history.read(since=START, until=START + DAY, step=3600) == before
    store.rollups.prune(START + 2 * HOUR)
    assert app.history.read(since=START, until=START + DAY, step=3600) == before
    assert [point.at for point in app.history.read(since=START, until=START + DAY / 2)] == [
        START + 2 * HOUR + number * MINUTE for number in range(30)
    ]


def test_minutes_that_come_late_are_folded_again(app: App, store: Store) -> None:
    _write(store, START)
    store.rollups.fold(START + HOUR + 10 * MINUTE)
    _write(store, START + MINUTE)
    store.rollups.fold(START + 2 * HOUR)
    (hour,) = app.history.read(since=START, until=START + HOUR, step=3600)
    assert hour.completed == 4


def test_days_are_folded_from_hours_and_old_ones_removed(app: App, store: Store) -> None:
    _write(store, START, START + DAY, START + DAY, phase="a")
    _write(store, START, phase="b")
    store.rollups.fold(START + 3 * DAY)
    store.rollups.prune(START + 3 * DAY)
    days = app.history.read(since=START - DAY, until=START + 9 * DAY, step=86_400)
    assert [(point.phase, point.completed) for point in days] == [("a", 2), ("b", 2), ("a", 2)]
    store.rollups.fold(START + 200 * DAY)
    assert not app.history.read(since=START, until=START + DAY, step=3600)
    assert len(app.history.read(since=START - DAY, until=START + 9 * DAY, step=86_400)) == 3


@pytest.mark.parametrize("is_folded", [False, True])
def test_a_point_has_all_minutes_of_its_span_or_is_not_returned(
    app: App, store: Store, is_folded: bool
) -> None:
    """An hour or a day that began before ``since`` is left out; one that began before ``until`` is whole."""
    _write(store, *(START + number * MINUTE for number in range(5 * 60)))
    _write(store, START + DAY)
    if is_folded:
        store.rollups.fold(START + DAY)
    since, until = START + 30 * MINUTE, START + 3 * HOUR - 30 * MINUTE
    assert [
        (point.at, point.completed) for point in app.history.read(since=since, until=until, step=3600)
    ] == [
        (START + HOUR, 120),
        (START + 2 * HOUR, 120),
    ]
    assert app.history.read(since=since, until=until, step=86_400) == []
    since, until = START.replace(hour=0), START + HOUR
    assert [
        (point.at, point.completed) for point in app.history.read(since=since, until=until, step=86_400)
    ] == [(START.replace(hour=0), 600)]


def test_days_that_are_not_folded_are_made_of_folded_hours(app: App, store: Store) -> None:
    """Minutes of a day are many on many instances, and they may be gone."""
    _write(store, *(START + number * MINUTE for number in range(150)))
    store.rollups.fold(START + 2 * HOUR + 10 * MINUTE)
    store.rollups.prune(START + 2 * HOUR)
    (day,) = app.history.read(since=START.replace(hour=0), until=START + 3 * HOUR, step=86_400)
    assert (day.completed, day.seconds) == (300, 86_400)


@pytest.mark.parametrize("step", [60, 3600, 86_400])
def test_times_at_the_end_of_the_calendar_find_nothing(app: App, step: int) -> None:
    last = datetime.max.replace(tzinfo=timezone(timedelta(hours=-10)))
    assert app.history.read(since=last - HOUR, until=last, step=step) == []
    assert app.history.read(since=last, step=step) == []
    assert app.history.read(since=START, until=datetime.min.replace(tzinfo=UTC), step=step) == []


def test_all_phases_are_read_for_fewer_points_than_one(app: App) -> None:
    with pytest.raises(ConfigError, match="or name a phase"):
        app.history.read(since=START, until=START + 3 * DAY)
    assert app.history.read(since=START, until=START + 3 * DAY, phase="welcome") == []


def test_one_phase_can_be_read(app: App, store: Store) -> None:
    _write(store, START, phase="a")
    _write(store, START, phase="b")
    assert [p.phase for p in app.history.read(since=START, until=START + DAY, phase="b")] == ["b"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"step": 61}, "step"),
        ({"since": START.replace(tzinfo=None)}, "time zone"),
        ({"since": START - 10 * DAY}, "larger step"),
    ],
)
def test_what_cannot_be_read_is_refused(app: App, changes: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        app.history.read(**({"since": START, "until": START + DAY} | changes))


def test_statistics_are_for_those_who_see_all_jobs(app: App) -> None:
    with pytest.raises(NotAllowedError):
        app.acting_as(ANNA).history.read(since=START)
