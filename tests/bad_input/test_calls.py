"""Lists of calls with a bad one among them: the message says which, and nothing is enqueued."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from windlass import App
from windlass.errors import PayloadError, WindlassError


@pytest.fixture
def app(sqlite_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{sqlite_path}") as app:
        yield app


def many(kind: Any, calls: list[Any]) -> Any:
    return kind.enqueue_many(calls)


def generated(kind: Any, calls: list[Any]) -> Any:
    return kind.enqueue_many(call for call in calls)


def in_transaction(kind: Any, calls: list[Any]) -> Any:
    path = kind._app.url.removeprefix("sqlite:///")
    kind._app.store.now()  # makes the file
    connection = sqlite3.connect(path)
    connection.execute("BEGIN")
    try:
        return kind.enqueue_many_in(connection, calls)
    finally:
        connection.close()


GOOD: dict[str, Any] = {"to": "a@b.c"}
EXAMPLE = "give a mapping of arguments, for example {'to': ..., 'copies': ...}"


@pytest.mark.parametrize("enqueue", [many, generated, in_transaction])
@pytest.mark.parametrize(
    ("bad", "error", "told"),
    [
        ("a", PayloadError, f"calls of send cannot be stored: calls[1] is a str; {EXAMPLE}"),
        (7, PayloadError, f"calls of send cannot be stored: calls[1] is an int; {EXAMPLE}"),
        ([("to", "x")], PayloadError, f"calls of send cannot be stored: calls[1] is a list; {EXAMPLE}"),
        ({1: "x"}, PayloadError, f"calls[1] has keys that are no text; {EXAMPLE}"),
        ({}, PayloadError, "calls[1]: args of send cannot be stored: args.to is missing; "),
        ({"to": "x", "copis": 2}, PayloadError, "args.copis is not a parameter of the handler; did you mean"),
        (
            {"to": "x", "limit_key": "k"},
            PayloadError,
            "it is an option: send.options(limit_key=...).enqueue(...)",
        ),
    ],
    ids=str,
)
def test_a_bad_call_is_named_with_its_place(
    app: App,
    enqueue: Callable[[Any, list[Any]], Any],
    bad: Any,
    error: type[WindlassError],
    told: str,
) -> None:
    def send(to: str, copies: int = 1) -> None: ...

    send.__module__, send.__qualname__ = "tests", "send"
    kind = app.job(send)
    with pytest.raises(error) as caught:
        enqueue(kind, [GOOD, bad, GOOD])
    message = str(caught.value).replace("tests.send", "send")
    assert told in message and "calls[1]" in message
    assert app.store.jobs.list().jobs == []


def test_rows_of_a_database_are_calls(app: App) -> None:
    @app.job
    def send(to: str, copies: int = 1) -> None: ...

    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT 'a@b.c' AS 'to', 2 AS copies").fetchall()
    assert len(send.enqueue_many(rows)) == 1
