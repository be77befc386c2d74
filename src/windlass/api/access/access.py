"""Everything that decides who may call one API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request

from windlass.api.access.authenticators import (
    Authenticator,
    ByBearer,
    ByFunction,
    BySession,
    WithoutCredentials,
)
from windlass.api.access.caller import Caller
from windlass.api.access.sessions import Sessions
from windlass.api.access.verifiers import BearerVerifier
from windlass.api.problems.problem import ProblemError
from windlass.api.settings import ApiSettings
from windlass.app.app import App
from windlass.errors import AuthenticationError, StoreError
from windlass.principals.bearer import BearerCheck
from windlass.setting_values import Secret

REALM = "windlass"


class Access:
    """The ways in which callers of one API are known, in the order in which they are tried."""

    def __init__(
        self, app: App, settings: ApiSettings, authenticate: Callable[..., Any] | None = None
    ) -> None:
        secret = settings.session_secret
        self.sessions = Sessions(secret.text if isinstance(secret, Secret) else secret, settings.session_time)
        self.verifier = BearerVerifier(app, settings)
        self.authenticators: Sequence[Authenticator] = (
            *(() if authenticate is None else (ByFunction(authenticate),)),
            ByBearer(BearerCheck(self.verifier, realm=REALM)),
            BySession(app, self.sessions),
            *((WithoutCredentials(),) if settings.no_auth else ()),
        )
        self.has_function = authenticate is not None

    async def caller_of(self, request: Request, age: float = 0.0) -> Caller | None:
        """The caller of a request: the first that an authenticator knows, or None; raises for wrong credentials. A token may have been read ``age``
        seconds ago."""
        for authenticator in self.authenticators:
            if (caller := await authenticator(request, age)) is not None:
                return caller
        return None

    async def still_knows(self, caller: Caller, request: Request, age: float = 0.0) -> bool:
        """Whether a request that goes on for long would be accepted now as it was when it came: its credentials were not revoked and have not
        expired, and no right was taken away. While that cannot be found out it goes on."""
        try:
            found = await self.caller_of(request, age)
        except AuthenticationError as error:
            return error.status == 503
        except ProblemError:
            return False
        except StoreError:
            return True
        return (
            found is not None
            and found.roles >= caller.roles
            and found.principal.is_same_as(caller.principal)
            and found.principal.roles >= caller.principal.roles
        )

    def one_time_link(self, address: str) -> str:
        """A link that signs a browser in, once. The code stands behind ``#``: browsers send that part to no server, so that it is in no log, no
        header Referer and no proxy."""
        return f"{address.rstrip('/')}/login#{self.sessions.new_code()}"
