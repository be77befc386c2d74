"""Every operation of the OpenAPI document, with what belongs to Anna in its path, body and query. An operation without a case fails a test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request

from tests.api.access.asgi import OPEN, Reply, call
from tests.control.anna import Belongings, belongings
from tests.control.conftest import ANNA, BERT, BOSS, CARA
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.api.access.caller import Caller
from windlass.control.actor import ALL_JOBS, OPERATOR
from windlass.control.roles import EVERY_ROLE
from windlass.features import Store
from windlass.model.principal import Principal

CANARY = "canary-51ab"
CALLERS = {
    "anna": ANNA,
    "same tenant": BERT,
    "another tenant": CARA,
    "namesake of another tenant": Principal("anna", tenant="other"),
    "namesake of another issuer": Principal("anna", tenant="acme", issuer="https://other.example"),
    "namesake without a tenant": Principal("anna"),
    "operator of another tenant": Principal("otto", tenant="other", roles=frozenset({OPERATOR})),
    "service of another tenant": Principal(
        "wall", tenant="other", roles=frozenset({ALL_JOBS}), is_service=True
    ),
}
STRANGERS = [name for name in CALLERS if name != "anna"]
WATCHER = "an administrator who may only view"
UNKNOWN = "0190a000-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Case:
    """How an operation is called: ``body`` and ``query`` with the ids of Anna's jobs in them, and which job its path names."""

    body: Any = None
    query: str = ""
    job: str = "failed"
    headers: dict[str, str] = field(default_factory=dict)
    is_shown: bool = False
    """Whether Anna is shown ``shown``."""
    shown: str = CANARY


ACT = Case({"reason": "no"})
CASES: dict[str, Case] = {
    "list_jobs": Case(is_shown=True),
    "count_jobs": Case(),
    "get_job": Case(is_shown=True),
    "explain_job": Case(is_shown=True),
    "get_job_timeline": Case(is_shown=True),
    "get_job_logs": Case(is_shown=True),
    "get_job_result": Case(job="done", is_shown=True),
    "list_job_outputs": Case(job="done", is_shown=True),
    "get_phase_output": Case(job="done", is_shown=True),
    "get_job_output": Case(job="done", is_shown=True),
    "stream_job": Case(is_shown=True),
    "stream_events": Case(query="topics=job:FAILED", is_shown=True),
    "cancel_job": Case({"reason": "no"}, job="queued"),
    "retry_job": ACT,
    "run_job_now": Case({"reason": "no"}, job="queued"),
    "edit_job": Case({"priority": 1}, job="queued", headers={"If-Match": '"x"'}),
    "get_job_stack": Case({"reason": "it hangs"}, job="running", is_shown=True),
    "get_related_jobs": Case(job="queued", is_shown=True, shown="FOLLOWER"),
    "mark_deploy": Case({"text": "v1"}),
    "delete_job": Case(query="reason=no"),
    "submit_job": Case({"kind": "welcome", "arguments": {"text": "x"}, "after": ["QUEUED"]}),
    "submit_jobs": Case([{"kind": "welcome", "arguments": {"text": "x"}, "key": "one"}]),
    "submit_batch": Case({"jobs": ["QUEUED"], "then": {"kind": "welcome", "arguments": {"text": "x"}}}),
    "get_batch": Case(job="follower", is_shown=True, shown='"total":2'),
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
    "delete_rule": Case(),
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
    """An API, and what belongs to Anna, with the canary in its payload; the key ``one`` belongs to a job of hers, too."""

    api: FastAPI
    app: App
    annas: Belongings

    def fill(self, text: str, job: str = "failed", *, unknown: bool = False) -> str:
        ids = {name: UNKNOWN if unknown else value for name, value in vars(self.annas).items()}
        for name, value in ids.items():
            text = text.replace(name.upper(), value)
        text = text.replace("{job_id}", ids[job])
        return re.sub(r"\{[^}\"]*\}", "welcome", text.replace("{operation_id}", ids["operation"]))

    async def ask(self, operation: str, who: str, *, unknown: bool = False, **more: Any) -> Reply:
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
        return await call(self.api, method, path, headers, body, query, **more)


async def by_name(request: Request) -> Caller | None:
    name = request.headers.get("X-Caller")
    if name == WATCHER:
        return Caller(BOSS, frozenset({"view"}), "function")
    return None if name is None else Caller(CALLERS[name], EVERY_ROLE, "function")


@contextmanager
def filled(store: Store) -> Iterator[World]:
    """An API on a store that has what belongs to Anna."""
    app = App(store=store)

    @app.job
    def welcome(text: str) -> str:
        return text

    with belongings(app, store, CANARY, reason="mended") as annas:
        with app.as_principal(ANNA):
            app.kind("welcome").options(key="one").enqueue(text=CANARY)
        yield World(create_api(app, settings=ApiSettings(), authenticate=by_name), app, annas)


def operations(api: FastAPI) -> dict[str, tuple[str, str]]:
    """The method and the path of each operation of the document that needs a caller."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in api.openapi()["paths"].items()
        for method, operation in methods.items()
        if (method.upper(), path) not in OPEN
    }


def said(found: Reply) -> str:
    """What a reply says: without the id of the request, and without the path that the caller gave."""
    return re.sub(r'"(request_id|instance)": ?"[^"]*",?', "", found.text)
