"""Every kind of bad input gets a problem of its own type with a pointer, and changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Message

from tests.api.conftest import by_header
from windlass import App
from windlass.api import ApiSettings, create_api

MISSING = "019a2b3c-0000-7000-8000-000000000000"
DEEP = "[" * 1000 + "]" * 1000


def job(**more: Any) -> dict[str, Any]:
    return {"json": {"kind": "welcome", **more}}


def text(content: str | bytes, kind: str = "application/json") -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": kind}}


POST = [
    ("a wrong type", "/v1/jobs", job(priority="9"), 422, "invalid-request", "#/priority"),
    ("a number out of range", "/v1/jobs", job(priority=10), 422, "invalid-request", "#/priority"),
    ("true as a number", "/v1/jobs", job(max_attempts=True), 422, "invalid-request", "#/max_attempts"),
    ("a time without a zone", "/v1/jobs", job(run_at="2030-01-01T00:00:00"), 422, "invalid-request", "#/run_at"),
    ("two times", "/v1/jobs", job(run_at="2030-01-01T00:00:00Z", delay=1), 422, "invalid-request", "#/delay"),
    ("a missing member", "/v1/jobs", {"json": {}}, 422, "invalid-request", "#/kind"),
    ("an unknown member", "/v1/jobs", job(prioritty=1), 422, "invalid-request", "#/prioritty"),
    ("no object", "/v1/jobs", {"json": []}, 422, "invalid-request", "#"),
    ("no body", "/v1/jobs", {}, 422, "invalid-request", "#"),
    ("an unknown kind", "/v1/jobs", {"json": {"kind": "wellcome"}}, 422, "unknown-kind", "#/kind"),
    ("a kind with NUL", "/v1/jobs", {"json": {"kind": "a\0"}}, 422, "unknown-kind", "#/kind"),
    ("an unknown argument", "/v1/jobs", job(arguments={"usr": 1}), 422, "invalid-arguments", "#/arguments/usr"),
    ("a wrong argument", "/v1/jobs", job(arguments={"number": "x"}), 422, "invalid-arguments", "#/arguments/number"),
    ("NUL in an argument", "/v1/jobs", job(arguments={"user": "\0"}), 422, "invalid-arguments", "#/arguments/user"),
    ("half of a pair", "/v1/jobs", text('{"kind": "welcome", "arguments": {"user": "\\ud800"}}'), 422, "invalid-arguments", "#/arguments/user"),
    ("large arguments", "/v1/jobs", job(arguments={"user": "x" * 900_000}), 413, "payload-too-large", "#/arguments/user"),
    ("a key with NUL", "/v1/jobs", job(key="\0"), 422, "invalid-request", "#/key"),
    ("an unknown parent", "/v1/jobs", job(after=[MISSING]), 422, "unknown-parent", "#/after"),
    ("a parent that is no id", "/v1/jobs", job(after=["x"]), 422, "invalid-request", "#/after"),
    ("a body of 2 MB", "/v1/jobs", text(json.dumps({"kind": "welcome", "arguments": {"user": "x" * 2_000_000}})), 413, "body-too-large", "#"),
    ("a depth of 1,000", "/v1/jobs", text(f'{{"kind": "welcome", "arguments": {{"user": {DEEP}}}}}'), 400, "nested-too-deeply", "#"),
    ("malformed JSON", "/v1/jobs", text('{"kind": '), 400, "malformed-json", "#"),
    ("NaN", "/v1/jobs", text('{"kind": "welcome", "arguments": {"number": NaN}}'), 400, "malformed-json", "#"),
    ("a member twice", "/v1/jobs", text('{"kind": "welcome", "kind": "report"}'), 400, "malformed-json", "#"),
    ("no UTF-8", "/v1/jobs", text(b'{"kind": "\xff"}'), 400, "malformed-json", "#"),
    ("another content type", "/v1/jobs", text('{"kind": "welcome"}', "text/plain"), 415, "unsupported-media-type", "header:Content-Type"),
    ("no content type", "/v1/jobs", {"content": '{"kind": "welcome"}'}, 415, "unsupported-media-type", "header:Content-Type"),
    ("another type of many", "/v1/jobs/many", text("[]", "text/csv"), 415, "unsupported-media-type", "header:Content-Type"),
    ("too many jobs", "/v1/jobs/many", {"json": [{"kind": "welcome"}] * 11}, 413, "too-many-jobs", "#"),
    ("a wrong job of many", "/v1/jobs/many", {"json": [{"kind": "welcome"}, {"kind": 7}]}, 422, "invalid-request", "#/1/kind"),
    ("an unknown kind of many", "/v1/jobs/many", {"json": [{"kind": "welcome"}, {"kind": "x"}]}, 422, "unknown-kind", "#/1/kind"),
    ("no list", "/v1/jobs/many", {"json": {"kind": "welcome"}}, 422, "invalid-request", "#"),
    ("a batch without then", "/v1/batches", {"json": {"jobs": []}}, 422, "invalid-request", "#/then"),
    ("a cancel without a reason", "/v1/jobs/{job}/cancel", {"json": {}}, 422, "invalid-request", "#/reason"),
    ("a cancel with an empty reason", "/v1/jobs/{job}/cancel", {"json": {"reason": " "}}, 422, "invalid-request", "#/reason"),
    ("a reason with NUL", "/v1/jobs/{job}/cancel", {"json": {"reason": "\0"}}, 422, "invalid-request", "#/reason"),
    ("an unknown id", f"/v1/jobs/{MISSING}/cancel", {"json": {"reason": "x"}}, 404, "job-not-found", "path:job_id"),
    ("an illegal transition", "/v1/jobs/{job}/retry", {}, 409, "illegal-transition", "path:job_id"),
    ("an act that is refused", "/v1/jobs/{job}/run-now", {}, 409, "act-refused", "path:job_id"),
    ("an unknown act", "/v1/operations", {"json": {"act": "erase"}}, 422, "invalid-request", "#/act"),
    ("an empty filter", "/v1/operations", {"json": {"act": "retry"}}, 422, "invalid-request", "#/filter"),
    ("an invalid filter", "/v1/operations", {"json": {"act": "retry", "filter": "stat:x"}}, 422, "invalid-filter", "#/filter"),
    ("an unknown operation", f"/v1/operations/{MISSING}/stop", {}, 404, "operation-not-found", "path:operation_id"),
    ("an unknown phase", "/v1/phases/nope/pause", {"json": {"reason": "x"}}, 404, "phase-not-found", "path:phase"),
    ("an unknown instance", f"/v1/instances/{MISSING}/drain", {"json": {"reason": "x"}}, 404, "instance-not-found", "path:instance"),
    ("an unknown schedule", "/v1/schedules/nope/run", {}, 404, "schedule-not-found", "path:name"),
]  # fmt: skip
GET = [
    ("an invalid cursor", "/v1/jobs?cursor=x", 422, "invalid-cursor", "query:cursor"),
    ("an invalid filter", "/v1/jobs?q=state:broken", 422, "invalid-filter", "query:q"),
    ("NUL in a filter", "/v1/jobs?q=%00", 422, "invalid-filter", "query:q"),
    ("a limit out of range", "/v1/jobs?limit=1001", 422, "invalid-request", "query:limit"),
    ("a limit that is no number", "/v1/jobs?limit=x", 422, "invalid-request", "query:limit"),
    ("an unknown parameter", "/v1/jobs?state=failed", 422, "invalid-request", "query:state"),
    ("a parameter where none is", "/v1/jobs/{job}?x=1", 422, "invalid-request", "query:x"),
    ("an unknown id", f"/v1/jobs/{MISSING}", 404, "job-not-found", "path:job_id"),
    ("NUL in an id", "/v1/jobs/%00", 404, "job-not-found", "path:job_id"),
    ("no result yet", "/v1/jobs/{job}/result", 409, "illegal-transition", "path:job_id"),
    ("an unknown output", "/v1/jobs/{job}/outputs/welcome/x", 404, "output-not-found", "path:name"),
    ("an unknown request", f"/v1/instance-requests/{MISSING}", 404, "request-not-found", "path:request_id"),
    ("an unknown rule", "/v1/rules/nope", 404, "rule-not-found", "path:name"),
    ("an unknown pipeline", "/v1/pipelines/nope", 404, "pipeline-not-found", "path:name"),
    ("a time without a zone", "/v1/history?since=2026-01-01T00:00:00", 422, "invalid-request", "query:since"),
    ("too many points", "/v1/history?since=2000-01-01T00:00:00Z", 422, "invalid-request", "query:since"),
    ("a cursor of the audit trail", "/v1/audit?cursor=x", 422, "invalid-cursor", "query:cursor"),
    ("a name without a target", "/v1/audit?name=x", 422, "invalid-request", "query:target"),
    ("no such address", "/v1/nope", 404, "not-found", None),
]


TEXTS = [
    ("an unknown member", {"json": {"kind": "welcome", "args": {}}}, "#/args: this request has no such member; /openapi.json lists its members"),
    ("a delay that is no number", job(delay="soon"), "#/delay: Input should be a valid number"),
    ("a member that is not there", {"json": {}}, "#/kind: is missing"),
]  # fmt: skip


@pytest.fixture
def api(app: App) -> FastAPI:
    return create_api(app, settings=ApiSettings(max_jobs=10), authenticate=by_header)


def state_of(app: App) -> str:
    records = app.audit.list().records
    return repr((app.jobs.list().jobs, records, app.phases.paused()))


def test_bad_bodies_are_refused_and_change_nothing(app: App, boss: TestClient) -> None:
    made = app.enqueue("welcome").id
    before, wrong = state_of(app), []
    for what, path, request, status, code, pointer in POST:
        refused = boss.post(path.replace("{job}", made), **request)
        found = {item["pointer"] for item in refused.json().get("errors", [])}
        if (refused.status_code, refused.json().get("code")) != (status, code) or pointer not in {
            None,
            *found,
        }:
            wrong.append((what, refused.json()))
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert state_of(app) == before, what
    assert not wrong


@pytest.mark.parametrize(("what", "request_", "told"), TEXTS)
def test_a_refusal_says_what_is_wrong_in_plain_words(
    boss: TestClient, what: str, request_: dict[str, Any], told: str
) -> None:
    assert boss.post("/v1/jobs", **request_).json()["detail"] == told, what


def test_an_act_without_its_body_is_told_to_send_one(app: App, boss: TestClient) -> None:
    refused = boss.post(f"/v1/jobs/{app.enqueue('welcome').id}/cancel")
    assert refused.json()["detail"] == "#: the request needs a body: a JSON object"


def test_bad_addresses_are_refused(app: App, boss: TestClient) -> None:
    made = app.enqueue("welcome").id
    before, wrong = state_of(app), []
    for what, path, status, code, pointer in GET:
        refused = boss.get(path.replace("{job}", made))
        found = {item["pointer"] for item in refused.json().get("errors", [])}
        if (refused.status_code, refused.json().get("code")) != (status, code) or pointer not in {
            None,
            *found,
        }:
            wrong.append((what, refused.json()))
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert state_of(app) == before, what
    assert not wrong


def test_an_edit_needs_the_version_that_was_read(app: App, boss: TestClient) -> None:
    path = f"/v1/jobs/{app.enqueue('welcome').id}"
    tag = boss.get(path).headers["ETag"]
    for headers, status, code in (
        ({}, 428, "if-match-required"),
        ({"If-Match": "x"}, 422, "invalid-request"),
        ({"If-Match": '"x"'}, 412, "edit-conflict"),
    ):
        refused = boss.patch(path, json={"priority": 1}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (status, code)
    changed = boss.patch(path, json={"priority": 1}, headers={"If-Match": tag})
    assert changed.status_code == 200 and changed.headers["ETag"] != tag
    assert boss.patch(path, json={}, headers={"If-Match": tag}).status_code == 422
    assert (
        boss.patch(
            path, json={"arguments": {"number": "x"}}, headers={"If-Match": changed.headers["ETag"]}
        ).json()["errors"][0]["pointer"]
        == "#/arguments/number"
    )


def test_a_wrong_method_lists_the_right_ones(boss: TestClient) -> None:
    refused = boss.put("/v1/jobs/x/cancel")
    assert (refused.status_code, refused.json()["code"]) == (405, "method-not-allowed")
    assert "POST" in refused.headers["Allow"]


@pytest.mark.one_database
def test_a_slow_body_is_refused(app: App) -> None:
    api = create_api(app, settings=ApiSettings(body_timeout=0.05), authenticate=by_header)
    status, body, headers = asyncio.run(_send(api, [b'{"kind"']))
    problem = json.loads(body)
    assert (status, problem["code"], problem["type"]) == (408, "slow-body", "/problems/slow-body")
    (part,) = problem["errors"]
    assert part["pointer"] == "#" and "0.05 s" in part["detail"]
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"connection"] == b"close"


@pytest.mark.one_database
def test_a_body_without_a_length_is_read_no_further_than_the_limit(app: App) -> None:
    api = create_api(app, settings=ApiSettings(), authenticate=by_header)
    chunks: Iterator[bytes] = iter([b"x" * 2**18] * 100)
    status, body, _ = asyncio.run(_send(api, chunks))
    assert (status, json.loads(body)["code"]) == (413, "body-too-large")
    assert len(list(chunks)) >= 95


async def _send(api: FastAPI, chunks: Any) -> tuple[int, bytes, dict[bytes, bytes]]:
    """Send a body chunk by chunk, without a length; the client then says nothing more."""
    sent, left = [], iter(chunks)

    async def receive() -> Message:
        for chunk in left:
            return {"type": "http.request", "body": chunk, "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"x-caller", b"boss"), (b"host", b"test")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/jobs",
        "raw_path": b"/v1/jobs",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("test", 80),
    }
    await api(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], body, dict(sent[0]["headers"])
