"""Repeats with the same Idempotency-Key: what they get, and what the locks that they meet lead to."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request

from tests.waiting import PATIENCE
from windlass import App
from windlass.api.access.caller import Caller
from windlass.api.idempotency import request_key
from windlass.features import Store
from windlass.idempotency.store import RequestKey
from windlass.model import Enqueued, NewJob, State
from windlass.model.principal import Principal
from windlass.store.jobs.checked import check

BODY = b'{"kind":"welcome","arguments":{"user":"anna"}}'
KEY = {"Idempotency-Key": "once", "Content-Type": "application/json"}
SHORT = 0.2
"""Seconds that a repeat waits here; the lock that it waits for is held until the repeat has ended."""


def post(client: TestClient, **headers: str):
    return client.post("/v1/jobs", content=BODY, headers={**KEY, **headers})


async def key_of(caller: str) -> RequestKey:
    """The key under which the API stores a request of a caller with ``BODY`` and ``KEY``."""

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    headers = [(name.lower().encode(), value.encode()) for name, value in KEY.items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": headers, "query_string": b""}
    scope |= {"server": ("testserver", 80), "scheme": "http", "root_path": ""}
    made = await request_key(Request(scope, receive), Caller(Principal(caller), frozenset(), "function"))
    assert made is not None
    return made


def test_a_repeat_during_the_first_request_is_told_so_and_then_gets_its_response(
    app: App, boss: TestClient
) -> None:
    """The first request holds its key, in an open transaction, until the repeat has its response."""
    holds, ends = threading.Event(), threading.Event()
    keys = app.store.request_keys
    key = asyncio.run(key_of("boss"))

    def respond(made: Sequence[Enqueued]) -> str:
        holds.set()
        assert ends.wait(PATIENCE)
        return f'{{"jobs": [["{made[0].id}", true, false]], "has_ended": false}}'

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(keys.submit, key, check([NewJob(kind="welcome", args={"user": "anna"})]), respond)
        try:
            assert holds.wait(PATIENCE)
            keys.patience = SHORT
            repeat = post(boss)
        finally:
            ends.set()
        (made,) = first.result(PATIENCE).made
    assert (repeat.status_code, repeat.json()["code"]) == (409, "idempotency-key-in-use")
    assert repeat.headers["Retry-After"] == "1"
    after = post(boss)
    assert (after.status_code, after.json()["id"]) == (202, made.id)
    assert app.jobs.count().count == 1


@contextmanager
def locked(url: str, statement: str) -> Iterator[None]:
    """Hold a lock in another session: the lock of a SQLite file, or the one that a statement takes on PostgreSQL."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.close()
        return
    with psycopg.connect(url) as session:
        session.execute(statement)
        yield
        session.rollback()


@pytest.mark.parametrize("table", ["job", "request_key"])
def test_a_lock_that_is_not_the_keys_is_a_busy_database(
    app: App, boss: TestClient, store_url: str, table: str
) -> None:
    post(boss, **{"Idempotency-Key": "earlier"})
    app.store.request_keys.patience = SHORT
    with locked(store_url, f"LOCK TABLE windlass.{table} IN ACCESS EXCLUSIVE MODE"):
        refused = post(boss)
    assert (refused.status_code, refused.json()["code"]) == (503, "store-busy")
    assert refused.headers["Retry-After"] == "1"
    assert post(boss).status_code == 202
    assert app.jobs.count().count == 2


def test_a_repeat_of_a_request_whose_wait_ran_out_is_accepted_as_that_was(app: App, boss: TestClient) -> None:
    first = post(boss, Prefer="wait=1")
    engine = app.worker()
    engine.start()
    try:
        app.handle(first.json()["id"]).wait(PATIENCE)
    finally:
        engine.stop()
    repeat = post(boss, Prefer="wait=60")
    assert first.status_code == repeat.status_code == 202
    assert first.json() == repeat.json()
    assert first.headers["Location"] == repeat.headers["Location"]
    assert "Preference-Applied" not in repeat.headers


@pytest.mark.parametrize("prefer", ["wait=60", "respond-async"])
def test_a_repeat_of_a_request_that_got_its_job_gets_it_too(app: App, boss: TestClient, prefer: str) -> None:
    engine = app.worker()
    engine.start()
    try:
        first = post(boss, Prefer="wait=60")
    finally:
        engine.stop()
    repeat = post(boss, Prefer=prefer)
    assert first.status_code == repeat.status_code == 200
    assert first.json() == repeat.json() and repeat.json()["result"] == "hello anna"
    assert first.headers["Location"] == repeat.headers["Location"]
    app.jobs.delete(first.json()["id"], "no longer needed")
    removed = post(boss, Prefer=prefer)
    assert (removed.status_code, removed.json()["id"]) == (202, first.json()["id"])


def test_only_the_request_that_stored_the_job_waits(app: App, boss: TestClient) -> None:
    first = post(boss)
    repeat = post(boss, Prefer="wait=60")
    assert repeat.json() == first.json() and repeat.status_code == 202
    assert app.jobs.get(first.json()["id"]).state is State.QUEUED


def test_a_wait_of_a_key_ends_after_five_seconds(opened: Callable[[], Store]) -> None:
    assert opened().request_keys.patience == 5.0
