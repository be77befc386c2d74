"""Streams: every transition of a job once, also after a cut; many watchers cost one reader; slow and gone clients cost nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.types import Message as Sent

from tests.api.conftest import by_header
from tests.waiting import PATIENCE, eventually
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.api.server import ApiServer
from windlass.api.streams import merged
from windlass.api.streams.open_streams import OpenStreams
from windlass.api.streams.response import EventStream
from windlass.model import JobError
from windlass.store.ids import new_id

pytestmark = pytest.mark.timing
BOSS = {"X-Caller": "boss"}


@pytest.fixture
def app(stores: Any, store_url: str) -> Iterator[App]:
    """An app with the database's own clock."""
    with App(store=stores(store_url)) as made:

        @made.job
        def welcome(user: str = "") -> str:
            return user

        yield made


@pytest.fixture
def server(app: App) -> Iterator[ApiServer]:
    api = create_api(app, settings=ApiSettings(streams=200), authenticate=by_header)
    with ApiServer(api) as made:
        made.start()
        yield made


def get(url: str, **headers: str) -> httpx2.Response:
    return httpx2.get(url, headers={**BOSS, **headers}, timeout=PATIENCE)


class Watcher:
    """A client of a stream: reads events, skips comments."""

    def __init__(self, server: ApiServer, path: str, last: str | None = None) -> None:
        headers = {**BOSS, **({} if last is None else {"Last-Event-ID": last})}
        self._client = httpx2.Client(timeout=PATIENCE, verify=False)  # reads no certificates: many are made
        self._context = self._client.stream("GET", f"{server.url}{path}", headers=headers)
        self.response = self._context.__enter__()
        self._lines = self.response.iter_lines()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        found: dict[str, Any] = {}
        for line in self._lines:
            name, _, value = line.partition(": ")
            if not line and "data" in found:
                yield found
                found = {}
            elif name in ("id", "event"):
                found[name] = value
            elif name == "data":
                found["data"] = json.loads(value)

    def close(self) -> None:
        self._context.__exit__(None, None, None)
        self._client.close()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(app: App, job: str) -> None:
    holder = app.store.join()
    (lease,) = holder.claim("welcome", limit=1)
    assert lease.id == job
    holder.complete(lease, result=1)


def test_each_transition_arrives_once_also_after_cuts_and_on_another_server(
    app: App, server: ApiServer, stores: Any, store_url: str
) -> None:
    job = app.enqueue("welcome").id
    path = f"/v1/jobs/{job}/events"
    other_app = App(store=stores(store_url))
    other_api = create_api(other_app, settings=ApiSettings(), authenticate=by_header)
    with other_app, ApiServer(other_api) as other:
        other.start()
        with Watcher(server, path) as watcher:
            assert watcher.response.headers["Content-Type"].startswith("text/event-stream")
            seen = [next(iter(watcher))]
        holder = app.store.join()
        (lease,) = holder.claim("welcome", limit=1)
        holder.retry_later(lease, JobError(type="KeyError", code="flaky", message="no"), timedelta(0))
        app.store.upkeep.promote()
        run(app, job)
        for turn in range(4):
            with Watcher((other, server)[turn % 2], path, seen[-1]["id"]) as watcher:
                seen.append(next(iter(watcher)))
    assert [one["data"]["type"] for one in seen] == ["created", "started", "retried", "started", "completed"]
    assert seen[-1]["event"] == "job" and seen[-1]["data"]["is_last"]
    again = get(f"{server.url}{path}", **{"Last-Event-ID": seen[-1]["id"]})
    assert again.status_code == 204


