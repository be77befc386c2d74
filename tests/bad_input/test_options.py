"""Options with a slip of the pen: refused where they are given, with what was probably meant."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass import App
from windlass.errors import ConfigError
from windlass.features import open_store
from windlass.store.opening import OPTIONS
from windlass.store.postgres.database import PostgresDatabase
from windlass.store.sqlite.database import SqliteDatabase


@pytest.mark.parametrize(
    ("given", "meant"), [("setings", "settings"), ("max_conections", "max_connections"), ("clok", "clock")]
)
def test_an_unknown_option_of_an_app_is_refused_when_it_is_made(given: str, meant: str) -> None:
    options: dict[str, Any] = {given: 1}
    with pytest.raises(ConfigError, match=rf"option of App = '{given}' .*one of .*; did you mean {meant}\?$"):
        App("sqlite:///jobs.db", **options)


def test_an_option_of_another_database_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"option = 'pooled' .* auto_migrate, busy_timeout, clock"):
        App(f"sqlite:///{tmp_path}/jobs.db", pooled=True).store  # noqa: B018
    with pytest.raises(ConfigError, match=r"did you mean pooled\?"):
        open_store("postgresql://127.0.0.1:1/x", pooledd=True)


@pytest.mark.parametrize(
    ("dialect", "database"), [("sqlite", SqliteDatabase), ("postgres", PostgresDatabase)]
)
def test_the_options_that_are_told_are_those_of_the_database(dialect: str, database: type) -> None:
    taken = inspect.signature(database).parameters.values()
    assert OPTIONS[dialect] == {item.name for item in taken if item.kind is item.KEYWORD_ONLY}


def test_an_unknown_setting_of_a_worker_is_refused_with_the_one_that_was_meant(sqlite_path: Path) -> None:
    with App(f"sqlite:///{sqlite_path}") as app, pytest.raises(ConfigError, match=r"did you mean lease\?"):
        app.worker(leese=1)


def test_an_unknown_option_of_enqueue_is_refused_with_the_one_that_was_meant(sqlite_path: Path) -> None:
    with App(f"sqlite:///{sqlite_path}") as app:

        @app.job
        def send(to: str) -> None: ...

        with pytest.raises(ConfigError, match=r"did you mean priority\?"):
            send.options(prioritty=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("option", "cure"),
    [
        ("attempts", r"retry=windlass\.retry\.exponential\(attempts=\.\.\.\)$"),
        ("max_attempts", r"retry=windlass\.retry\.exponential\(attempts=\.\.\.\)$"),
        ("priority", r"each submission has it: kind\.options\(priority=\.\.\.\)\.enqueue\(\.\.\.\)$"),
        ("procesors", r"did you mean processors\?$"),
    ],
)
def test_an_option_that_no_definition_has_is_refused_with_the_place_that_has_it(
    option: str, cure: str
) -> None:
    app = App("sqlite:///jobs.db")
    options: dict[str, Any] = {option: 3}
    with pytest.raises(ConfigError, match=cure):
        app.job(**options)
    with pytest.raises(ConfigError, match=cure):
        app.pipeline("site").phase("fetch", **options)


@pytest.mark.parametrize(
    ("option", "here"),
    [("countdown", "delay"), ("eta", "run_at"), ("task_id", "id"), ("max_retries", "max_attempts")],
)
def test_an_option_with_the_name_of_another_library_is_refused_with_its_name_here(
    option: str, here: str
) -> None:
    app = App("sqlite:///jobs.db")

    @app.job
    def send(to: str) -> None: ...

    options: dict[str, Any] = {option: 3}
    with pytest.raises(ConfigError, match=f"option = '{option}' .*; it is called {here} here$"):
        send.options(**options)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            {"delay": "1h"},
            "delay = '1h' cannot be used: it must be seconds as a number, or a timedelta, from zero",
        ),
        (
            {"delay": -1},
            "delay = -1 cannot be used: it must be seconds as a number, or a timedelta, from zero",
        ),
        ({"delay": 1e300}, "to a hundred years"),
        ({"key": 7}, "key = 7 cannot be used: it must be a text such as 'order-7', or a Key"),
        ({"debounce": 7}, "debounce = 7 cannot be used: it must be a Debounce"),
        (
            {"delay": 10, "expires": 5},
            "expires = '0:00:05' cannot be used: it must be after the job is due (0:00:10, by delay",
        ),
    ],
    ids=str,
)
def test_an_option_of_enqueue_says_everything_that_is_allowed(
    sqlite_path: Path, option: dict[str, Any], told: str
) -> None:
    with App(f"sqlite:///{sqlite_path}") as app:

        @app.job
        def send(to: str) -> None: ...

        with pytest.raises(ConfigError) as caught:
            send.options(**option).enqueue("a@b.c")
        assert told in str(caught.value)
        assert app.store.jobs.list().jobs == []


def test_a_name_in_place_of_an_exception_type_is_shown_whole() -> None:
    with pytest.raises(
        ConfigError, match="retry on = 'ConnectionError' cannot be used: it must be an exception type"
    ):
        windlass.retry.fixed(attempts=3, on="ConnectionError")  # type: ignore[arg-type]


def test_a_configuration_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"config = .* a mapping of settings, such as"):
        App(config=["worker.lease"]).url  # type: ignore[arg-type]  # noqa: B018
