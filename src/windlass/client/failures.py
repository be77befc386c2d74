"""Turns problems of the API (RFC 9457) back into the errors of the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from windlass import errors
from windlass.api.problems.kinds import OF_ERRORS
from windlass.errors import WindlassError
from windlass.urls import without_secrets

_BY_CODE: Mapping[str, type[WindlassError]] = {code: kind for kind, code in OF_ERRORS.items()}
_BY_STATUS: Mapping[int, type[WindlassError]] = {
    401: errors.AuthenticationError,
    403: errors.NotAllowedError,
    404: errors.ConfigError,
    413: errors.PayloadTooLargeError,
    422: errors.ConfigError,
    502: errors.StoreUnreachableError,
    503: errors.StoreUnreachableError,
    504: errors.StoreUnreachableError,
}
_UNKNOWN: Mapping[str, Any] = {
    **dict.fromkeys(("verb", "to_state", "act", "why", "given", "stored", "allowed", "found", "text"), ""),
    **dict.fromkeys(("what", "field", "cure", "name", "key", "instance", "operation_id"), ""),
    **dict.fromkeys(("allowed_from", "missing", "parents", "cycle", "ids"), ()),
    **dict.fromkeys(("value", "subject", "near", "source"), None),
    "position": 0,
    "length": 0,
    "is_unsent": False,
}
"""What an error has besides its message; a problem does not say it."""


def error_of(response: httpx.Response) -> WindlassError:
    """The error that a response is. Its message has the id of the request (``error.request_id``), under which the server's log has more."""
    problem = _problem(response)
    code, status = str(problem.get("code", "")), response.status_code
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, WindlassError)
    detail = str(
        problem.get("detail") or f"the server responded with status {status} {response.reason_phrase}"
    )
    request_id = problem.get("request_id") or response.headers.get("X-Request-ID")
    message = without_secrets(f"{detail} (request {request_id})" if request_id else detail)
    error = kind.__new__(kind)
    WindlassError.__init__(error, message)
    vars(error).update(_UNKNOWN if kind is not WindlassError else {})
    if kind is errors.AuthenticationError:
        vars(error).update(status=status, code=code or kind.code, headers={})
    facts = {"request_id": request_id, "reason": detail, "problem": detail}
    vars(error).update(facts, job_id=problem.get("job"), state=problem.get("state"))
    return error


def unreachable(url: str, cause: Exception, advice: str = "") -> errors.StoreUnreachableError:
    """The error of a server that did not respond. The text of the cause is left out: it may quote what was sent."""
    message = f"the server {url} did not respond ({type(cause).__name__}); check the address, and that `windlass serve` runs there"
    is_unsent = isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout)
    return errors.StoreUnreachableError(f"{message}{advice}", is_unsent=is_unsent)


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
