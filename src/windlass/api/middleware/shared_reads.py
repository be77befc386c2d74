"""Shares reads between callers that accept an age: with ``Cache-Control: max-age=10`` a GET may get the response of a read that began up to ten
seconds ago, for a caller of the same scope and roles. Fifty open dashboards cost the database what one costs.

A read that is still running is shared as well. After an act a caller gets only reads that began after the act. Without the header nothing is shared.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from starlette._utils import get_route_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.api.access.caller import Caller
from windlass.api.middleware.headers import header_of
from windlass.control.actor import Actor

LONGEST: Final = 600
"""Seconds; a caller that accepts older reads gets none that is older."""
MOST_READS, MOST_BYTES = 500, 16_000_000
MOST_ACTORS: Final = 10_000
_ASKED = re.compile(rb"max-age=([0-9]{1,9})")
_OWN = (b"if-none-match", b"prefer", b"range", b"last-event-id")
"""Headers of requests whose responses are their own."""
_TELLS_WHO = "/v1/session"


def accepted_age(scope: Scope) -> int:
    """The age in seconds that a request accepts; 0 without one."""
    given = header_of(scope, b"cache-control")
    found = _ASKED.search(given) if given and scope["method"] == "GET" else None
    return 0 if found is None else min(int(found[1]), LONGEST)


@dataclass(frozen=True, slots=True)
class _Response:
    start: Message
    body: bytes

    async def send(self, send: Send, age: float) -> None:
        headers = [*self.start["headers"], (b"age", b"%d" % age)]
        await send({**self.start, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


@dataclass(eq=False, slots=True)
class _Read:
    """A read; it runs until it has a response. A read that cannot be shared ends without one."""

    began: float
    loop: asyncio.AbstractEventLoop
    over: asyncio.Event = field(default_factory=asyncio.Event)
    response: _Response | None = None


class Reads:
    """The reads of one API, and when each caller last acted."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._lock = threading.Lock()  # servers in several threads may serve one API
        self._reads: dict[Hashable, _Read] = {}
        self._acts: dict[Hashable, float] = {}

    def acted(self, caller: Caller) -> None:
        """The caller has changed something: what was read before is too old for that caller."""
        with self._lock:
            if len(self._acts) >= MOST_ACTORS:
                self._acts.clear()
                self._reads.clear()
            self._acts[_who(caller)] = self.now()

    def find(self, key: Hashable, caller: Caller, age: int) -> _Read | None:
        """A read that is not older than ``age`` and than the caller's last act."""
        read = self._reads.get(key)
        if read is None or (read.response is None and read.loop is not asyncio.get_running_loop()):
            return None
        is_new = read.began >= self.now() - age and read.began > self._acts.get(_who(caller), float("-inf"))
        return read if is_new else None

    def begin(self, key: Hashable) -> _Read:
        """A new read in the place of an older one."""
        read = _Read(self.now(), asyncio.get_running_loop())
        with self._lock:
            self._reads.pop(key, None)
            self._reads[key] = read
        return read

    def end(self, key: Hashable, read: _Read) -> None:
        """Wake the callers that wait for a read; keep it if its status is 200."""
        read.over.set()
        with self._lock:
            self._keep(key, read)

    def _keep(self, key: Hashable, read: _Read) -> None:
        if self._reads.get(key) is read and (read.response is None or read.response.start["status"] != 200):
            del self._reads[key]
        size = sum(len(one.response.body) for one in self._reads.values() if one.response is not None)
        while size > MOST_BYTES or len(self._reads) > MOST_READS:
            oldest = self._reads.pop(next(iter(self._reads)))
            size -= 0 if oldest.response is None else len(oldest.response.body)


class SharedReads:
    """Responds to a GET with a read that is new enough for it, or makes one that others may share."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller | None = scope["state"].get("caller") if scope["type"] == "http" else None
        if caller is None:
            await self._app(scope, receive, send)
            return
        reads: Reads = scope["app"].state.reads
        if scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, _noting(reads, caller, send))
            return
        age = accepted_age(scope)
        if not age or not _is_sharable(scope):
            await self._app(scope, receive, send)
            return
        key = _key(scope, caller)
        while (read := reads.find(key, caller, age)) is not None:
            await read.over.wait()
            if read.response is not None:
                await read.response.send(send, reads.now() - read.began)
                return
        await self._read(reads, key, (scope, receive, send))

    async def _read(self, reads: Reads, key: Hashable, request: tuple[Scope, Receive, Send]) -> None:
        scope, receive, send = request
        read = reads.begin(key)
        start: Message | None = None
        body: list[bytes] | None = []

        async def held(message: Message) -> None:
            """Hold a response of JSON until it is whole; pass anything else on, such as a stream."""
            nonlocal start, body
            if message["type"] == "http.response.start" and _is_json(message):
                start = message
                return
            if start is None or body is None:
                body = None
                reads.end(key, read)
                await send(message)
                return
            body.append(message.get("body", b""))
            if not message.get("more_body", False):
                read.response = _Response(start, b"".join(body))
                reads.end(key, read)
                await read.response.send(send, 0)

        try:
            await self._app(scope, receive, held)
        finally:
            reads.end(key, read)


def _noting(reads: Reads, caller: Caller, send: Send) -> Send:
    """Notes the act of a caller before its response is sent."""

    async def noted(message: MutableMapping[str, object]) -> None:
        if message["type"] == "http.response.start":
            reads.acted(caller)
        await send(message)

    return noted


def _who(caller: Caller) -> Hashable:
    who = caller.principal
    return who.issuer, who.subject, who.tenant


def _key(scope: Scope, caller: Caller) -> Hashable:
    """What a response is made of: the request, and what its caller may see."""
    sees = Actor.of(caller.principal).scope
    request = scope["path"], scope["query_string"], scope.get("root_path", "")
    form = header_of(scope, b"accept"), header_of(scope, b"accept-encoding")
    return request, form, sees, frozenset(caller.roles), frozenset(caller.principal.roles)


def _is_sharable(scope: Scope) -> bool:
    return get_route_path(scope) != _TELLS_WHO and not any(header_of(scope, name) for name in _OWN)


def _is_json(start: Message) -> bool:
    return any(name == b"content-type" and b"json" in value for name, value in start["headers"])
