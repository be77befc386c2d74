"""FastAPI: a dependency that verifies the bearer token of a request and gives its jobs the principal.

    signed_in = Bearer(jobs, verifier)

    @web.post("/reports")
    def order(user: Annotated[Principal, Depends(signed_in)]) -> str:
        return report.enqueue().id              # a job of the user

The dependency is async, also for plain routes: FastAPI runs a plain dependency in a thread with a copy of the request's context, where a
principal that is set is lost. Plain routes run in threads, too, but in a copy that is made after the principal was set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from fastapi import HTTPException
from fastapi.exceptions import WebSocketException
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from windlass.app.app import App
from windlass.errors import AuthenticationError
from windlass.integrations.authentication import BearerAuthentication
from windlass.model.principal import Principal
from windlass.principals.bearer import TokenVerifier

POLICY_VIOLATION = 1008
"""The code that a WebSocket is closed with."""


class Bearer(BearerAuthentication, SecurityBase):
    """A dependency whose value is the principal; None for a request without a token, if that is optional. Refused requests end with 401, 403
    or 503 and ``{"detail": {"code": …, "message": …}}``. ``scheme_name`` is its name in the OpenAPI document."""

    def __init__(
        self,
        app: App,
        verifier: TokenVerifier,
        *,
        roles: Sequence[str] = (),
        optional: bool = False,
        realm: str = "api",
        scheme_name: str = "Bearer",
    ) -> None:
        super().__init__(app, verifier, roles=roles, optional=optional, realm=realm)
        self.model = HTTPBearer(bearerFormat="JWT")
        self.scheme_name = scheme_name

    async def __call__(self, connection: HTTPConnection) -> AsyncIterator[Principal | None]:
        try:
            verified = await self.check.check_async(connection.headers.getlist("Authorization") or None)
        except AuthenticationError as refusal:
            raise _response(connection, refusal) from None
        with self.acting_for(verified):
            yield verified.principal


# FastAPI reads the type of the parameter; it does not resolve the names of annotations for objects that are called.
Bearer.__call__.__annotations__["connection"] = HTTPConnection


def _response(connection: HTTPConnection, refusal: AuthenticationError) -> Exception:
    if connection.scope["type"] == "websocket":
        return WebSocketException(POLICY_VIOLATION, refusal.code)
    return HTTPException(refusal.status, refusal.body, dict(refusal.headers))
