"""Checks the header Host, so that a page of another site cannot reach the server by a name that it makes point here (DNS rebinding)."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.api.middleware.headers import header_of
from windlass.api.problems.handlers import response
from windlass.api.problems.problem import ProblemError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""The names of a server that listens on this machine only."""


class Hosts:
    """Refuses requests for other hosts than these; without any, all are served."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_served(scope, self._hosts):
            await response(scope, ProblemError("wrong-host"))(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_served(scope: Scope, hosts: Collection[str]) -> bool:
    """Whether a request names a host that is served; without hosts, given in lower case, all are."""
    return not hosts or name_of(scope) in hosts


def name_of(scope: Scope) -> str:
    """The host that a request names, without its port."""
    host = header_of(scope, b"host").decode("latin-1").strip().lower()
    name, bracket, _ = host.partition("]")
    return f"{name}]" if bracket else host.partition(":")[0]
