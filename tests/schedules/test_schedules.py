"""Schedules are defined, by code or by callers, changed, paused, resumed, run by hand and removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import every_job
from tests.schedules.scheduled import DAY, MINUTE, T0, code, dues, minutes, new
from windlass.clock import ManualClock
from windlass.errors import (
    ConfigError,
    PayloadError,
    ScheduleConflictError,
    ScheduleNotFoundError,
    WindlassError,
)
from windlass.features import Store
from windlass.model import Defined, Json, Missed, State

# ------------------------------------------------------------------------------------------------------------ defining


def test_a_schedule_is_stored_with_all_it_was_given(store: Store, clock: ManualClock) -> None:
    given = new(
        expression=" 30  6 * * mon",
        tz="Europe/Berlin",
        args={"county": "Ε", "n": [1, None]},
        phase="work:first",
        missed=Missed.ALL,
        cap=7,
        jitter=timedelta(seconds=2.5),
        priority=8,
        max_attempts=4,
        correlation_id="tidying",
        due_as="due",
    )
    found = store.schedules.put(given)
    assert store.schedules.get("tidy") == found and store.schedules.list() == [found]
    for name in (
        "name",
        "kind",
        "phase",
        "tz",
        "missed",
        "cap",
        "jitter",
        "priority",
        "max_attempts",
        "due_as",
    ):
        assert getattr(found, name) == getattr(given, name)
    assert found.correlation_id == "tidying" and found.args == given.args
    assert found.expression == "30 6 * * mon" and found.source == "api"
    assert (found.generation, found.skipped, found.state) == (1, 0, "active")
    assert found.created_at == found.updated_at == clock.now()
    assert found.next_at == datetime(2026, 1, 5, 5, 30, tzinfo=UTC)
    assert (found.last_at, found.last_job, found.paused_at, found.pause_reason, found.gone_at) == (None,) * 5
    plain = store.schedules.put(new("plain"))
    assert (plain.phase, plain.args, plain.missed, plain.cap) == ("work", {}, Missed.ONCE, 100)
    assert [item.name for item in store.schedules.list()] == ["plain", "tidy"]


def test_the_same_definition_again_changes_nothing(store: Store, clock: ManualClock) -> None:
    first = store.schedules.put(new(args={"a": 1, "b": 2}))
    clock.advance(7 * MINUTE)
    assert store.schedules.put(new(expression="*/5  * * * *", args={"b": 2, "a": 1})) == first
    assert store.schedules.get("tidy").next_at == T0 + 5 * MINUTE, "a tick that is due stays due"


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"},
        {"phase": "other"},
        {"args": {"n": 1}},
        {"missed": Missed.SKIP},
        {"cap": 5},
        {"jitter": timedelta(seconds=1)},
        {"priority": 1},
        {"max_attempts": 9},
        {"correlation_id": "c"},
        {"due_as": "at"},
        {"source": "shop:tidy"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_definition_is_a_new_generation_and_loses_no_tick(
    store: Store, clock: ManualClock, change: dict[str, Any]
) -> None:
    other = store.schedules.put(new("other"))
    before = store.schedules.put(new())
    clock.advance(7 * MINUTE)
    after = store.schedules.put(replace(new(), **change))
    for name, value in change.items():
        assert getattr(after, name) == value
    assert (after.generation, after.created_at, after.updated_at) == (2, before.created_at, clock.now())
    assert after.next_at == before.next_at, "the times are the same, and one of them is due"
    assert store.schedules.get("other") == other


@pytest.mark.parametrize(
    "change", [{"expression": "*/15 * * * *"}, {"tz": "Asia/Kathmandu"}], ids=["expression", "tz"]
)
def test_other_times_count_from_now_on(store: Store, clock: ManualClock, change: dict[str, Any]) -> None:
    store.schedules.put(new("other"))
    store.schedules.put(new())
    clock.advance(17 * MINUTE)
    after = store.schedules.put(replace(new(), **change))
    assert after.next_at is not None and after.next_at > clock.now() and after.generation == 2
    assert dues(store.schedules.fire_due()) == minutes(15), "of the other one"


def test_a_change_leaves_a_pause_as_it_is(store: Store) -> None:
    store.schedules.put(new())
    store.schedules.pause("tidy", "for now")
    for changed in (new(args={"n": 1}), new(expression="* * * * *")):
        after = store.schedules.put(changed)
        assert after.state == "paused" and after.next_at is None and after.pause_reason == "for now"
    assert store.schedules.resume("tidy")
    assert store.schedules.get("tidy").next_at == T0 + MINUTE


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"kind": "no kind"}, "kind"),
        ({"phase": "ph ase"}, "phase"),
        ({"expression": "0 0 30 2 *"}, "expression"),
        ({"expression": "never"}, "expression"),
        ({"tz": "Europe/Berlim"}, "tz"),
        ({"missed": "twice"}, "missed"),
        ({"cap": 0}, "cap"),
        ({"cap": 1001}, "cap"),
        ({"jitter": timedelta(seconds=-1)}, "jitter"),
        ({"jitter": timedelta(days=2)}, "jitter"),
        ({"jitter": 5}, "jitter"),
        ({"priority": 10}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"correlation_id": ""}, "correlation_id"),
        ({"due_as": "not a name"}, "due_as"),
        ({"source": ""}, "source"),
        ({"args": [1]}, "args"),
        ({"args": Json("[1]"), "due_as": "at"}, "args"),
    ],
)
def test_what_cannot_be_a_schedule_is_named_and_nothing_is_stored(
    shared_store: Store, change: dict[str, Any], key: str
) -> None:
    bad = replace(new(), **change)
    for attempt in (
        lambda: shared_store.schedules.put(bad),
        lambda: shared_store.schedules.define([new("good"), bad]),
    ):
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert caught.value.key == key
    with pytest.raises(PayloadError):
        shared_store.schedules.put(new(args={"when": object()}))
    assert shared_store.schedules.list() == []


# --------------------------------------------------------------------------------------------------- defined by code


def test_code_adds_changes_and_lets_go(store: Store, clock: ManualClock) -> None:
    """What vanished from the code is marked, not deleted, and stops; what never was the code's is left alone."""
    assert store.schedules.define([code("a"), code("b")], ["shop.jobs"]) == Defined(("a", "b"))
    store.schedules.put(new("by-hand"))
    store.schedules.define([code("elsewhere", module="other.jobs")], ["other.jobs"])
    clock.advance(MINUTE)
    before = store.schedules.get("a")
    told = store.schedules.define([code("b", "*/7 * * * *"), code("c")], ["shop.jobs", "shop.more"])
    assert told == Defined(("c",), ("b",), ("a",))
    gone = store.schedules.get("a")
    assert (gone.state, gone.gone_at, gone.next_at) == ("gone", clock.now(), None)
    assert replace(gone, gone_at=None, next_at=before.next_at) == before
    assert {item.name: item.state for item in store.schedules.list()} == {
        "a": "gone",
        "b": "active",
        "by-hand": "active",
        "c": "active",
        "elsewhere": "active",
    }
    clock.advance(10 * MINUTE)
    assert {item.schedule for item in store.schedules.fire_due()} == {"b", "by-hand", "c", "elsewhere"}


