"""What every response has: the id of its request, and the headers that keep a browser from doing anything with it but read it."""

from __future__ import annotations

import random
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.api.middleware.headers import header_of
from windlass.api.problems.handlers import response
from windlass.api.problems.problem import ProblemError
from windlass.observe.logger import get_logger

log = get_logger("windlass.api")
HEADER = "X-Request-ID"
POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of each response that does not bring its own."""
RAW = tuple((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
NAME = HEADER.lower().encode()
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def id_of(given: bytes) -> bytes:
    """The id that a proxy gave a request, or a new one."""
    return given if _GIVEN.fullmatch(given) else b"%016x" % random.getrandbits(64)


class Envelope:
    """Takes the id that a proxy gave the request (``X-Request-ID``), or makes one; it is in the response, in problems and in log lines. Responds to
    errors that nothing else handled."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = id_of(header_of(scope, NAME))
        scope.setdefault("state", {})["request_id"] = request_id.decode()
        has_begun = False

        async def marked(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = message["headers"]
                own = {name.lower() for name, _ in headers}
                message["headers"] = [
                    *((name, value) for name, value in headers if name.lower() != NAME),
                    *(item for item in RAW if item[0] not in own),
                    (NAME, request_id),
                ]
            await send(message)

        try:
            await self._app(scope, receive, marked)
        except Exception:
            log.exception("request %s: %s %s failed", request_id.decode(), scope["method"], scope["path"])
            if has_begun:
                raise
            await response(scope, ProblemError("internal-error"))(scope, receive, marked)
