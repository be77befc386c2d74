"""Submits one plain job without the framework's routing, which takes several times as long as the submit itself.

It takes only requests of which nothing is left to decide: a caller with the role, a body that came at once and is a valid job, no header Prefer and
no Idempotency-Key. Every other request, and with it every refusal, goes on to the route of the same address, with the body that was read.
"""

from __future__ import annotations

from pydantic import ValidationError
from starlette._utils import get_route_path
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.api.problems.handlers import problem_of, response
from windlass.api.problems.problem import ProblemError
from windlass.api.requests.body import JSON, parsed
from windlass.api.requests.submits import JobBody
from windlass.control.roles import Role
from windlass.control.submitting import JobOrder
from windlass.errors import WindlassError

PATH = "/v1/jobs"
_RESPONSE = b'{"id":"%s","created":%s,"replaced":%s}'
_BOOL = {False: b"false", True: b"true"}
_OTHER_WAYS = frozenset({b"prefer", b"idempotency-key"})
"""Headers of requests that this does not take."""


class QuickSubmit:
    """Behind all checks of a request, before the routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not (scope["type"] == "http" and scope["method"] == "POST" and _is_plain(scope)):
            await self._app(scope, receive, send)
            return
        try:
            message = await receive()
        except ProblemError as problem:
            await response(scope, problem)(scope, receive, send)
            return
        order = _order(message, scope["max_depth"])
        if order is None:
            await self._app(scope, _replayed(message, receive), send)
            return
        try:
            control = scope["state"]["caller"].control(scope["app"].state.windlass)
            (made,) = await control.submits.many_async([order])
        except WindlassError as error:
            await response(scope, problem_of(error, Request(scope)))(scope, receive, send)
            return
        text = _RESPONSE % (made.id.encode(), _BOOL[made.created], _BOOL[made.replaced])
        base = scope.get("root_path", "").rstrip("/")
        headers = [
            (b"content-length", b"%d" % len(text)),
            (b"content-type", b"application/json"),
            (b"location", f"{base}{PATH}/{made.id}".encode()),
            (b"retry-after", b"1"),
        ]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": text})


def _is_plain(scope: Scope) -> bool:
    """Whether a request may be taken, by its head: the caller, the address and the headers."""
    if get_route_path(scope) != PATH:
        return False
    caller = scope["state"].get("caller")
    if caller is None or Role.SUBMIT not in caller.roles:
        return False
    is_json = False
    for name, value in scope["headers"]:
        if name in _OTHER_WAYS:
            return False
        if name == b"content-type":
            is_json = value == b"application/json" or JSON.fullmatch(value.decode("latin-1")) is not None
    return is_json


def _order(message: Message, depth: int) -> JobOrder | None:
    """The job of a body; None for a body that did not come at once or is no valid job."""
    if message["type"] != "http.request" or message.get("more_body", False):
        return None
    try:
        return JobBody.model_validate(parsed(message.get("body", b""), depth)).order()
    except (ProblemError, ValidationError):
        return None


def _replayed(first: Message, receive: Receive) -> Receive:
    """Receives a message again that was received, and then those that come."""
    again: list[Message] = [first]

    async def received() -> Message:
        return again.pop() if again else await receive()

    return received
