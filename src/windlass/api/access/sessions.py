"""Sessions of browsers: signed cookies, and the codes of one-time links.

A cookie names the way in which the session began, never a secret: a one-time link, or an API token by its id. The token is read with every
request, so that a session ends with its token. The signature is HMAC-SHA256 with a key that is made at the start, unless it is set.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.api.access.addresses import host_of, is_loopback

NAME: Final = "windlass_session"
MAX_COOKIE: Final = 1000
LINK_TIME: Final = 3600.0
"""Seconds that a one-time link can be used."""
MAX_LINKS: Final = 100
_CONTEXT: Final = b"windlass session cookie\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session: the API token that it began with (None for a one-time link), its end, and its number."""

    token: str | None
    ends_at: float
    number: str


class Sessions:
    """Begins, recognises and ends sessions."""

    def __init__(self, secret: str | None, lasts: float, *, now: Callable[[], float] = time.time) -> None:
        key = secrets.token_bytes(32) if secret is None else secret.encode()
        self._key = hashlib.sha256(_CONTEXT + key).digest()
        self._lasts = lasts
        self._now = now
        self._lock = threading.Lock()
        self._ended: dict[str, float] = {}
        self._links: dict[str, float] = {}

    # ------------------------------------------------------------------ one-time links

    def new_code(self) -> str:
        """The code of a new one-time link."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            self._links = {one: end for one, end in self._links.items() if end > self._now()}
            if len(self._links) >= MAX_LINKS:
                self._links.pop(next(iter(self._links)))
            self._links[_digest(code)] = self._now() + LINK_TIME
        return code

    def take_code(self, code: str) -> bool:
        """Whether a code is one of a link that was not used; the code cannot be used again."""
        with self._lock:
            end = self._links.pop(_digest(code), None)
        return end is not None and end > self._now()

    # ------------------------------------------------------------------ cookies

    def begin(self, request: Request, response: Response, token: str | None) -> Session:
        """Begin a session: set its cookie. ``token`` is the id of an API token; None for the person at this machine."""
        session = Session(token=token, ends_at=self._now() + self._lasts, number=secrets.token_urlsafe(16))
        value = base64.urlsafe_b64encode(json.dumps(asdict(session)).encode()).rstrip(b"=").decode()
        response.set_cookie(
            _name(request),
            f"{value}.{self._signature(value)}",
            max_age=int(self._lasts),
            path=_path(request),
            secure=_is_secure(request),
            httponly=True,
            samesite="lax",
        )
        return session

    def read(self, request: Request) -> Session | None:
        """The session of a request; None without a cookie, or with one that is wrong, over or ended."""
        cookie = request.cookies.get(_name(request), "")
        value, _, signature = cookie.partition(".")
        if not value or len(cookie) > MAX_COOKIE or not cookie.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature(value)):
            return None
        session = Session(**json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))))
        return None if session.ends_at <= self._now() or session.number in self._ended else session

    def end(self, request: Request, response: Response) -> None:
        """End the session of a request: its cookie is no longer accepted by this server, and the browser forgets it."""
        if (session := self.read(request)) is not None:
            with self._lock:
                self._ended = {one: end for one, end in self._ended.items() if end > self._now()}
                self._ended[session.number] = session.ends_at
        response.delete_cookie(
            _name(request), path=_path(request), secure=_is_secure(request), httponly=True, samesite="lax"
        )

    def _signature(self, value: str) -> str:
        return hmac.new(self._key, value.encode(), hashlib.sha256).hexdigest()


def _digest(code: str) -> str:
    """Codes are kept and compared by their digests, so that the time of a comparison does not show how much of a code was right."""
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


def _name(request: Request) -> str:
    """The name of the cookie. A browser sends a cookie to all ports of a machine, so that servers on several ports need cookies of their own."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{NAME}_{port}" if port.isdigit() else NAME


def _path(request: Request) -> str:
    return f"{request.scope.get('root_path', '').rstrip('/')}/"


def _is_secure(request: Request) -> bool:
    """Whether the browser may send the cookie over TLS only: always, but on this machine without TLS."""
    return request.url.scheme == "https" or not is_loopback(host_of(request.headers.get("host", "")))
