"""Calls an ASGI application without a client, and reads no more than the beginning of a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from tests.waiting import PATIENCE
from windlass.api.access.dependencies import roles_needed

OPEN = {
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/login"),
    ("GET", "/login.js"),
    ("POST", "/login"),
    ("POST", "/v1/session"),
}
"""The routes that need no caller: probes, and signing in."""


@dataclass(frozen=True)
class Reply:
    status: int
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


def routes(api: FastAPI) -> Iterator[tuple[str, APIRoute]]:
    """Every method of every route, as the router has them."""
    for route in _each(api.routes):
        assert isinstance(route, APIRoute), f"{route} is no route of the API: give it a case of its own"
        for method in route.methods or ():
            yield method, route


def _each(found: Iterable[Any]) -> Iterator[Any]:
    """Routes, and those of routers that newer releases of FastAPI keep apart."""
    for route in found:
        router = getattr(route, "original_router", None)
        yield from [route] if router is None else _each(router.routes)


def role_of(route: APIRoute) -> list[str | None]:
    """The roles that a route declares."""
    return sorted(set(roles_needed(route.dependant)), key=str)


async def call(
    api: FastAPI,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    query: str = "",
    until: str = "data: ",
    listen: float = 1.5,
) -> Reply:
    """Send a request; the reply of a stream is what came until it had said ``until``, and the ``listen`` seconds behind that."""
    content = b"" if body is None else json.dumps(body).encode()
    given = {"host": "127.0.0.1:8080", "content-length": str(len(content)), **(headers or {})}
    if body is not None:
        given.setdefault("content-type", "application/json")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("10.0.0.7", 50_000), "server": ("127.0.0.1", 8080), "state": {},
    }  # fmt: skip
    status, parts, is_stream, said, over = 0, b"", False, asyncio.Event(), asyncio.Event()
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status, parts, is_stream
        if message["type"] == "http.response.start":
            status = message["status"]
            is_stream = (b"content-type", b"text/event-stream; charset=utf-8") in message["headers"]
        else:
            parts += message.get("body", b"")
        if is_stream and until.encode() in parts:
            said.set()

    task = asyncio.ensure_future(api(scope, receive, send))
    waits = asyncio.ensure_future(said.wait())
    await asyncio.wait({task, waits}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        await asyncio.wait({task}, timeout=listen)
    waits.cancel()
    over.set()
    if not task.done():
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return Reply(status, parts.decode("utf-8", "replace"))
