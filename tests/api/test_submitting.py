"""Jobs are submitted through the API: one, many, batches; and a repeated request submits nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from tests.api.conftest import by_header
from tests.waiting import eventually
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.features import Store
from windlass.model import State
from windlass.store.ids import new_id

ONE = {"kind": "welcome", "arguments": {"user": "anna"}}


def count(app: App) -> int:
    return app.jobs.count().count


def test_a_job_is_accepted_with_its_address_and_has_the_principal_of_the_caller(
    app: App, as_caller: Callable[[str], TestClient]
) -> None:
    made = as_caller("anna@acme").post("/v1/jobs", json={**ONE, "priority": 9, "delay": 60})
    assert made.status_code == 202
    assert made.headers["Location"] == f"/v1/jobs/{made.json()['id']}"
    job = app.jobs.get(made.json()["id"])
    assert (job.args, job.priority, job.state) == ({"user": "anna"}, 9, State.SCHEDULED)
    captured = app.store.principals.get(job.id)
    assert captured is not None and (captured.principal.subject, captured.principal.tenant) == (
        "anna",
        "acme",
    )


def test_many_jobs_are_stored_all_or_none(app: App, boss: TestClient) -> None:
    jobs = [{"kind": "welcome", "arguments": {"number": n}} for n in range(3)]
    made = boss.post("/v1/jobs/many", json=jobs)
    assert [app.jobs.get(one["id"]).args["number"] for one in made.json()["jobs"]] == [0, 1, 2]
    refused = boss.post("/v1/jobs/many", json=[*jobs, {"kind": "welcome", "arguments": {"number": "x"}}])
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "#/3/arguments/number"
    assert count(app) == 3


def test_lines_of_json_are_jobs(app: App, boss: TestClient) -> None:
    lines = "\n".join(json.dumps({"kind": "welcome", "arguments": {"number": n}}) for n in range(3)) + "\n\n"
    made = boss.post("/v1/jobs/many", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert made.status_code == 202 and len(made.json()["jobs"]) == 3
    broken = boss.post(
        "/v1/jobs/many", content=f'{lines}{{"kind"', headers={"Content-Type": "application/x-ndjson"}
    )
    assert (broken.json()["code"], broken.json()["errors"][0]["pointer"]) == ("malformed-json", "#/4")
    assert count(app) == 3


def test_a_batch_counts_its_members(app: App, boss: TestClient) -> None:
    existing = app.enqueue("welcome").id
    made = boss.post("/v1/batches", json={"jobs": [ONE, existing], "then": {"kind": "report"}})
    assert made.status_code == 202
    assert made.json()["members"][1] == {"id": existing, "created": False, "replaced": False}
    then = made.json()["then"]["id"]
    assert app.jobs.get(then).state is State.WAITING
    found = boss.get(made.headers["Location"]).json()
    assert (found["total"], found["left"]) == (2, 2)


def test_a_repeat_with_the_same_key_gets_the_same_response(app: App, boss: TestClient) -> None:
    for path, body in (
        ("/v1/jobs", ONE),
        ("/v1/jobs/many", [ONE, ONE]),
        ("/v1/batches", {"jobs": [ONE], "then": {"kind": "report"}}),
    ):
        before = count(app)
        first, second = (boss.post(path, json=body, headers={"Idempotency-Key": path}) for _ in range(2))
        assert (first.status_code, first.json(), first.headers.get("Location")) == (
            second.status_code,
            second.json(),
            second.headers.get("Location"),
        )
        assert count(app) - before == len(json.dumps(first.json()).split('"id"')) - 1


def test_a_key_of_another_body_is_refused_and_of_another_caller_is_another_key(
    app: App, as_caller: Callable[[str], TestClient]
) -> None:
    key = {"Idempotency-Key": "k"}
    anna, bert = as_caller("anna@acme"), as_caller("bert@acme")
    assert anna.post("/v1/jobs", json=ONE, headers=key).status_code == 202
    refused = anna.post("/v1/jobs", json={**ONE, "priority": 1}, headers=key)
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency-key-reused")
    assert bert.post("/v1/jobs", json={**ONE, "priority": 1}, headers=key).status_code == 202
    assert count(app) == 2


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ä"])
def test_a_key_that_is_no_key_is_refused(app: App, boss: TestClient, key: str) -> None:
    refused = boss.post("/v1/jobs", json=ONE, headers=[(b"Idempotency-Key", key.encode())])
    assert refused.json()["errors"][0]["pointer"] == "header:Idempotency-Key"
    assert count(app) == 0


def test_a_repeat_after_a_restart_of_the_server_gets_the_first_response(
    app: App, boss: TestClient, opened: Callable[[], Store]
) -> None:
    key = {"Idempotency-Key": "k", "X-Caller": "boss"}
    first = boss.post("/v1/jobs", json=ONE, headers=key)
    with App(store=opened()) as restarted:

        @restarted.job
        def welcome(user: str = "") -> None: ...

        again = TestClient(create_api(restarted, settings=ApiSettings(), authenticate=by_header))
        repeated = again.post("/v1/jobs", json=ONE, headers=key)
    assert (repeated.status_code, repeated.json()) == (202, first.json())
    assert count(app) == 1


def test_a_request_that_waits_gets_the_result(app: App, boss: TestClient) -> None:
    engine = app.worker()
    engine.start()
    try:
        made = boss.post("/v1/jobs", json=ONE, headers={"Prefer": "wait=60"})
    finally:
        engine.stop()
    assert made.status_code == 200, made.text
    assert (made.json()["state"], made.json()["result"]) == ("completed", "hello anna")
    assert made.headers["Preference-Applied"] == "wait"


def test_a_wait_that_ends_without_the_job_is_accepted(boss: TestClient) -> None:
    made = boss.post("/v1/jobs", json=ONE, headers={"Prefer": "respond-async, wait=0"})
    assert made.status_code == 202
    assert boss.post("/v1/jobs", json=ONE, headers={"Prefer": "wait=x"}).json()["errors"] == [
        {"pointer": "header:Prefer", "detail": "wait must be a whole number of seconds, such as wait=10"}
    ]


def test_no_caller_waits_more_often_than_allowed(app: App) -> None:
    api = create_api(app, settings=ApiSettings(waits=1), authenticate=by_header)
    with TestClient(api, headers={"X-Caller": "boss"}) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/v1/jobs", json=ONE, headers={"Prefer": "wait=60"})
        eventually(lambda: api.state.waits.taken, "a request waits")
        refused = client.post("/v1/jobs", json=ONE, headers={"Prefer": "wait=60"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        for job in app.jobs.list().jobs:
            app.jobs.cancel(job.id, "enough")
        assert first.result().json()["state"] == "cancelled"


@pytest.mark.parametrize("option", ["key", "debounce", "throttle"])
def test_a_key_of_another_persons_job_shows_and_changes_nothing(
    app: App, as_caller: Callable[[str], TestClient], option: str
) -> None:
    value = {"key": "k", "debounce": {"key": "k", "wait": 60}, "throttle": {"key": "k", "period": 60}}[option]
    job = {**ONE, option: value}
    first = as_caller("anna@acme").post("/v1/jobs", json=job).json()["id"]
    bert = as_caller("bert@acme")
    for body in (job, {**job, "arguments": {"user": "bert"}}):
        for headers in ({}, {"Idempotency-Key": new_id()}):
            refused = bert.post("/v1/jobs", json=body, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (409, "key-conflict")
            assert first not in refused.text
    assert app.jobs.get(first).args == {"user": "anna"}
    assert count(app) == 1


def test_parents_and_members_of_other_people_are_unknown(
    app: App, as_caller: Callable[[str], TestClient]
) -> None:
    foreign, missing = app.enqueue("welcome").id, new_id()
    bert = as_caller("bert@acme")
    for one in (foreign, missing):
        for path, body in (
            ("/v1/jobs", {**ONE, "after": [one]}),
            ("/v1/jobs", {**ONE, "after": [{"job": one, "policy": "run"}]}),
            ("/v1/batches", {"jobs": [one], "then": ONE}),
            ("/v1/batches", {"jobs": [{**ONE, "after": [one]}], "then": ONE}),
            ("/v1/batches", {"jobs": [], "then": {**ONE, "after": [one]}}),
        ):
            refused = bert.post(path, json=body)
            assert (refused.status_code, refused.json()["code"]) == (422, "unknown-parent"), (path, body)
    assert count(app) == 1
