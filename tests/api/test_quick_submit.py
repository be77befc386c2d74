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

from tests.api.conftest import by_header
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.errors import StoreUnreachableError
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

    headers = [(b"x-caller", b"boss"), (b"content-type", b"application/json"), (b"content-length", b"18")]
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "query_string": b"", "headers": headers}
    asyncio.run(api(scope, receive, send))
    assert sent[0]["status"] == 202 and app.jobs.count().count == 1


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, "wrong-host"),
        ({"Host": "jobs.test", "X-Caller": "anna view"}, "forbidden"),
        ({"Host": "jobs.test", "Content-Length": "70000"}, "body-too-large"),
        ({"Host": "JOBS.test:8080"}, None),
    ],
)
def test_every_check_of_a_request_holds_for_the_quick_way(
    app: App, headers: dict[str, str], code: str | None
) -> None:
    settings = ApiSettings(hosts=["Jobs.test"], max_body_bytes=60_000)
    given = {"X-Caller": "boss", "X-Request-ID": "of-the-proxy", **JSON, **headers}
    with TestClient(create_api(app, settings=settings, authenticate=by_header)) as client:
        for way in ({}, BY_ROUTE):
            found = client.post("/v1/jobs", content=json.dumps(ONE), headers={**given, **way})
            assert (found.json().get("code"), found.headers["X-Request-ID"]) == (code, "of-the-proxy")
    assert app.jobs.count().count == (0 if code else 2)


def test_an_error_of_the_store_is_a_problem_and_nothing_is_submitted_again(
    app: App, boss: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def away(*jobs: object) -> None:
        asked.append(jobs)
        raise StoreUnreachableError("no connection", is_unsent=False)

    monkeypatch.setattr("windlass.submit.submitter.Submitter.submit_async", away)
    found = boss.post("/v1/jobs", json=ONE)
    assert (found.status_code, len(asked)) == (503, 1)
    assert found.json()["request_id"] == found.headers["X-Request-ID"] and "Retry-After" in found.headers