def test_code_that_is_back_fires_again_from_now_on(store: Store, clock: ManualClock) -> None:
    store.schedules.define([code("a")], ["shop.jobs"])
    store.schedules.define([], ["shop.jobs"])
    gone = store.schedules.get("a")
    clock.advance(22 * MINUTE)
    assert store.schedules.define([], ["shop.jobs"]) == Defined(), "it is gone already"
    assert store.db.run("schedule.mark_gone", names=["a"]) == []
    assert store.schedules.get("a") == gone
    assert store.schedules.define([code("a")], ["shop.jobs"]) == Defined((), ("a",))
    back = store.schedules.get("a")
    assert (back.state, back.next_at, back.generation) == ("active", T0 + 25 * MINUTE, 2)


def test_code_that_says_the_same_writes_nothing(store: Store, opened: Callable[[], Store]) -> None:
    """Every worker says it at its start."""
    both = [code("a"), code("b")]
    store.schedules.define(both, ["shop.jobs"])
    before = rows(store, "schedule")
    assert opened().schedules.define(both, ["shop.jobs"]) == Defined()
    assert opened().schedules.define([], []) == Defined()
    assert rows(store, "schedule") == before


def test_a_tick_that_is_due_when_a_worker_starts_is_still_due_then(store: Store, clock: ManualClock) -> None:
    store.schedules.define([code("a")], ["shop.jobs"])
    clock.advance(7 * MINUTE)
    store.schedules.define([code("a"), code("b")], ["shop.jobs"])
    assert dues(store.schedules.fire_due()) == minutes(5)


def test_what_code_defines_is_not_changed_from_outside(store: Store) -> None:
    store.schedules.define([code("a")], ["shop.jobs"])
    with pytest.raises(ScheduleConflictError) as caught:
        store.schedules.put(new("a", "* * * * *"))
    assert caught.value.source == "shop.jobs:a" and "shop.jobs:a" in str(caught.value)
    assert store.schedules.get("a").expression == "*/5 * * * *"
    store.schedules.define([], ["shop.jobs"])
    assert store.schedules.put(new("a", "* * * * *")).source == "api", "gone from the code, the name is free"
    assert store.schedules.define([code("a")], ["shop.jobs"]).changed == ("a",), "and code takes it back"


