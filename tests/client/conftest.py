"""A server with an API, a store and a worker, on a free port of this process: one for the tests of a module."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.waiting import PATIENCE, eventually
from windlass import App, open_store
from windlass.api import ApiSettings, create_api
from windlass.api.access.caller import Caller
from windlass.client import Client
from windlass.control.actor import ADMIN
from windlass.model.principal import Principal
from windlass.retry import fixed

TOKENS = {
    "token-of-the-boss": frozenset({"view", "view-payload", "submit", "operate", "edit", "admin"}),
    "token-of-a-viewer": frozenset({"view"}),
}


async def by_token(request: Request) -> Caller | None:
    """The caller whose token a request has."""
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if token not in TOKENS:
        return None
    who = Principal(token.removeprefix("token-of-"), roles=frozenset({ADMIN}))
    return Caller(who, TOKENS[token], "bearer")


Fault = Callable[[Scope, Send], Any]


@dataclass
class Faults:
    """What happens to the next requests, instead of or behind the API; and the requests that came."""

    app: ASGIApp
    seen: list[Scope] = field(default_factory=list)
    next: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = ""
        if scope["type"] == "http":
            self.seen.append(scope)
            fault = self.next.pop(0) if self.next else ""
        if fault == "busy":
            headers = [(b"retry-after", b"0"), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": b"later"})
        elif fault == "lost":  # the request is served, and its response never arrives

            async def swallow(message: Any) -> None: ...

            await self.app(scope, receive, swallow)
            headers = [(b"content-length", b"100")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send(
                {"type": "http.response.body", "body": b"{"}
            )  # the server closes a response that is too short
        elif fault == "cut":  # the connection breaks behind the first event

            async def cut(message: Any) -> None:
                await send(message)
                if b"data: " in message.get("body", b""):
                    raise ConnectionError("cut by the test")

            with suppress(ConnectionError):
                await self.app(scope, receive, cut)
        elif fault == "html":
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]}
            )
            await send({"type": "http.response.body", "body": b"<html>"})
        else:
            await self.app(scope, receive, send)

    def headers(self, name: str) -> list[str]:
        """The values that a header had in the requests so far."""
        return [
            value.decode()
            for scope in self.seen
            for key, value in scope["headers"]
            if key.decode().lower() == name.lower()
        ]


@dataclass
class Server:
    """The server of a module."""

    url: str
    app: App
    faults: Faults
    database: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path: Path = tmp_path_factory.mktemp("client") / "jobs.db"
    with open_store(f"sqlite:///{path}") as store:
        app = App(store=store)

        @app.job
        def double(number: int) -> int:
            logging.getLogger("tests.client").info("doubles %s", number)
            return 2 * number

        @app.job(retry=fixed(1))
        def fail(why: str = "bad row") -> None:
            raise ValueError(why)

        @app.job
        def idle(number: int = 0) -> None: ...

        faults = Faults(create_api(app, settings=ApiSettings.of(app.config), authenticate=by_token))
        config = uvicorn.Config(
            faults, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="off"
        )
        served = uvicorn.Server(config)
        thread = threading.Thread(target=served.run, name="tests-client-server")
        thread.start()
        engine = app.worker(heartbeat=0.2, phases=["double", "fail"])
        engine.start()
        try:
            eventually(lambda: served.started, lambda: "the server did not start")
            port = served.servers[0].sockets[0].getsockname()[1]
            yield Server(f"http://127.0.0.1:{port}", app, faults, f"sqlite:///{path}")
        finally:
            engine.stop()
            served.should_exit = True
            thread.join()
            app.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """A client that may do everything."""
    server.faults.seen.clear()
    server.faults.next.clear()
    with Client(server.url, token="token-of-the-boss", timeout=PATIENCE) as made:
        yield made
