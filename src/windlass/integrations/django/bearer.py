"""Django: a decorator of views, and a middleware, that verifies the bearer token of a request and gives its jobs the principal.

# project/auth.py
signed_in = Bearer(app, verifier)

@signed_in                                  # on a view, sync or async
def order(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"job": report.enqueue().id})       # a job of request.principal

MIDDLEWARE = [..., "project.auth.signed_in"]                # or for every view
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, JsonResponse

from windlass.errors import AuthenticationError
from windlass.integrations.authentication import BearerAuthentication


class Bearer(BearerAuthentication):
    """A decorator of views and a middleware: both take a function of a request, and return another one. ``request.principal`` is the
    principal; None for a request without a token, if that is optional. Refused requests end with 401, 403 or 503 and
    ``{"code": …, "message": …}``."""

    sync_capable = async_capable = True  # as a middleware

    def __call__(self, view: Callable[..., Any]) -> Callable[..., Any]:
        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def run_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                try:
                    verified = await self.check.check_async(request.headers.get("Authorization"))
                except AuthenticationError as refusal:
                    return _response(refusal)
                request.principal = verified.principal
                with self.acting_for(verified):
                    return await view(request, *args, **kwargs)

            return run_async

        @functools.wraps(view)
        def run(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            try:
                verified = self.check(request.headers.get("Authorization"))
            except AuthenticationError as refusal:
                return _response(refusal)
            request.principal = verified.principal
            with self.acting_for(verified):
                return view(request, *args, **kwargs)

        return run


def _response(refusal: AuthenticationError) -> JsonResponse:
    return JsonResponse(refusal.body, status=refusal.status, headers=refusal.headers)
