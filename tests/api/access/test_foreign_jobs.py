"""Every operation of the OpenAPI document for callers to whom nothing belongs: no id, no count and no word of Anna's jobs.

An operation without a case fails. The same cases show the canary to Anna, so that they could find it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request

from tests.api.access.asgi import OPEN, Reply, call
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.api.access.caller import Caller
from windlass.control.actor import ALL_JOBS, OPERATOR
from windlass.control.roles import EVERY_ROLE
from windlass.features import Store
from windlass.model import JobError, NewJob
from windlass.model.principal import Principal

CANARY = "canary-51ab"
ANNA = Principal("anna", tenant="acme")
CALLERS = {
    "anna": ANNA,
    "same tenant": Principal("bert", tenant="acme"),
    "another tenant": Principal("cara", tenant="other"),
    "namesake of another tenant": Principal("anna", tenant="other"),
    "namesake of another issuer": Principal("anna", tenant="acme", issuer="https://other.example"),
    "namesake without a tenant": Principal("anna"),
    "operator of another tenant": Principal("otto", tenant="other", roles=frozenset({OPERATOR})),
    "service of another tenant": Principal(
        "wall", tenant="other", roles=frozenset({ALL_JOBS}), is_service=True
    ),
}
STRANGERS = [name for name in CALLERS if name != "anna"]
UNKNOWN = "0190a000-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Case:
    """How an operation is called: ``body`` and ``query`` with the ids of Anna's jobs in them, and which job its path names."""

    body: Any = None
    query: str = ""
    job: str = "failed"
    headers: dict[str, str] = field(default_factory=dict)
    is_shown: bool = False
    """Whether Anna is shown the canary."""


ACT = Case({"reason": "no"})
CASES: dict[str, Case] = {
    "list_jobs": Case(is_shown=True),
    "count_jobs": Case(),
    "get_job": Case(is_shown=True),
    "explain_job": Case(is_shown=True),
    "get_job_timeline": Case(is_shown=True),
    "get_job_logs": Case(),
    "get_job_result": Case(job="done", is_shown=True),
    "list_job_outputs": Case(job="done"),
    "get_job_output": Case(job="done"),
    "stream_job": Case(is_shown=True),
    "stream_events": Case(query="topics=job:QUEUED"),
    "cancel_job": Case({"reason": "no"}, job="queued"),
    "retry_job": ACT,
    "run_job_now": Case({"reason": "no"}, job="queued"),
    "edit_job": Case({"priority": 1}, job="queued", headers={"If-Match": '"x"'}),
    "get_job_stack": Case({"reason": "no"}, job="queued"),
    "get_related_jobs": Case(job="queued"),
    "mark_deploy": Case({"text": "v1"}),
    "delete_job": Case(query="reason=no"),
    "submit_job": Case({"kind": "welcome", "arguments": {"text": "x"}, "after": ["QUEUED"]}),
    "submit_jobs": Case([{"kind": "welcome", "arguments": {"text": "x"}, "key": "one"}]),
    "submit_batch": Case({"jobs": ["QUEUED"], "then": {"kind": "welcome", "arguments": {"text": "x"}}}),
    "get_batch": Case(),
    "start_operation": Case({"act": "cancel", "filter": "kind:welcome", "reason": "no", "dry_run": True}),
    "list_operations": Case(is_shown=True),
    "get_operation": Case(is_shown=True),
    "stop_operation": ACT,
    "list_failures": Case(is_shown=True),
    "get_history": Case(query="since=2026-01-01T00:00:00Z"),
    "list_audit": Case(is_shown=True),
    "pause_phase": ACT,
    "resume_phase": ACT,
    "drain_instance": ACT,
    "set_processors": Case({"count": 1}),
    "pause_schedule": ACT,
    "resume_schedule": ACT,
    "run_schedule": ACT,
    "delete_schedule": Case(),
    "explain_rule": Case(query="key=1"),
    **dict.fromkeys(
        (
            *("get_overview", "list_phases", "get_phase", "list_pools", "list_pipelines", "get_pipeline", "list_instances"),
            "stream_phase",
            *("get_instance", "list_instance_requests", "get_instance_request", "list_rules", "get_rule", "list_fan_ins"),
            *("list_schedules", "get_schedule", "list_schedule_ticks", "list_next_times", "get_session", "delete_session"),
            *("get_health", "get_metrics", "get_diagnosis", "list_settings", "list_tables", "list_deploys", "get_openapi", "get_problem_page"),
        ),
        Case(),
    ),
}  # fmt: skip


