"""Health, metrics, settings, the doctor, and the documents about the API itself."""

from __future__ import annotations

import html
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse, JSONResponse

from windlass.api.problems.documented import problems
from windlass.api.problems.handlers import problem_of
from windlass.api.problems.kinds import KINDS
from windlass.api.problems.problem import ProblemError
from windlass.api.records.system import (
    DiagnosisRecord,
    FindingRecord,
    HealthRecord,
    SettingRecord,
    SettingsRecord,
    StatusRecord,
    TableRecord,
    TablesRecord,
)
from windlass.api.requests.body import StrictRoute
from windlass.api.routes.dependencies import Administering, Viewing
from windlass.errors import StoreError
from windlass.observe.server import METRICS_TYPE

router = APIRouter(tags=["system"], route_class=StrictRoute)
_DOWN: dict[str, Any] = {
    "model": HealthRecord,
    "description": "The database does not respond, or a problem: authentication-unavailable, stopping.",
    "content": problems()[503]["content"],
}
OPEN = frozenset({"/livez", "/readyz"})
"""The paths that need no caller: probes of orchestrators have none."""


@router.get("/livez", operation_id="get_liveness", responses=problems())
async def get_liveness() -> StatusRecord:
    """Whether the process responds."""
    return StatusRecord(status="ok")


@router.get("/readyz", operation_id="get_readiness", responses=problems())
async def get_readiness(request: Request) -> StatusRecord:
    """Whether the server can reach its database; 503 if not."""
    await request.app.state.windlass.overview.ping_async()
    return StatusRecord(status="ok")


@router.get("/healthz", operation_id="get_health", responses={**problems(), 503: _DOWN})
async def get_health(call: Viewing, response: Response) -> HealthRecord:
    """The health in parts: the database, and what is wrong with phases and instances. While the database does not respond, the status is down
    (503), and the part says which kind of problem it is."""
    try:
        await call.control.overview.ping_async()
        found = list((await call.control.overview.read_async()).problems)
    except StoreError as error:
        kind = problem_of(error).kind
        response.status_code = 503
        return HealthRecord(status="down", store=kind.code, problems=[f"{kind.title}: {kind.about}"])
    return HealthRecord(status="degraded" if found else "ok", store="ok", problems=found)


@router.get(
    "/metrics",
    operation_id="get_metrics",
    response_model=None,
    responses={
        200: {
            "description": "The text format of Prometheus.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(),
    },
)
async def get_metrics(call: Viewing) -> Response:
    """Metrics of the database for Prometheus: jobs by phase and state, the age of the oldest queued job, and how long jobs waited in their queues."""
    return Response(await call.control.metrics.render_async(), headers={"Content-Type": METRICS_TYPE})


@router.get("/v1/doctor", operation_id="get_diagnosis", responses=problems())
async def get_diagnosis(call: Administering) -> DiagnosisRecord:
    """What is wrong with settings, database and instances, and what to do about it."""
    found = await call.control.doctor.examine_async()
    return DiagnosisRecord(
        is_good=found.is_good,
        is_reachable=found.is_reachable,
        findings=[FindingRecord(**one.record) for one in found.findings],
    )


@router.get("/v1/tables", operation_id="list_tables", responses=problems())
async def list_tables(call: Administering) -> TablesRecord:
    """The sizes of the tables of the database, the largest first."""
    return TablesRecord(tables=TableRecord.each(await call.control.doctor.tables_async()))


@router.get("/v1/settings", operation_id="list_settings", responses=problems())
async def list_settings(call: Administering) -> SettingsRecord:
    """All settings of the application, each with its origin; secrets are hidden."""
    found = call.control.doctor.settings()
    return SettingsRecord(
        settings=[SettingRecord(key=one.key, value=one.shown, origin=one.origin) for one in found]
    )


@router.get(
    "/openapi.json",
    operation_id="get_openapi",
    response_model=None,
    responses={
        200: {
            "description": "The OpenAPI document.",
            "content": {
                "application/json": {
                    "schema": {"type": "object"},
                    "example": {
                        "openapi": "3.1.0",
                        "info": {"title": "Windlass", "version": "1"},
                        "paths": {},
                    },
                }
            },
        },
        **problems(),
    },
)
async def get_openapi(call: Viewing, request: Request) -> JSONResponse:
    """This document; its server is where the API is mounted."""
    document: dict[str, Any] = {**request.app.openapi(), "servers": [{"url": call.base or "/"}]}
    return JSONResponse(document)


@router.get(
    "/problems/{code}",
    operation_id="get_problem_page",
    response_model=None,
    responses={
        200: {"description": "A page.", "content": {"text/html": {"schema": {"type": "string"}}}},
        **problems(404),
    },
)
async def get_problem_page(_: Viewing, code: str) -> HTMLResponse:
    """What a kind of problem means, and what to do about it."""
    kind = KINDS.get(code)
    if kind is None:
        raise ProblemError("not-found", f"there is no kind of problem {code[:200]!r}")
    title, about = html.escape(f"{kind.title} ({kind.status})"), html.escape(kind.about)
    return HTMLResponse(f"<!doctype html><title>{title}</title><h1>{title}</h1><p>{about}</p>")
