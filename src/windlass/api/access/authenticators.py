"""How the caller of a request is found out: the application's own function, a bearer token, a session, or no credentials at all."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from windlass.api.access.addresses import host_of, is_loopback
from windlass.api.access.caller import LOCAL, Caller
from windlass.api.access.cross_site import require_own_page
from windlass.api.access.gathered import Gathered
from windlass.api.access.sessions import Sessions
from windlass.app.app import App
from windlass.arguments.asyncness import is_async
from windlass.control.roles import principal_of
from windlass.errors import ConfigError, TokenError
from windlass.model.principal import Principal
from windlass.principals.bearer import BearerCheck
from windlass.tokens.store import require_live

Authenticator = Callable[[Request, float], Awaitable[Caller | None]]
"""Returns the caller of a request; None for a request without credentials of its kind; raises for wrong ones. A read of the database may be as old
as the number says, in seconds."""
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class ByFunction:
    """Asks the application's own function, sync or async: it returns a principal, or None for a request that it does not know.

    The application may know the request by a cookie: then a request of another site is refused.
    """

    def __init__(self, function: Callable[[Request], Any]) -> None:
        given: object = function
        if not callable(given):
            raise ConfigError(
                "authenticate", given, "a function that takes a request and returns a principal, or None"
            )
        self._function = function
        self._is_async = is_async(function)

    async def __call__(self, request: Request, _age: float = 0.0) -> Caller | None:
        found = (
            self._function(request) if self._is_async else await asyncio.to_thread(self._function, request)
        )
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            return None
        caller = Caller.of(found, "function") if isinstance(found, Principal) else found
        if not isinstance(caller, Caller):
            raise ConfigError(
                "authenticate", type(found).__name__, "a function that returns a Principal, or None"
            )
        if "authorization" not in request.headers:
            require_own_page(request, must_tell="cookie" in request.headers)
        return caller


class ByBearer:
    """Verifies the header Authorization. A request with such a header is known by it, or refused, whatever cookie it has."""

    def __init__(self, check: BearerCheck) -> None:
        self._check = check
        self._verify = Gathered(self._caller)

    async def __call__(self, request: Request, age: float = 0.0) -> Caller | None:
        header = tuple(
            value.decode("latin-1") for name, value in request.scope["headers"] if name == b"authorization"
        )
        return await self._verify(header, age) if header else None

    def _caller(self, header: tuple[str, ...]) -> Caller:
        principal = self._check(header).principal
        assert principal is not None, "the check is not optional"
        return Caller.of(principal, "bearer")


class BySession:
    """Recognises the cookie of a session."""

    def __init__(self, app: App, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions
        self._read = Gathered(self._of_token)

    async def __call__(self, request: Request, age: float = 0.0) -> Caller | None:
        session = self._sessions.read(request)
        if session is None:
            return None
        require_own_page(request, must_tell=True)
        if session.token is None:
            return Caller.of(LOCAL, "session")
        principal = await self._read(session.token, age)
        return None if principal is None else Caller.of(principal, "session")

    def _of_token(self, token_id: str) -> Principal | None:
        token = self._app.store.tokens.find(token_id)
        if token is None:
            return None
        try:
            require_live(token)
        except TokenError:
            return None
        return principal_of(token)


class WithoutCredentials:
    """Accepts requests of this machine, to this machine, that passed no proxy."""

    async def __call__(self, request: Request, _age: float = 0.0) -> Caller | None:
        client = request.client
        is_local = (
            client is not None
            and is_loopback(client.host)
            and is_loopback(host_of(request.headers.get("host", "")))
            and not any(name in request.headers for name in _FORWARDED)
        )
        if not is_local:
            return None
        require_own_page(request, must_tell="cookie" in request.headers)
        return Caller.of(LOCAL, "no-auth")
