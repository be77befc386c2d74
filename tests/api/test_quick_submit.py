"""Plain submits pass by the framework's routing, and no client can tell: the route of the same address gives the same responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Message

from windlass import App
from windlass.store.ids import new_id

JSON = {"Content-Type": "application/json"}
BY_ROUTE = {"Prefer": "respond-async"}
"""A header that changes nothing but the way."""
ONE: dict[str, Any] = {"kind": "welcome", "arguments": {"user": "anna"}}
BODIES: dict[str, Any] = {
    "plain": ONE,
    "all options": {
        **ONE,
        "priority": 9,
        "delay": 60,
        "expires": 3600,
        "key": "one",
        "correlation_id": "c",
        "headers": {"a": "b"},
        "max_attempts": 3,
    },
    "nulls": {**ONE, "delay": None, "key": None, "after": [], "expires": None},
    "debounced": {**ONE, "debounce": {"key": "d", "wait": 60}},
    "throttled": {**ONE, "throttle": {"key": "t", "period": 60}},
    "unknown kind": {"kind": "nothing"},
    "unknown option": {**ONE, "colour": "red"},
    "wrong type": {**ONE, "priority": "high"},
    "wrong argument": {"kind": "welcome", "arguments": {"number": "x"}},
    "unknown parent": {**ONE, "after": [new_id()]},
    "unknown policy": {**ONE, "after": [{"job": new_id(), "policy": "maybe"}]},
    "two times": {**ONE, "delay": 1, "run_at": "2030-01-01T00:00:00Z"},
    "a list": [ONE],
    "no body": "",
    "no JSON": "{",
    "no UTF-8": b'{"kind":"\xff"}',
    "a lone surrogate": b'{"kind":"\xed\xa0\x80"}',
    "UTF-16": json.dumps(ONE).encode("utf-16"),
    "NUL": {"kind": "wel\0come", "arguments": {"user": "\0"}},
    "the same member twice": '{"kind":"welcome","kind":"welcome"}',
    "deep": '{"kind":"welcome","arguments":' + '{"user":' * 1000 + "1" + "}" * 1001,
    "large": {"kind": "welcome", "arguments": {"user": "x" * 2_000_000}},
}


def seen(response: Any) -> tuple[int, dict[str, str], str]:
    """A response without what differs between any two."""
    names = {"x-request-id", "content-length", "vary"}
    headers = {name: value for name, value in response.headers.items() if name not in names}
    text = response.text
    if response.status_code == 202:
        made = response.json()["id"]
        headers["location"] = headers["location"].replace(made, "ID")
        text = (
            text.replace(made, "ID")
            .replace('"created":false', '"created":true')
            .replace('"replaced":true', '"replaced":false')
        )
    elif text:
        text = json.dumps({**response.json(), "request_id": "", "detail": ""})
    return response.status_code, headers, text


@pytest.mark.parametrize("name", BODIES)
def test_the_quick_way_and_the_route_respond_alike(boss: TestClient, name: str) -> None:
    given = BODIES[name]
    content = given if isinstance(given, str | bytes) else json.dumps(given)
    quick = boss.post("/v1/jobs", content=content, headers=JSON)
    route = boss.post("/v1/jobs", content=content, headers={**JSON, **BY_ROUTE})
    assert seen(quick) == seen(route)
    assert quick.headers["X-Request-ID"] != route.headers["X-Request-ID"]


@pytest.mark.parametrize("caller", ["", "anna@acme view", "anna@acme submit"])
@pytest.mark.parametrize("kind", ["text/plain", "application/JSON; charset=utf-8", "application/x+json", ""])
def test_so_they_do_for_every_caller_and_content_type(
    as_caller: Callable[[str], TestClient], caller: str, kind: str
) -> None:
    client = as_caller(caller or "boss")
    headers = {"Content-Type": kind, "X-Caller": caller} if caller else {"Content-Type": kind}
    if not caller:
        del client.headers["X-Caller"]
    text = json.dumps(ONE)
    quick, route = (
        client.post("/v1/jobs", content=text, headers={**headers, **more}) for more in ({}, BY_ROUTE)
    )
    assert seen(quick) == seen(route)


def test_a_plain_submit_is_not_routed_and_any_other_is(
    app: App, boss: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("routed")

    monkeypatch.setattr("fastapi.routing.solve_dependencies", refuse)
    assert boss.post("/v1/jobs", json=ONE).status_code == 202

    for given in (
        {"json": ONE, "headers": BY_ROUTE},
        {"json": ONE, "headers": {"Idempotency-Key": "k"}},
        {"json": {"kind": 7}},
    ):
        assert boss.post("/v1/jobs", **given).status_code == 500
    assert app.jobs.count().count == 1


def test_a_body_that_comes_in_parts_is_read_as_a_whole(app: App, api: FastAPI) -> None:
    parts = [b'{"kind":', b'"welcome"', b"}"]
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"x-caller", b"boss"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "query_string": b"", "headers": headers}
    asyncio.run(api(scope, receive, send))
    assert sent[0]["status"] == 202 and app.jobs.count().count == 1
