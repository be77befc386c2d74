"""Flask: a decorator that verifies the bearer token of a request and gives its jobs the principal.

signed_in = Bearer(jobs, verifier)

@web.post("/reports")
@signed_in
def order() -> dict[str, str]:
    return {"job": report.enqueue().id}     # a job of g.principal
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flask import Response, g, make_response, request

from windlass.arguments.asyncness import is_async
from windlass.errors import AuthenticationError
from windlass.integrations.authentication import BearerAuthentication


class Bearer(BearerAuthentication):
    """A decorator of views, sync and async. ``g.principal`` is the principal; None for a request without a token, if that is optional.
    Refused requests end with 401, 403 or 503 and ``{"code": …, "message": …}``."""

    def __call__(self, view: Callable[..., Any]) -> Callable[..., Any]:
        if is_async(view):

            @functools.wraps(view)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                try:
                    verified = await self.check.check_async(_header())
                except AuthenticationError as refusal:
                    return _response(refusal)
                g.principal = verified.principal
                with self.acting_for(verified):
                    return await view(*args, **kwargs)

            return run_async

        @functools.wraps(view)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                verified = self.check(_header())
            except AuthenticationError as refusal:
                return _response(refusal)
            g.principal = verified.principal
            with self.acting_for(verified):
                return view(*args, **kwargs)

        return run


def _header() -> list[str] | None:
    return request.headers.getlist("Authorization") or None


def _response(refusal: AuthenticationError) -> Response:
    return make_response(refusal.body, refusal.status, refusal.headers)
