"""Limits of bodies: how many bytes, and how long a client may take to send them."""

from __future__ import annotations

import asyncio

from starlette._utils import get_route_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.api.middleware.headers import header_of
from windlass.api.problems.handlers import response
from windlass.api.problems.problem import ProblemError
from windlass.api.settings import ApiSettings

LARGE = frozenset({"/v1/jobs/many", "/v1/batches"})
"""Paths whose bodies have many jobs."""


class BodyLimit:
    """Refuses a body that is too large or too slow, before it is read as a whole. A request that is refused closes its connection: the rest of the
    body is not read."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        settings = self._settings
        is_large = get_route_path(scope) in LARGE
        most = settings.max_batch_bytes if is_large else settings.max_body_bytes
        scope["max_depth"] = settings.max_depth
        announced = header_of(scope, b"content-length")
        if announced.isdigit() and int(announced[:20]) > most:
            await response(scope, _too_large(most, is_large))(scope, receive, send)
            return
        ends_at = asyncio.get_running_loop().time() + settings.body_timeout
        size, is_whole = 0, False

        async def limited() -> Message:
            nonlocal size, is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout_at(ends_at):
                    message = await receive()
            except TimeoutError:
                raise _too_slow(settings.body_timeout) from None
            size += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if size > most:
                raise _too_large(most, is_large)
            return message

        await self._app(scope, limited, send)


def _too_large(most: int, is_large: bool) -> ProblemError:
    key = "api.max_batch_bytes" if is_large else "api.max_body_bytes"
    return ProblemError(
        "body-too-large",
        f"the body is larger than {most:,} bytes ({key})",
        errors=[("#", f"is larger than {most:,} bytes")],
        headers={"Connection": "close"},
    )


def _too_slow(seconds: float) -> ProblemError:
    return ProblemError(
        "slow-body",
        f"the body did not arrive within {seconds:g} s (api.body_timeout)",
        errors=[("#", f"did not arrive within {seconds:g} s")],
        headers={"Connection": "close"},
    )
