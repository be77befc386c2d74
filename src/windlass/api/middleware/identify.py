"""Finds out who sends a request: asks one authenticator after the other, and puts the caller into ``request.state.caller``."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.api.access.access import Access
from windlass.api.middleware.shared_reads import accepted_age
from windlass.api.problems.handlers import problem_of, response
from windlass.api.problems.problem import ProblemError
from windlass.errors import WindlassError

TOKEN_AGE = 1.0
"""Seconds: a request that accepts a shared read is accepted for so long after its token was revoked. Acts and all other reads are refused at once."""


class Identify:
    """The first authenticator that knows the caller decides; without one the caller is None, and routes refuse the request."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            try:
                request.state.caller = await self._access.caller_of(
                    request, TOKEN_AGE if accepted_age(scope) else 0.0
                )
            except ProblemError as problem:
                await response(scope, problem)(scope, receive, send)
                return
            except WindlassError as error:
                await response(scope, problem_of(error, request))(scope, receive, send)
                return
        await self._app(scope, receive, send)