def test_a_merged_stream_continues_and_begins_anew_after_a_minute(
    app: App, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = app.enqueue("welcome").id, app.enqueue("welcome").id
    path = f"/v1/events?topics=job:{one},job:{two},overview,phase:welcome"
    seen: dict[str, list[str]] = {one: [], two: []}
    with Watcher(server, path) as watcher:
        events, last = iter(watcher), ""
        kinds: set[str] = set()
        while not all(seen.values()) or kinds != {"job", "overview", "phase"}:
            event = next(events)
            kinds.add(event["event"])
            last = event["id"]
            if event["event"] == "job":
                seen[event["data"]["job"]].append(event["data"]["type"])
    run(app, one)
    with Watcher(server, path, last) as watcher:
        for event in watcher:
            if event["event"] == "job":
                seen[event["data"]["job"]].append(event["data"]["type"])
            if "completed" in seen[one]:
                break
    assert seen == {one: ["created", "started", "completed"], two: ["created"]}
    sent_at, _, positions = last.partition("~")
    old = f"{int(sent_at) - 1000 * int(merged.WINDOW) - 1000}~{positions}"
    for stale in (old, "nonsense", last + "~x"):
        with Watcher(server, path, stale) as watcher:
            events = iter(watcher)
            assert next(events)["event"] == "reset"
            created: set[str] = set()
            while created != {one, two}:
                event = next(events)
                if event["event"] == "job" and event["data"]["type"] == "created":
                    created.add(event["data"]["job"])


def test_unknown_topics_and_jobs_are_refused(app: App, server: ApiServer) -> None:
    for path, status in (
        (f"/v1/jobs/{new_id()}/events", 404),
        (f"/v1/events?topics=job:{new_id()}", 404),
        ("/v1/events?topics=phase:nope", 404),
        ("/v1/phases/nope/events", 404),
        ("/v1/events?topics=weather", 422),
        ("/v1/events?topics=", 422),
        (f"/v1/events?topics={','.join(f'phase:{n}' for n in range(51))}", 422),
    ):
        assert get(f"{server.url}{path}").status_code == status, path
    job = app.enqueue("welcome").id
    refused = get(f"{server.url}/v1/jobs/{job}/events", **{"Last-Event-ID": "x"})
    assert refused.json()["errors"][0]["pointer"] == "header:Last-Event-ID"
    stranger = {"X-Caller": "bert@acme"}
    for path in (f"/v1/jobs/{job}/events", f"/v1/events?topics=job:{job}"):
        assert get(f"{server.url}{path}", **stranger).status_code == 404
    for path in ("/v1/events", "/v1/phases/welcome/events", "/v1/events?topics=phase:welcome"):
        assert get(f"{server.url}{path}", **stranger).status_code == 403


@pytest.mark.slow
@pytest.mark.one_database
def test_a_hundred_watchers_of_one_job_cost_one_reader(
    app: App, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = app.enqueue("welcome").id
    watchers = [Watcher(server, f"/v1/jobs/{job}/events") for _ in range(100)]
    try:
        for watcher in watchers:
            next(iter(watcher))
        counted: list[str] = []
        read = app.store.db.read

        def count(verb: str, **given: object) -> Any:
            counted.append(verb)
            return read(verb, **given)

        monkeypatch.setattr(app.store.db, "read", count)
        began = time.monotonic()
        eventually(lambda: counted.count("watched.jobs") >= 3, "three rounds")
        reads = counted.count("watched.jobs")
        assert reads <= time.monotonic() - began + 2
        assert set(counted) == {"watched.jobs"}
    finally:
        for watcher in watchers:
            watcher.close()


@pytest.mark.one_database
def test_a_caller_has_only_so_many_streams_and_a_client_that_leaves_gives_its_place_back(app: App) -> None:
    api = create_api(app, settings=ApiSettings(streams=1), authenticate=by_header)
    app.enqueue("welcome")
    with ApiServer(api) as server:
        server.start()
        with Watcher(server, "/v1/events"):
            refused = get(f"{server.url}/v1/events")
            assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
        eventually(lambda: not len(api.state.streams), "the place is free")
        with Watcher(server, "/v1/events") as watcher:
            next(iter(watcher))
            server.stop()
            assert list(watcher) is not None
        assert server.has_ended.wait(PATIENCE)


@pytest.mark.one_database
def test_a_slow_reader_is_dropped_and_silence_is_filled() -> None:
    async def events() -> Any:
        yield b"x"
        await asyncio.Event().wait()

    async def watch(patience: float, is_slow: bool) -> tuple[list[bytes], OpenStreams]:
        sent: list[bytes] = []
        streams = OpenStreams(5)
        caller = await by_header(Request({"type": "http", "headers": [(b"x-caller", b"boss")]}))
        assert caller is not None

        async def is_accepted(_age: float) -> bool:
            return True

        response = EventStream(
            events(),
            b"first",
            streams.open(caller),
            streams,
            is_accepted,
            heartbeat=0.01,
            patience=patience,
        )

        async def send(message: Sent) -> None:
            sent.append(message.get("body", b""))
            if is_slow and len(sent) > 2:
                await asyncio.Event().wait()
            if len(sent) > 6:
                streams.end()

        async def receive() -> Sent:
            await asyncio.Event().wait()
            raise AssertionError

        await response({"type": "http"}, receive, send)
        return sent, streams

    sent, streams = asyncio.run(watch(60, is_slow=False))
    assert sent.count(b": still here\n\n") >= 3 and not len(streams)
    sent, streams = asyncio.run(watch(0.05, is_slow=True))
    assert len(sent) == 3 and not len(streams)
