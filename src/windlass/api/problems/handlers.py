"""Turns exceptions into responses."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette._utils import get_route_path
from starlette.exceptions import HTTPException as StarletteError
from starlette.responses import Response
from starlette.types import Scope

from windlass.api.problems.kinds import KINDS, kind_of
from windlass.api.problems.pointers import of_errors, of_field
from windlass.api.problems.problem import MEDIA_TYPE, ProblemError
from windlass.errors import (
    AuthenticationError,
    ConfigError,
    FilterError,
    PayloadError,
    StoreError,
    StoreInterruptedError,
    UnknownParentError,
    WindlassError,
)
from windlass.observe.logger import get_logger

log = get_logger("windlass.api")

MISSING = {
    "phase": "phase-not-found",
    "request": "request-not-found",
}
"""Names in paths that the library refuses as values that do not exist."""
PARAMETERS = {
    "filter": "query:q",
    "cursor": "query:cursor",
    "limit": "query:limit",
    "after": "header:Last-Event-ID",
}
"""Where a setting of the library that is refused came from, if not from the body."""


def install(api: FastAPI) -> None:
    """Make a problem of every exception."""
    api.add_exception_handler(ProblemError, _problem)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(StarletteError, _http)
    api.add_exception_handler(WindlassError, _library)


def response(scope: Scope, problem: ProblemError) -> Response:
    """The response that a problem is."""
    body = problem.body(
        base=scope.get("root_path", "").rstrip("/"), path=_path(scope), request_id=request_id(scope)
    )
    if problem.status_code >= 500:
        log.warning("request %s: %s: %s", request_id(scope), problem.kind.code, problem.detail)
    return Response(
        json.dumps(body, ensure_ascii=True), problem.status_code, problem.headers, media_type=MEDIA_TYPE
    )


def request_id(scope: Scope) -> str:
    """The id of the request, which the middleware gave it."""
    return str(scope.get("state", {}).get("request_id", ""))


def _path(scope: Scope) -> str:
    return str(scope.get("path", ""))[:2000]


async def _problem(request: Request, error: Any) -> Response:
    return response(request.scope, _located(error, request))


async def _library(request: Request, error: Any) -> Response:
    return response(request.scope, _located(problem_of(error, request), request))


def _located(problem: ProblemError, request: Request) -> ProblemError:
    """The problem with a pointer to the part of the address that it is about: the id of a job that does not exist, or whose state is another."""
    noun, given = problem.kind.code.partition("-")[0], request.path_params
    if not problem.errors and problem.kind.status in (404, 409):
        named = [name for name in (f"{noun}_id", noun, "name", "job_id") if name in given]
        problem.errors = [(f"path:{name}", problem.detail) for name in named[:1]]
    return problem


async def _invalid(request: Request, error: Any) -> Response:
    found = error.errors()
    if found and found[0]["type"] == "json_invalid":
        why = f"{found[0].get('ctx', {}).get('error', 'it is no JSON')} at character {found[0]['loc'][-1]}"
        return response(
            request.scope, ProblemError("malformed-json", f"the body is not JSON: {why}", errors=[("#", why)])
        )
    errors = of_errors(found)
    detail = "; ".join(f"{where}: {what}" for where, what in errors[:3])
    return response(request.scope, ProblemError("invalid-request", detail, errors=errors))


_CODES = {404: "not-found", 405: "method-not-allowed", 406: "not-acceptable", 415: "unsupported-media-type"}


async def _http(request: Request, error: Any) -> Response:
    code = _CODES.get(error.status_code, "internal-error" if error.status_code >= 500 else "malformed-json")
    headers = {"Allow": ", ".join(_methods(request))} if code == "method-not-allowed" else error.headers
    return response(request.scope, ProblemError(code, headers=headers))


def _methods(request: Request) -> list[str]:
    """The methods of all routes with the path of a request; the framework names those of the first one."""
    path = get_route_path(request.scope)
    return sorted(
        {
            method
            for route in request.app.routes
            if isinstance(route, APIRoute) and route.path_regex.match(path)
            for method in route.methods or ()
        }
    )


def problem_of(error: WindlassError, request: Request | None = None) -> ProblemError:
    """The problem that an error of the library is to a client."""
    kind = kind_of(error)
    if isinstance(error, AuthenticationError):
        codes = {401: "unauthenticated", 403: "forbidden"}
        code = codes.get(error.status, "authentication-unavailable")
        return ProblemError(code, error.message, headers=error.headers)
    state, job = getattr(error, "state", None), getattr(error, "job_id", None)
    errors: list[tuple[str, str]] = []
    detail = error.message
    match error:
        case FilterError():
            errors = [
                (
                    _parameter("filter", request),
                    f"character {error.position + 1}: {error.found}; it must be {error.allowed}. {error.cure}",
                )
            ]
        case ConfigError() if error.key == "cursor":
            kind, errors = KINDS["invalid-cursor"], [("query:cursor", error.reason)]
        case ConfigError() if (
            request is not None
            and error.key in MISSING
            and {error.key, f"{error.key}_id"} & request.path_params.keys()
        ):
            kind = KINDS[MISSING[error.key]]
        case ConfigError() if error.key == "kind":
            kind, errors = KINDS["unknown-kind"], [("#/kind", error.reason)]
        case ConfigError():
            errors = [(_parameter(error.key, request), error.reason)]
        case PayloadError():
            errors = [(of_field(error.field), f"{error.problem}; {error.cure}")]
        case UnknownParentError():
            errors = [("#/after", error.message)]
        case StoreInterruptedError() if not _ran_out_of_time(error):
            kind = KINDS["store-busy"]
            detail = kind.about
            log.warning("a request met a lock or a limit of the database: %s", error)
        case StoreError():  # its text may name hosts and tables
            detail = kind.about
            log.warning("a request met an error of the database: %s", error)
        case WindlassError() if kind.code == "internal-error":
            detail = kind.about
            log.error("a request met an unexpected error: %s", error)
    return ProblemError(
        kind.code, detail, errors=errors, state=None if state is None else str(state), job=job
    )


def _ran_out_of_time(error: StoreInterruptedError) -> bool:
    """Whether the database ended a statement because of its time, and not because of a lock, a deadlock or a limit."""
    cause = error.__cause__
    return (
        getattr(cause, "sqlstate", None) == "57014"
        or getattr(cause, "sqlite_errorname", None) == "SQLITE_INTERRUPT"
    )


def _parameter(key: str, request: Request | None) -> str:
    """The place of a setting in the request: a member of the body, or a parameter."""
    if request is not None and request.method not in ("GET", "HEAD", "DELETE"):
        return of_field(key.replace(" ", "."))
    return PARAMETERS.get(key, f"query:{key}")
