"""The server that is fuzzed: an API on a database with something of everything, whose streams and waits end soon."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.api.fuzz.seeds import seeded
from tests.waiting import PATIENCE
from windlass import App, Context
from windlass.api import ApiSettings, create_api
from windlass.api.access.caller import Caller
from windlass.api.server import ApiServer
from windlass.api.streams.open_streams import OpenStream, OpenStreams
from windlass.model import NewSchedule

STREAM_TIME = 0.02
"""Seconds after which a stream ends: a client that reads to the end would read for ever."""


class ShortStreams(OpenStreams):
    """Streams that end soon after their first event."""

    def open(self, caller: Caller) -> OpenStream:
        made = super().open(caller)
        asyncio.get_running_loop().call_later(STREAM_TIME, made.over.set)
        return made


@dataclass(frozen=True)
class Served:
    """A server, its OpenAPI document with values that exist, and the token of an administrator."""

    url: str
    document: dict[str, Any]
    token: str


@contextmanager
def served(url: str, **options: Any) -> Iterator[Served]:
    """Serve an API on a new database."""
    with _filled(url) as app:
        api = create_api(app, settings=ApiSettings(max_wait=1, read_timeout=PATIENCE), **options)
        api.state.streams = ShortStreams(1000)
        token = app.tokens.create("fuzz", ["admin"]).text
        with ApiServer(api) as server:
            server.start()
            yield Served(server.url, seeded(api.openapi(), app, token), token)


@contextmanager
def _filled(url: str) -> Iterator[App]:
    """An app with jobs in every state, an instance, a schedule, a rule with an open fan-in, an operation and a pause."""
    app = App(url)
    sites = app.pipeline("sites")

    @sites.phase("fetch")
    def fetch(url: str, ctx: Context) -> str:
        ctx.put_output("headers", {"Content-Type": "text/html"})
        return f"text of {url}"

    @sites.phase("store")
    def store(url: str, ctx: Context) -> int:
        return len(ctx.output("fetch", str))

    @app.job
    def welcome(user: str = "", number: int = 0) -> str:
        return f"hello {user}"

    @app.job
    def broken(user: str = "") -> None:
        raise ValueError("no such user")

    @app.job
    def summary(user: str) -> None: ...

    app.when_all(["welcome", "broken"], create="summary", key=["args.user"], name="both")
    with app:
        worker = app.worker()
        worker.start()
        try:
            for job in (
                app.enqueue("sites", url="https://a.example"),
                app.enqueue("welcome", user="anna"),
                app.kind("broken").options(max_attempts=1).enqueue(),
            ):
                job.wait(timeout=PATIENCE)
        finally:
            worker.stop()
        app.store.join(info={"phases": ["welcome"], "host": "h", "pid": 1}, lease=timedelta(days=1))
        app.store.schedules.put(NewSchedule(name="nightly", kind="welcome", expression="0 2 * * *"))
        app.kind("welcome").options(delay=3600).enqueue(user="later")
        app.jobs.cancel(app.enqueue("welcome", user="bert").id, "ordered twice")
        app.enqueue("welcome", user="carl")
        app.phases.pause("sites:store", "maintenance")
        app.operations.wait(app.jobs.retry_many("kind:broken", reason="mended").id, timeout=PATIENCE)
        yield app
