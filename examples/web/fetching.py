"""Fetches a page that a user named, with limits of size and time, and never from the own network.

A name is resolved once. All its addresses are checked, and the connection goes to a checked address, so a resolver that returns another
address the next time changes nothing. Each redirect is checked like the first URL. Proxies of the environment are not used.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urljoin

from windlass_examples.web.addresses import PORTS, RefusedError, Target, check_address, target

REDIRECTS = frozenset({301, 302, 303, 307, 308})
PAGES = frozenset({"text/html", "application/xhtml+xml"})
Resolve = Callable[[str, int], Sequence[str]]
Dial = Callable[[tuple[str, int], float], socket.socket]


class UnreachableError(Exception):
    """The page could not be fetched now; a further attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Page:
    """A fetched page."""

    url: str
    body: bytes
    charset: str | None


def resolve(host: str, port: int) -> list[str]:
    """All addresses of a host, by the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def dial(address: tuple[str, int], seconds: float) -> socket.socket:
    """Connect to an address."""
    return socket.create_connection(address, timeout=seconds)


@dataclass(frozen=True)
class Fetcher:
    """Fetches pages. ``allowed`` has the authorities (``127.0.0.1:8000``) of the operator's own sites, which are not checked."""

    allowed: frozenset[str] = frozenset()
    ports: frozenset[int] | None = PORTS
    max_bytes: int = 2_000_000
    seconds: float = 15.0
    max_redirects: int = 5
    agent: str = "windlass-visibility/1.0"
    resolve: Resolve = resolve
    dial: Dial = dial
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    @classmethod
    def from_environment(cls) -> Fetcher:
        """A fetcher with the own sites of ``EXAMPLES_ALLOWED_SITES``, separated by commas."""
        names = os.environ.get("EXAMPLES_ALLOWED_SITES", "").split(",")
        return cls(allowed=frozenset(name for name in names if name))

    def check(self, url: str) -> Target:
        """The target of a URL, or ``RefusedError``; no name is resolved."""
        return target(url, ports=self.ports, allowed=self.allowed)

    def fetch(self, url: str) -> Page:
        """Fetch a page, and follow redirects. ``RefusedError`` is final, ``UnreachableError`` is not."""
        wanted = self.check(url)
        for _ in range(self.max_redirects + 1):
            found = self._request(wanted)
            if isinstance(found, Page):
                return found
            wanted = self.check(urljoin(wanted.url, found))
        raise RefusedError(f"more than {self.max_redirects} redirects")

    def _request(self, wanted: Target) -> Page | str:
        """The page, or the address that it redirects to."""
        addresses = self._addresses(wanted)
        with _limited(self.seconds) as limit:
            try:
                connection = self._connect(wanted, addresses, limit)
                connection.request("GET", wanted.path, headers=self._headers())
                with connection.getresponse() as response:
                    found = self._read(wanted, response)
                if limit.is_over:  # the end of the connection would pass for the end of the page
                    raise TimeoutError
                return found
            except (OSError, http.client.HTTPException) as error:
                reason = f"no page within {self.seconds:g} s" if limit.is_over else str(error)
                raise UnreachableError(f"{wanted.url}: {reason or type(error).__name__}") from error

    def _addresses(self, wanted: Target) -> Sequence[str]:
        try:
            addresses = self.resolve(wanted.host, wanted.port)
        except (OSError, UnicodeError) as error:
            raise UnreachableError(f"{wanted.host} cannot be resolved: {error}") from error
        if wanted.authority not in self.allowed:
            for address in addresses:
                check_address(address)
        return addresses

    def _connect(self, wanted: Target, addresses: Sequence[str], limit: _Limit) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(wanted.host, wanted.port)
        error: OSError = ConnectionError(f"{wanted.host} has no address")
        for address in addresses:
            try:
                plain = self.dial((address, wanted.port), self.seconds)
            except OSError as failure:
                error = failure
                continue
            limit.sockets.append(plain)
            if wanted.scheme == "https":
                secure = self.tls.wrap_socket(plain, server_hostname=wanted.host)
                limit.sockets.append(secure)
                connection.sock = secure
            else:
                connection.sock = plain
            return connection
        raise error

    def _headers(self) -> dict[str, str]:
        return {
            "User-Agent": self.agent,
            "Accept": "text/html,application/xhtml+xml",
            "Accept-Encoding": "identity",  # a compressed body could grow without limit
            "Connection": "close",
        }

    def _read(self, wanted: Target, response: http.client.HTTPResponse) -> Page | str:
        location = response.getheader("Location")
        if response.status in REDIRECTS and location:
            return location
        if response.status >= 500 or response.status == 429:
            raise UnreachableError(f"{wanted.url}: status {response.status}")
        if response.status != 200:
            raise RefusedError(f"{wanted.url}: status {response.status}")
        if response.headers.get_content_type() not in PAGES:
            raise RefusedError(f"{wanted.url} is {response.headers.get_content_type()}, not HTML")
        if (response.getheader("Content-Encoding") or "identity").lower() != "identity":
            raise RefusedError(f"{wanted.url} is compressed, although plain text was requested")
        body = response.read(self.max_bytes + 1)
        if len(body) > self.max_bytes:
            raise RefusedError(f"{wanted.url} is larger than {self.max_bytes:,} bytes")
        return Page(wanted.url, body, response.headers.get_content_charset())


class _Limit:
    """Ends the connections of a request when its time is over, also while a server sends a byte a second."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.is_over = False

    def end(self) -> None:
        self.is_over = True
        for sock in self.sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


@contextmanager
def _limited(seconds: float) -> Iterator[_Limit]:
    limit = _Limit()
    timer = threading.Timer(seconds, limit.end)
    timer.daemon = True
    timer.start()
    try:
        yield limit
    finally:
        timer.cancel()
        for sock in limit.sockets:
            sock.close()