# ------------------------------------------------------------------------------------------------------------ operators


def test_a_paused_schedule_makes_no_jobs_and_goes_on_with_the_next(store: Store, clock: ManualClock) -> None:
    """Due times of a pause are not missed, whatever the policy."""
    store.schedules.put(new(missed=Missed.ALL))
    other = store.schedules.put(new("other", "@daily"))
    clock.advance(MINUTE)
    paused = store.schedules.pause("tidy", " the disk is full ")
    assert (paused.state, paused.paused_at, paused.pause_reason) == (
        "paused",
        clock.now(),
        "the disk is full",
    )
    clock.advance(30 * MINUTE)
    assert store.schedules.fire_due() == []
    again = store.schedules.pause("tidy", "still full")
    assert (again.paused_at, again.pause_reason) == (paused.paused_at, "still full")
    assert store.schedules.resume("tidy") is True
    assert store.schedules.resume("tidy") is False
    found = store.schedules.get("tidy")
    assert (found.state, found.pause_reason, found.next_at, found.skipped) == (
        "active",
        None,
        T0 + 35 * MINUTE,
        0,
    )
    clock.advance(4 * MINUTE)
    assert dues(store.schedules.fire_due()) == minutes(35)
    assert store.schedules.get("other") == other


def test_a_schedule_that_is_gone_stays_so_when_it_is_resumed(store: Store) -> None:
    store.schedules.define([code("a")], ["shop.jobs"])
    store.schedules.pause("a", "why not")
    store.schedules.define([], ["shop.jobs"])
    assert store.schedules.get("a").state == "gone"
    assert store.schedules.resume("a") and store.schedules.get("a").next_at is None
    store.schedules.define([code("a")], ["shop.jobs"])
    assert store.schedules.get("a").next_at == T0 + 5 * MINUTE


def test_a_resume_is_made_from_the_definition_of_the_moment(store: Store) -> None:
    for name in ("tidy", "other"):
        store.schedules.put(new(name))
        store.schedules.pause(name, "x")
    old = {"name": "tidy", "next_at": T0 + DAY}
    assert not store.db.run("schedule.resume", generation=2, **old)
    assert store.db.run("schedule.resume", generation=1, **old)
    assert not store.db.run("schedule.resume", generation=1, **{**old, "next_at": T0}), "it is not paused"
    assert store.schedules.get("tidy").next_at == T0 + DAY
    assert store.schedules.get("other").state == "paused"


def test_run_now_makes_one_more_job_and_moves_nothing(store: Store, clock: ManualClock) -> None:
    before = store.schedules.put(new(args={"n": 1}, due_as="at", jitter=MINUTE))
    clock.advance(3.5)
    made = store.schedules.run_now("tidy")
    job = store.jobs.get(made.id)
    assert made.created and job.state is State.QUEUED
    assert job.args == {"n": 1, "at": "2026-01-01T00:00:03.500000+00:00"}
    assert job.correlation_id == "tidy@2026-01-01T00:00:03Z"
    assert store.schedules.get("tidy") == before and store.schedules.ticks("tidy") == []
    store.schedules.pause("tidy", "x")
    assert store.schedules.run_now("tidy").created, "by hand it runs all the same"


def test_remove_takes_the_ticks_along_and_leaves_the_jobs(store: Store, clock: ManualClock) -> None:
    store.schedules.put(new())
    other = store.schedules.put(new("other"))
    clock.advance(5 * MINUTE)
    store.schedules.fire_due()
    store.schedules.remove("tidy")
    assert [row["schedule"] for row in rows(store, "tick")] == ["other"]
    assert [item.name for item in store.schedules.list()] == [other.name]
    assert len(every_job(store)) == 2
    with pytest.raises(ScheduleNotFoundError):
        store.schedules.remove("tidy")


@pytest.mark.parametrize("verb", ["get", "pause", "resume", "run_now", "remove"])
def test_a_name_that_is_none_is_said_with_one_that_is_near(store: Store, verb: str) -> None:
    store.schedules.put(new("nightly"))

    def call(name: str) -> WindlassError:
        arguments = (name, "why") if verb == "pause" else (name,)
        with pytest.raises(ScheduleNotFoundError) as caught:
            getattr(store.schedules, verb)(*arguments)
        return caught.value

    assert "did you mean nightly?" in str(call("nightli"))
    assert "windlass schedules ls" in str(call("completely-different"))
    call("not a name \0")
    assert store.schedules.get("nightly").state == "active"


def test_a_pause_needs_a_reason(store: Store) -> None:
    store.schedules.put(new())
    with pytest.raises(ConfigError):
        store.schedules.pause("tidy", "  ")
    assert store.schedules.get("tidy").state == "active"
