"""Schedules with an interval: due times are the creation of the schedule plus n times the interval, and fire once each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.schedules.scheduled import DAY, HOUR, MINUTE, T0, code, dues, new
from windlass import App
from windlass.clock import ManualClock
from windlass.errors import ConfigError
from windlass.features import Store
from windlass.model import Missed, NewSchedule, State
from windlass.schedules.times import Interval, interval_text

SECOND = timedelta(seconds=1)


def every(seconds: float | timedelta = 90, name: str = "tidy", **options: Any) -> NewSchedule:
    return NewSchedule(name=name, kind="work", every=seconds, **options)


def after(*seconds: float) -> list[datetime]:
    return [T0 + number * SECOND for number in seconds]


def test_due_times_are_anchored_at_the_creation(store: Store, clock: ManualClock) -> None:
    clock.advance(0.123456)
    made = store.schedules.put(every())
    assert (made.expression, made.every, made.tz) == ("every 90 s", 90 * SECOND, "UTC")
    assert made.next_at == made.created_at + 90 * SECOND
    for number, late in enumerate((0.0, 3.25, 9.0, 0.5), start=1):
        clock.advance(made.created_at + number * 90 * SECOND + late * SECOND - clock.now())
        assert dues(store.schedules.fire_due()) == [made.created_at + number * 90 * SECOND], "no drift"
    assert store.schedules.get("tidy").next_at == made.created_at + 450 * SECOND
    assert dues(store.schedules.fire_due()) == []


def test_each_due_time_fires_once_however_many_instances_run(
    store: Store, clock: ManualClock, opened: Callable[[], Store]
) -> None:
    store.schedules.define([code("tidy", None, every=1)], ["shop.jobs"])  # type: ignore[arg-type]
    others = [store, opened(), opened()]
    for number in range(1, 6):
        clock.advance(1)
        assert [at for other in others for at in dues(other.schedules.fire_due())] == after(number)
    assert sum(found.queued for found in store.phases.counts().values()) == 5


@pytest.mark.parametrize(
    ("missed", "found"), [(Missed.SKIP, []), (Missed.ONCE, [270]), (Missed.ALL, [90, 180, 270])]
)
def test_missed_due_times_follow_the_policy(
    store: Store, clock: ManualClock, missed: Missed, found: list[int]
) -> None:
    store.schedules.put(every(missed=missed))
    clock.advance(300)
    fired = store.schedules.fire_due()
    assert dues(fired) == after(*found) and sum(tick.covers for item in fired for tick in item.ticks) == len(
        after(90, 180, 270)
    ) * bool(found)
    assert store.schedules.get("tidy").next_at == T0 + 360 * SECOND
    clock.advance(60)
    assert dues(store.schedules.fire_due()) == after(360)


def test_a_changed_interval_is_planned_from_the_creation_on(store: Store, clock: ManualClock) -> None:
    store.schedules.define([code("tidy", None, every=90)], ["shop.jobs"])  # type: ignore[arg-type]
    clock.advance(100.0000015)
    store.schedules.fire_due()
    for seconds, coming in ((60, 120), (0.7 + 0.3, 101), (7.000001, 105.000015)):
        changed = code("tidy", None, every=seconds)  # type: ignore[arg-type]
        assert store.schedules.define([changed], ["shop.jobs"]).changed == ("tidy",)
        found = store.schedules.get("tidy")
        assert (
            found.next_at
            == T0 + coming * SECOND
            == Interval(found.every or SECOND, T0).next_after(clock.now())
        )
        assert store.schedules.define([changed], ["shop.jobs"]).changed == ()
    # to an expression and back
    store.schedules.define([code("tidy", "*/5 * * * *")], ["shop.jobs"])
    assert (
        store.schedules.get("tidy").next_at == T0 + 5 * MINUTE and store.schedules.get("tidy").every is None
    )
    store.schedules.define([code("tidy", None, every=90)], ["shop.jobs"])  # type: ignore[arg-type]
    assert store.schedules.get("tidy").next_at == T0 + 180 * SECOND


def test_another_change_loses_no_tick(store: Store, clock: ManualClock) -> None:
    store.schedules.put(every())
    clock.advance(95)
    assert store.schedules.put(every(args={"n": 1})).next_at == T0 + 90 * SECOND
    assert dues(store.schedules.fire_due()) == after(90)


def test_code_that_is_back_keeps_its_anchor(store: Store, clock: ManualClock) -> None:
    store.schedules.define([code("tidy", None, every=90)], ["shop.jobs"])  # type: ignore[arg-type]
    store.schedules.define([], ["shop.jobs"])
    clock.advance(100)
    store.schedules.define([code("tidy", None, every=90)], ["shop.jobs"])  # type: ignore[arg-type]
    assert store.schedules.get("tidy").next_at == T0 + 180 * SECOND


def test_pause_resume_and_run_now(store: Store, clock: ManualClock) -> None:
    store.schedules.put(every())
    store.schedules.pause("tidy", "for now")
    clock.advance(400)
    assert dues(store.schedules.fire_due()) == [] and store.schedules.run_now("tidy").created
    assert store.schedules.resume("tidy")
    assert store.schedules.get("tidy").next_at == T0 + 450 * SECOND


def test_jitter_and_expiry_of_the_jobs(store: Store, clock: ManualClock) -> None:
    store.schedules.put(every(jitter=10 * SECOND, expires=60 * SECOND))
    assert store.schedules.get("tidy").expires == MINUTE
    clock.advance(90)
    ((tick,),) = [item.ticks for item in store.schedules.fire_due()]
    job = store.jobs.get(tick.job_id)
    assert job.run_at is not None and T0 + 90 * SECOND < job.run_at <= T0 + 100 * SECOND
    assert store.expiries.get(job.id) == T0 + 150 * SECOND
    clock.advance(60)
    assert store.expiries.cancel_due() == 1 and store.jobs.get(job.id).state is State.CANCELLED
    assert store.schedules.put(every(jitter=10 * SECOND)).expires is None, "a changed definition"


def test_changes_of_clocks_move_nothing() -> None:
    """From the last hour of winter time in Berlin to the first day of summer time."""
    anchor = datetime(2026, 3, 29, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    times = Interval(HOUR, anchor)
    found = list(times.between(anchor, anchor + DAY))
    assert {later - earlier for earlier, later in pairwise(found)} == {HOUR}


def test_the_arithmetic_of_an_interval() -> None:
    times = Interval(90 * SECOND, T0)
    assert times.next_after(T0 - DAY) == times.next_after(T0) == T0 + 90 * SECOND
    assert times.next_after(T0 + 90 * SECOND) == T0 + 180 * SECOND
    assert list(times.between(T0 + 90 * SECOND, T0 + 270 * SECOND)) == after(180, 270)
    assert times.latest(T0, T0 + 269 * SECOND) == T0 + 180 * SECOND
    assert times.latest(T0 + 180 * SECOND, T0 + 269 * SECOND) is None
    assert times.latest(T0 - DAY, T0 + 89 * SECOND) is None
    assert [interval_text(timedelta(seconds=seconds)) for seconds in (1, 90, 1.5, 7.000001)] == [
        "every 1 s",
        "every 90 s",
        "every 1.5 s",
        "every 7.000001 s",
    ]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"every": 0}, "every"),
        ({"every": 0.999}, "every"),
        ({"every": timedelta(days=365 * 200)}, "every"),
        ({"every": "soon"}, "every"),
        ({"every": 90, "expression": "* * * * *"}, "every"),
        ({"every": None}, "expression"),
        ({"tz": "Europe/Berlin"}, "tz"),
        ({"expires": timedelta(0)}, "expires"),
        ({"expires": 5 * SECOND, "jitter": 5 * SECOND}, "expires"),
        ({"expires": datetime(2030, 1, 1)}, "expires"),  # noqa: DTZ001
    ],
    ids=str,
)
def test_what_cannot_be_an_interval_is_named(shared_store: Store, change: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shared_store.schedules.put(replace(every(), **change))
    assert caught.value.key == key and shared_store.schedules.list() == []


def test_an_app_defines_intervals(store: Store, clock: ManualClock) -> None:
    app = App(store=store)

    @app.cron(every=90, expires=80)
    def tidy() -> None: ...

    @app.cron(every=timedelta(minutes=2), name="report-often")
    @app.job
    def report() -> None: ...

    app.schedule("report-seldom", "report", every=3600)
    for wrong in ({}, {"expression": "* * * * *", "every": 90}, {"every": 0.5}):
        with pytest.raises(ConfigError):
            app.schedule("wrong", "report", **wrong)
    with pytest.raises(ConfigError, match="every=90 instead of an expression"):
        app.schedule("wrong", "report", "@every 90s")
    app.sync()
    found = {item.name: (item.expression, item.next_at) for item in store.schedules.list()}
    assert found == {
        "tidy": ("every 90 s", T0 + 90 * SECOND),
        "report-often": ("every 120 s", T0 + 2 * MINUTE),
        "report-seldom": ("every 3600 s", T0 + HOUR),
    }
    assert store.schedules.get("tidy").expires == 80 * SECOND


def test_a_row_that_makes_no_sense_is_paused(store: Store, clock: ManualClock) -> None:
    """An expression that is the text of an interval, without the interval."""
    store.schedules.put(every())
    store.schedules.put(new("cron", "* * * * *"))
    table = "windlass_schedule" if store.db.dialect == "sqlite" else "windlass.schedule"
    with store.db.effect(5) as tx:
        tx.connection.execute(f"UPDATE {table} SET every = NULL WHERE name = 'tidy'")
    clock.advance(90)
    store.schedules.fire_due()
    assert store.schedules.get("tidy").state == "paused" and store.schedules.get("cron").state == "active"
