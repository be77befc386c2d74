"""Submits one plain job before the framework sees the request: its middleware and its routing take several times as long as the submit itself.

It takes only requests of which nothing is left to decide: a caller who is known and may submit, a host that is served, a body that is within the
limits and a valid job; no header Prefer, no Idempotency-Key, no page of another origin. Every other request, and with it every refusal, goes on to
the middleware and the route of the same address, with the body that was read.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from fastapi import FastAPI
from pydantic import ValidationError
from starlette._utils import get_route_path
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from windlass.api.access.access import Access
from windlass.api.access.caller import Caller
from windlass.api.middleware.envelope import NAME, RAW, Envelope, id_of
from windlass.api.middleware.hosts import is_served
from windlass.api.problems.handlers import problem_of, response
from windlass.api.problems.problem import ProblemError
from windlass.api.requests.body import JSON, parsed
from windlass.api.requests.submits import JobBody
from windlass.api.settings import ApiSettings
from windlass.control.roles import Role
from windlass.control.submitting import JobOrder
from windlass.errors import WindlassError
from windlass.model import Enqueued

PATH = "/v1/jobs"
_RESPONSE = b'{"id":"%s","created":%s,"replaced":%s}'
_BOOL = {False: b"false", True: b"true"}
_OTHER_WAYS = frozenset({b"prefer", b"idempotency-key", b"origin", b"expect", b"transfer-encoding"})
"""Headers of requests that this does not take."""
_PLAIN = frozenset({"kind", "arguments"})


class Head(NamedTuple):
    """What the headers of a request say: the bytes of its body, and the id that a proxy gave it."""

    size: int
    request_id: bytes


class QuickApi(FastAPI):
    """The API, with a short way for the requests that are sent most."""

    quick: QuickSubmit | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        quick = self.quick
        if quick is not None and scope["type"] == "http" and scope["method"] == "POST":
            head = quick.head(scope)
            if head is not None:
                scope["app"] = self
                left = await quick(scope, receive, send, head)
                if left is None:
                    return
                receive = left
        await super().__call__(scope, receive, send)


class QuickSubmit:
    """Takes requests that submit one plain job."""

    def __init__(self, settings: ApiSettings, access: Access) -> None:
        self._settings = settings
        self._hosts = frozenset(host.lower() for host in settings.hosts)
        self._access = access

    def head(self, scope: Scope) -> Head | None:
        """The head of a request that may be taken; None for every other."""
        if get_route_path(scope) != PATH or scope["query_string"]:
            return None
        size, is_json, request_id = -1, False, b""
        for name, value in scope["headers"]:
            if name in _OTHER_WAYS:
                return None
            if name == b"content-type":
                is_json = value == b"application/json" or JSON.fullmatch(value.decode("latin-1")) is not None
            elif name == b"content-length" and value.isdigit() and len(value) < 20:
                size = int(value)
            elif name == NAME:
                request_id = value
        if not is_json or not 0 <= size <= self._settings.max_body_bytes:
            return None
        return Head(size, request_id) if is_served(scope, self._hosts) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send, head: Head) -> Receive | None:
        """Submit the job of a request; returns what is left to receive where the request was not taken."""
        caller = await self._caller(scope)
        if caller is None:
            return receive
        try:
            async with asyncio.timeout(self._settings.body_timeout):
                message = await receive()
        except TimeoutError:
            return _too_late
        order = self._order(message, head)
        if order is None:
            return _replayed(message, receive)
        state = scope["app"].state
        try:
            (made,) = await caller.control(state.windlass).submits.many_async([order])
        except Exception as error:  # noqa: BLE001  the job may be stored: no second try
            await Envelope(_Refusal(error))(scope, receive, send)
            return None
        finally:
            state.reads.acted(caller)
        await _accepted(scope, send, made, id_of(head.request_id))
        return None

    async def _caller(self, scope: Scope) -> Caller | None:
        """The caller, if it may submit. A refusal is left to the middleware."""
        try:
            caller = await self._access.caller_of(Request(scope))
        except Exception:  # noqa: BLE001  the application's own function may raise anything; the middleware calls it again
            return None
        return caller if caller is not None and Role.SUBMIT in caller.roles else None

    def _order(self, message: Message, head: Head) -> JobOrder | None:
        """The job of a body; None for a body that did not come at once or is no valid job."""
        if message["type"] != "http.request" or message.get("more_body", False):
            return None
        text = message.get("body", b"")
        if len(text) != head.size:
            return None
        try:
            body = parsed(text, self._settings.max_depth)
            if type(body) is dict and body.keys() == _PLAIN and _is_plain(body["kind"], body["arguments"]):
                return JobOrder(
                    body["kind"], body["arguments"], {}
                )  # as the model has it, which takes longer
            return JobBody.model_validate(body).order()
        except (ProblemError, ValidationError):
            return None


class _Refusal:
    """Responds with an error, as the routes do."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not isinstance(self._error, WindlassError):
            raise self._error
        await response(scope, problem_of(self._error, Request(scope)))(scope, receive, send)


async def _accepted(scope: Scope, send: Send, made: Enqueued, request_id: bytes) -> None:
    ident = made.id.encode()
    text = _RESPONSE % (ident, _BOOL[made.created], _BOOL[made.replaced])
    base = scope.get("root_path", "").rstrip("/").encode()
    headers = [
        (b"content-length", b"%d" % len(text)),
        (b"content-type", b"application/json"),
        (b"location", b"%s%s/%s" % (base, PATH.encode(), ident)),
        (b"retry-after", b"1"),
        *RAW,
        (NAME, request_id),
    ]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def _is_plain(kind: object, arguments: object) -> bool:
    return type(kind) is str and len(kind) <= 1000 and type(arguments) is dict


async def _too_late() -> Message:
    """What a request receives whose body did not come in time: the middleware refuses it."""
    raise TimeoutError


def _replayed(first: Message, receive: Receive) -> Receive:
    """Receives a message again that was received, and then those that come."""
    again: list[Message] = [first]

    async def received() -> Message:
        return again.pop() if again else await receive()

    return received
