"""Callers that accept an age share reads, and only with callers who may see the same; an act makes what was read before too old for its caller."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from tests.api.access.asgi import Reply, call
from tests.api.conftest import by_header
from tests.waiting import PATIENCE
from windlass import App
from windlass.api import create_api
from windlass.api.access.gathered import Gathered
from windlass.api.middleware.shared_reads import Reads

pytestmark = pytest.mark.one_database
POLLED = {
    "/v1/overview": 10,
    "/v1/failures": 10,
    "/v1/schedules": 15,
    "/v1/audit": 15,
    "/v1/pipelines": 60,
    "/v1/deploys": 60,
    "/v1/doctor": 60,
}
"""What the first page of the dashboard reads again, and every how many seconds."""
BOTH = asyncio.gather


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as made:

        @made.job
        def welcome(user: str = "") -> str:
            return user

        yield made


@pytest.fixture
def counted(app: App) -> Counter[str]:
    """The reads of the database, by verb."""
    found: Counter[str] = Counter()
    read = app.store.db.read

    def count(verb: str, **given: Any) -> Any:
        found[verb] += 1
        return read(verb, **given)

    app.store.db.read = count  # type: ignore[method-assign]
    return found


@pytest.fixture
def api(app: App, clock: Clock) -> FastAPI:
    made = create_api(app, authenticate=by_header)
    made.state.reads = Reads(now=clock)
    return made


async def ask(
    api: FastAPI, path: str, who: str = "boss", age: int | None = 10, method: str = "GET", **more: Any
) -> Reply:
    accepted = {} if age is None else {"Cache-Control": f"max-age={age}"}
    return await call(api, method, path, {"X-Caller": who, **accepted}, **more)


async def _boards(api: FastAPI, clock: Clock, count: int, seconds: int) -> None:
    """So many boards, opened at different moments, poll for some seconds."""
    due = [{path: board * every / count for path, every in POLLED.items()} for board in range(count)]
    end = clock.seconds + seconds
    begun = clock.seconds
    while clock.seconds < end:
        for board in due:
            for path, at in board.items():
                if clock.seconds - begun >= at:
                    assert (await ask(api, path, age=POLLED[path])).status == 200
                    board[path] = clock.seconds - begun + POLLED[path] + 0.01
        clock.seconds += 0.5


def test_twenty_boards_read_the_database_as_often_as_one(
    api: FastAPI, clock: Clock, counted: Counter[str]
) -> None:
    sums = []
    for count in (1, 20):
        asyncio.run(_boards(api, clock, count, 60))
        clock.seconds += 1000
        sums.append(counted.total())
        counted.clear()
    one, many = sums
    assert one > 20
    assert many == pytest.approx(one, rel=0.1)


def test_callers_of_other_scopes_and_roles_get_their_own(api: FastAPI, app: App) -> None:
    async def both() -> None:
        body = {"kind": "welcome", "arguments": {"user": "secret-of-acme"}}
        made = await ask(api, "/v1/jobs", "anna@acme", method="POST", body=body)
        assert made.status == 202
        who = ("anna@acme", "anna@other", "bert@acme", "anna@acme view", "boss")
        for _ in range(2):  # at once, and then from what was kept
            found = await BOTH(*(ask(api, "/v1/jobs", one) for one in who for _ in range(2)))
            shown = [len(one.json()["jobs"]) for one in found]
            assert shown == [1, 1, 0, 0, 0, 0, 1, 1, 1, 1]
            one = made.json()["id"]
            found = await BOTH(*(ask(api, f"/v1/jobs/{one}", name) for name in who))
            assert [reply.status for reply in found] == [200, 404, 404, 200, 200]
            assert ["secret-of-acme" in reply.text for reply in found] == [True, False, False, False, True]
        names = await BOTH(*(ask(api, "/v1/session", f"{name}@acme") for name in ("anna", "bert")))
        assert [reply.json()["subject"] for reply in names] == ["anna", "bert"]

    asyncio.run(both())


def test_a_caller_reads_its_own_writes(api: FastAPI, clock: Clock) -> None:
    async def write() -> None:
        async def shown(who: str, age: int | None = 10) -> int:
            clock.seconds += 0.1
            return len((await ask(api, "/v1/jobs", who, age)).json()["jobs"])

        assert await shown("boss") == await shown("anna@acme") == 0
        clock.seconds += 0.1
        body = {"kind": "welcome", "arguments": {}}
        assert (await ask(api, "/v1/jobs", "boss", method="POST", body=body)).status == 202
        assert await shown("boss") == 1
        assert (await ask(api, "/v1/jobs", "anna@acme", method="POST", body=body)).status == 202
        assert await shown("anna@acme") == 1
        assert await shown("boss") == 1, "read before Anna's job, and not yet too old"
        assert await shown("boss", None) == 2, "without an age nothing is shared"
        clock.seconds += 11
        assert await shown("boss") == 2

    asyncio.run(write())


def test_a_read_that_runs_is_shared_and_an_error_is_not_kept(
    api: FastAPI, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, calls = threading.Event(), threading.Event(), []
    read = app.store.failures.read

    def slow(scope: Any, **given: Any) -> Any:
        calls.append(scope)
        begun.set()
        assert may_end.wait(PATIENCE)
        return read(scope, **given)

    monkeypatch.setattr(app.store.failures, "read", slow)

    async def run() -> None:
        first = asyncio.create_task(ask(api, "/v1/failures"))
        await asyncio.to_thread(begun.wait, PATIENCE)
        others = [asyncio.create_task(ask(api, "/v1/failures")) for _ in range(5)]
        await asyncio.sleep(0.01)
        others[0].cancel()
        may_end.set()
        found = await BOTH(first, *others[1:])
        assert {reply.status for reply in found} == {200}
        wrong = await BOTH(*(ask(api, "/v1/jobs/019a2b3c-4d5e-7f60-8a1b-2c3d4e5f6071") for _ in range(3)))
        assert {reply.status for reply in wrong} == {404}

    asyncio.run(run())
    assert len(calls) == 1
    assert len(api.state.reads._reads) == 1


def test_streams_are_not_held(api: FastAPI) -> None:
    async def run() -> None:
        found = await BOTH(*(ask(api, "/v1/events", until="overview", listen=0) for _ in range(2)))
        assert all("overview" in reply.text for reply in found)

    asyncio.run(run())


def test_a_token_is_read_again_after_the_age_that_a_request_accepts(clock: Clock) -> None:
    calls: list[str] = []
    gathered = Gathered(calls.append, now=clock)

    async def run() -> None:
        for _ in range(5):
            await gathered("a", 1.0)
        assert len(calls) == 1
        await gathered("a")
        assert len(calls) == 2, "without an age each is read"
        clock.seconds += 1.1
        await gathered("a", 1.0)
        assert len(calls) == 3

    asyncio.run(run())
