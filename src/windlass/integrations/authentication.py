"""What the bearer checks of all web frameworks share: one verification, and jobs that have the principal of their request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from windlass.app.app import App
from windlass.principals.bearer import BearerCheck, TokenVerifier, Verified

__all__ = ["BearerAuthentication", "BearerCheck", "TokenVerifier", "Verified"]


class BearerAuthentication:
    """Verifies the bearer tokens of requests for one app. The adapter of a framework reads the header and makes the response of a refusal.

    ``roles`` are required, all of them. With ``optional`` a request without a token is served, and its jobs have no principal; a wrong token,
    and a header that is empty, malformed or there twice, are refused all the same. ``realm`` is shown to clients in the challenge (WWW-Authenticate).
    """

    def __init__(
        self,
        app: App,
        verifier: TokenVerifier,
        *,
        roles: Sequence[str] = (),
        optional: bool = False,
        realm: str = "api",
    ) -> None:
        self.check = BearerCheck(verifier, roles=roles, optional=optional, realm=realm)
        self._app = app

    def acting_for(self, verified: Verified) -> AbstractContextManager[Any]:
        """A block in which every job that is enqueued has the principal of the request; the block ends where it began, in one thread or task."""
        if verified.principal is None:
            return nullcontext()
        return self._app.as_principal(verified.principal, token=verified.token)