@dataclass
class World:
    """Anna's jobs: a failed, a queued (with a key) and a completed one, an operation and audit records, each with the canary in it."""

    api: FastAPI
    app: App
    ids: dict[str, str]

    def fill(self, text: str, job: str, *, unknown: bool = False) -> str:
        ids = dict.fromkeys(self.ids, UNKNOWN) if unknown else self.ids
        text = text.replace("QUEUED", ids["queued"]).replace("{job_id}", ids[job])
        return re.sub(r"\{[^}\"]*\}", "welcome", text.replace("{operation_id}", ids["operation"]))

    async def ask(self, operation: str, who: str, *, unknown: bool = False) -> Reply:
        method, path = operations(self.api)[operation]
        case = CASES[operation]
        body = (
            None
            if case.body is None
            else json.loads(self.fill(json.dumps(case.body), case.job, unknown=unknown))
        )
        headers = {"X-Caller": who, **case.headers}
        path = self.fill(path, case.job, unknown=unknown)
        query = self.fill(case.query, case.job, unknown=unknown)
        return await call(self.api, method, path, headers, body, query)


async def by_name(request: Request) -> Caller | None:
    name = request.headers.get("X-Caller")
    return None if name is None else Caller(CALLERS[name], EVERY_ROLE, "function")


@pytest.fixture(scope="module")
def world(open_shared: Callable[[], Store]) -> World:
    store = open_shared()
    app = App(store=store)

    @app.job
    def welcome(text: str) -> str:
        return text

    made = store.enqueue(
        [
            NewJob(kind="welcome", args={"text": CANARY}, principal=ANNA),
            NewJob(kind="welcome", args={"text": CANARY}, principal=ANNA),
        ]
    )
    ids = dict(zip(("failed", "done"), (one.id for one in made), strict=True))
    with app.as_principal(ANNA):
        ids["queued"] = app.kind("welcome").options(key="one").enqueue(text=CANARY).id
    holder = store.join()
    for name in ("failed", "done"):
        lease = holder.claim_one(ids[name])
        assert lease is not None
        if name == "done":
            holder.complete(lease, result=CANARY)
        else:
            holder.fail(lease, JobError(type="ValueError", code="bad", message=CANARY))
    ids["operation"] = app.acting_as(ANNA).jobs.retry_many("state:failed kind:nothing", reason=CANARY).id
    return World(create_api(app, settings=ApiSettings(), authenticate=by_name), app, ids)


def operations(api: FastAPI) -> dict[str, tuple[str, str]]:
    """The method and the path of each operation of the document that needs a caller."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in api.openapi()["paths"].items()
        for method, operation in methods.items()
        if (method.upper(), path) not in OPEN
    }


def test_every_operation_has_a_case(world: World) -> None:
    assert set(operations(world.api)) == set(CASES)


def test_anna_is_shown_her_jobs(world: World) -> None:
    async def ask() -> None:
        for operation, case in CASES.items():
            if case.is_shown:
                found = await world.ask(operation, "anna")
                assert found.status == 200 and CANARY in found.text, (operation, found)

    asyncio.run(ask())


def said(found: Reply) -> str:
    """What a reply says: without the id of the request, and without the path that the caller gave."""
    return re.sub(r'"(request_id|instance)": ?"[^"]*",?', "", found.text)


@pytest.mark.parametrize("who", STRANGERS)
def test_no_operation_leaks_to_others(world: World, who: str) -> None:
    before = {name: _version(world, name) for name in ("failed", "queued", "done")}

    async def ask() -> None:
        for operation, (_, path) in operations(world.api).items():
            found = await world.ask(operation, who)
            text = said(found)
            assert 0 < found.status < 500, (operation, found)
            assert CANARY not in text, (operation, text)
            names_ids = (
                "{job_id}" in path
                or "{operation_id}" in path
                or "QUEUED" in json.dumps(CASES[operation].body) + CASES[operation].query
            )
            if names_ids:
                unknown = await world.ask(operation, who, unknown=True)
                for one in world.ids.values():
                    text = text.replace(one, UNKNOWN)
                assert (found.status, text) == (unknown.status, said(unknown)), operation
                assert found.status in (404, 422), (operation, found)
            for one in world.ids.values():
                assert one not in text, (operation, text)
            if operation == "count_jobs":
                assert found.json()["count"] == 0
            if operation == "submit_jobs":
                assert found.status == 409, "the key belongs to a job of Anna"
            if operation == "start_operation":
                assert found.json()["matched"] == 0

    asyncio.run(ask())
    assert {name: _version(world, name) for name in before} == before


def _version(world: World, name: str) -> tuple[str, str]:
    job = world.app.jobs.get(world.ids[name])
    return str(job.state), job.version
