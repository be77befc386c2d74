"""``windlass schedules`` on real databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Windlass
from tests.servers.plugin import FreshPostgres
from windlass.clock import ManualClock
from windlass.features import Store, open_store
from windlass.model import Missed, NewSchedule


@pytest.fixture(params=["sqlite", "postgres"])
def store(
    request: pytest.FixtureRequest, sqlite_path: Path, fresh_postgres: FreshPostgres
) -> Iterator[Store]:
    """A database with three schedules: one by hand, one of code, one whose code is gone."""
    url = f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres()
    clock = ManualClock()
    with open_store(url, clock=clock) as made:
        made.upkeep.maintain()
        code = [
            NewSchedule(
                name=name, kind="report", expression="30 2 * * *", tz="Europe/Berlin", source=f"shop:{name}"
            )
            for name in ("nightly", "vanished")
        ]
        made.schedules.define(code, ["shop"])
        made.schedules.define(code[:1], ["shop"])
        made.schedules.put(
            NewSchedule(
                name="sweep", kind="sweep", expression="*/5 * * * *", args={"n": 1}, missed=Missed.ONCE, cap=7
            )
        )
        clock.advance(timedelta(minutes=21))
        made.schedules.fire_due()
        yield made


@pytest.fixture
def schedules(store: Store, windlass: Windlass) -> Windlass:
    """``windlass schedules ARGUMENTS`` on that database."""
    return lambda *arguments: windlass("schedules", *arguments, "--url", str(store.options["url"]))


def test_ls_shows_every_schedule_and_what_it_does(schedules: Windlass) -> None:
    answer = schedules("ls", "-o", "json")
    assert answer.code == 0
    assert [(row["name"], row["state"]) for row in answer.json()] == [
        ("nightly", "active"),
        ("sweep", "active"),
        ("vanished", "gone"),
    ]
    sweep = answer.json()[1]
    assert sweep["next_at"] == "2026-01-01T00:25:00+00:00" and sweep["last_at"] == "2026-01-01T00:20:00+00:00"
    assert sweep["skipped"] == 3 and answer.json()[2]["next_at"] is None
    lines = schedules("ls").out.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "EXPRESSION", "TZ", "STATE", "NEXT_AT", "LAST_AT", "SKIPPED"]
    assert len(lines) == 4
    assert schedules("ls", "-o", "csv").out.startswith("name,kind,")
    assert len([json.loads(line) for line in schedules("ls", "-o", "jsonl").out.splitlines()]) == 3


def test_show_tells_all_of_one(schedules: Windlass, store: Store) -> None:
    (record,) = schedules("show", "sweep", "--next", "2", "-o", "json").json()
    assert record["args"] == {"n": 1} and record["missed"] == "once" and record["cap"] == 7
    assert record["next"] == ["2026-01-01T00:25:00+00:00", "2026-01-01T00:30:00+00:00"]
    (tick,) = store.schedules.ticks("sweep")
    assert record["ticks"] == [{"at": "2026-01-01T00:20:00+00:00", "job": tick.job_id, "covers": 4}]
    text = schedules("show", "sweep").out
    assert "*/5 * * * *" in text and "stands for 4" in text and '{"n": 1}' in text
    night = schedules("show", "nightly").out
    assert "2026-01-01T02:30:00+01:00" in night, "as clocks in Berlin show it"
    assert "next " not in schedules("show", "vanished").out.replace("next_at", "")


def test_pause_resume_and_run(schedules: Windlass, store: Store) -> None:
    paused = schedules("pause", "sweep", "--reason", "the disk is full")
    assert (paused.code, paused.out, paused.err) == (0, "", "sweep is paused\n")
    assert store.schedules.get("sweep").pause_reason == "the disk is full"
    assert "the disk is full" in schedules("show", "sweep").out
    made = schedules("run", "sweep", "-o", "json").json()
    assert store.jobs.get(made[0]["job"]).args == {"n": 1}
    assert schedules("run", "nightly").out.splitlines()[1] in {job.id for job in store.jobs.list().jobs}
    resumed = schedules("resume", "sweep")
    assert resumed.code == 0 and "next at" in resumed.err
    assert schedules("resume", "sweep").err == "sweep was not paused\n"
    assert store.schedules.get("sweep").state == "active"
    schedules("pause", "vanished")
    assert "whose code defines it" in schedules("resume", "vanished").err


def test_a_reason_cannot_move_the_cursor(schedules: Windlass, store: Store) -> None:
    store.schedules.pause("sweep", "\x1b]0;pwn\x07\x1b[2Jgone")
    assert "\\x1b]0;pwn\\x07\\x1b[2Jgone" in schedules("show", "sweep").out


def test_rm_removes_and_says_what_comes_back(schedules: Windlass, store: Store) -> None:
    answer = schedules("rm", "sweep", "vanished", "nightly")
    assert answer.code == 0 and store.schedules.list() == []
    assert answer.err.splitlines() == [
        "sweep is removed",
        "vanished is removed",
        "nightly is removed; it comes back with shop:nightly",
    ]


def test_rm_of_one_that_is_none_removes_nothing(schedules: Windlass, store: Store) -> None:
    answer = schedules("rm", "sweep", "sweeep")
    assert answer.code == 3 and "did you mean sweep?" in answer.err
    assert len(store.schedules.list()) == 3


@pytest.mark.parametrize("verb", ["show", "pause", "resume", "run", "rm"])
def test_an_unknown_name_ends_with_3(schedules: Windlass, verb: str) -> None:
    answer = schedules(verb, "nightli")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err == "error: there is no schedule 'nightli'; did you mean nightly?\n"


def test_a_pause_without_a_reason_ends_with_2(schedules: Windlass) -> None:
    assert schedules("pause", "sweep", "--reason", " ").code == 2


def test_a_file_that_is_not_there_is_not_made(windlass: Windlass, sqlite_path: Path) -> None:
    answer = windlass("schedules", "ls", "--url", f"sqlite:///{sqlite_path}")
    assert answer.code == 1 and "windlass db migrate" in answer.err and not sqlite_path.exists()


def test_an_interval_is_shown_as_one(schedules: Windlass, store: Store) -> None:
    store.schedules.put(NewSchedule(name="often", kind="sweep", every=90, expires=timedelta(seconds=60)))
    found = {row["name"]: row for row in schedules("ls", "-o", "json").json()}
    assert found["often"]["expression"] == "every 90 s" and "every 90 s" in schedules("ls").out
    (shown,) = schedules("show", "often", "--next", "2", "-o", "json").json()
    assert (shown["every_seconds"], shown["expires_seconds"]) == (90.0, 60.0)
    assert schedules("show", "sweep", "-o", "json").json()[0]["every_seconds"] is None
    assert shown["next"] == ["2026-01-01T00:22:30+00:00", "2026-01-01T00:24:00+00:00"]
