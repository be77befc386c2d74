"""The fetcher of the examples: what it refuses, shown with sockets that listen on this machine."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.waiting import PATIENCE
from windlass_examples.web import fetching
from windlass_examples.web.addresses import PORTS, RefusedError, check_address, target
from windlass_examples.web.fetching import Fetcher, UnreachableError
from windlass_examples.web.servers import PATHS, Server, serving

PUBLIC = "93.184.216.34"
NAMES = {
    "public.test": [PUBLIC],
    "inner.test": ["127.0.0.1"],
    "mixed.test": [PUBLIC, "127.0.0.1"],
    "six.test": ["::1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "scoped.test": ["fe80::1%lo"],
    "private.test": ["10.0.0.1"],
}
CASES = (
    # names and forms of loopback, as the resolver and browsers read them
    "http://127.0.0.1:{p}/", "http://127.0.0.2:{p}/", "http://127.1:{p}/", "http://127.0.1:{p}/", "http://0:{p}/",
    "http://0.0.0.0:{p}/", "http://2130706433:{p}/", "http://0x7f000001:{p}/", "http://0x7f.0.0.1:{p}/", "http://0x7f.1:{p}/",
    "http://017700000001:{p}/", "http://0177.0.0.1:{p}/", "http://0177.1:{p}/", "http://127.0.0.1.:{p}/",
    "http://127.000.000.001:{p}/", "http://00000127.0.0.1:{p}/", "http://localhost:{p}/", "http://LOCALHOST:{p}/",
    "http://localhost.:{p}/", "http://127.0.0.1%00:{p}/", "http://127.0.0.1%2e:{p}/", "http://4294967297:{p}/",
    "http://１２７.０.０.１:{p}/", "http://127。0。0。1:{p}/", "http://①②⑦.⓪.⓪.①:{p}/", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{p}/",
    # IPv6, and IPv6 that carries IPv4
    "http://[::1]:{p}/", "http://[::]:{p}/", "http://[0:0:0:0:0:0:0:1]:{p}/", "http://[::ffff:127.0.0.1]:{p}/",
    "http://[::ffff:7f00:1]:{p}/", "http://[::127.0.0.1]:{p}/", "http://[::ffff:0:127.0.0.1]:{p}/",
    "http://[64:ff9b::7f00:1]:{p}/", "http://[2002:7f00:1::]:{p}/", "http://[fe80::1]:{p}/", "http://[fe80::1%25lo]:{p}/",
    "http://[fc00::1]:{p}/", "http://[fec0::1]:{p}/", "http://[ff02::1]:{p}/", "http://[::1:{p}/",
    # networks that are not public
    "http://10.0.0.1:{p}/", "http://172.16.0.1:{p}/", "http://192.168.0.1:{p}/", "http://169.254.169.254:{p}/latest/meta-data",
    "http://100.64.0.1:{p}/", "http://198.18.0.1:{p}/", "http://192.0.0.1:{p}/", "http://224.0.0.1:{p}/", "http://255.255.255.255:{p}/",
    # users, backslashes, spaces, other schemes
    "http://public.test@127.0.0.1:{p}/", "http://127.0.0.1:{p}@public.test/", "http://public.test\\@127.0.0.1:{p}/",
    "http://127.0.0.1:{p}\\.public.test/", "http://127.0.0.1 .public.test:{p}/", "http://127.0.0.1\t:{p}/", "http://127.0.0.1:{p}\r\nHost:x/",
    "file:///etc/passwd", "ftp://127.0.0.1:{p}/", "gopher://127.0.0.1:{p}/_x", "//127.0.0.1:{p}/", "http:///127.0.0.1:{p}/",
    "http:127.0.0.1:{p}", "dict://127.0.0.1:{p}/", "http://127.0.0.1:99999/",
    # names that lead inside
    "http://inner.test:{p}/", "http://mixed.test:{p}/", "http://six.test:{p}/", "http://mapped.test:{p}/",
    "http://metadata.test:{p}/", "http://scoped.test:{p}/", "http://private.test:{p}/",
)  # fmt: skip
REDIRECTS = (
    "http://127.0.0.1:{p}/", "//127.0.0.1:{p}/", "http://2130706433:{p}/", "http://[::1]:{p}/", "http://[::ffff:127.0.0.1]:{p}/",
    "http://inner.test:{p}/", "http://mixed.test:{p}/", "file:///etc/passwd", "ftp://127.0.0.1:{p}/", "http://x@127.0.0.1:{p}/",
    "http://169.254.169.254/",
)  # fmt: skip


class Doors:
    """Sockets that listen on all addresses of this machine, on one port; nobody accepts, so a connection waits in the queue."""

    def __init__(self) -> None:
        self.port = 0
        self._sockets: list[socket.socket] = []
        for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
            try:
                door = socket.socket(family)
                if family == socket.AF_INET6:
                    door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                door.bind((address, self.port))
            except OSError:
                continue  # no IPv6 here, or its port is taken
            door.listen()
            door.setblocking(False)
            self.port = door.getsockname()[1]
            self._sockets.append(door)

    def knocked(self) -> bool:
        """Whether a connection was made."""
        for door in self._sockets:
            try:
                door.accept()[0].close()
            except BlockingIOError:
                continue
            return True
        return False

    def close(self) -> None:
        for door in self._sockets:
            door.close()


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    made = Doors()
    yield made
    made.close()


def dial(address: tuple[str, int], seconds: float) -> socket.socket:
    """Connect as ever, but not to the internet: the tests have none."""
    if address[0] == PUBLIC:
        raise ConnectionRefusedError("a test connects to this machine only")
    return fetching.dial(address, seconds)


def resolve(host: str, port: int) -> list[str]:
    return NAMES.get(host) or fetching.resolve(host, port)


def fetcher(**changes: Any) -> Fetcher:
    return Fetcher(**{"ports": None, "resolve": resolve, "dial": dial, "seconds": PATIENCE, **changes})


@pytest.mark.parametrize("url", CASES)
def test_no_url_leads_inside(doors: Doors, url: str) -> None:
    with pytest.raises(RefusedError):
        fetcher().fetch(url.format(p=doors.port))
    assert not doors.knocked()


def test_the_doors_notice_a_connection(doors: Doors) -> None:
    """Else the test above could not fail."""
    with pytest.raises(UnreachableError):
        fetcher(allowed=frozenset({f"127.0.0.1:{doors.port}"}), seconds=0.3).fetch(
            f"http://127.0.0.1:{doors.port}/"
        )
    assert doors.knocked()


class Redirecting(BaseHTTPRequestHandler):
    """Redirects to the decoded rest of its path."""

    goal = ""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", self.goal)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None: ...


@pytest.fixture(scope="module")
def redirecting() -> Iterator[Server]:
    server = Server(Redirecting)
    with serving(server):
        yield server


@pytest.mark.parametrize("goal", REDIRECTS)
def test_no_redirect_leads_inside(doors: Doors, redirecting: Server, goal: str, monkeypatch) -> None:
    monkeypatch.setattr(Redirecting, "goal", goal.format(p=doors.port))
    with pytest.raises(RefusedError):
        fetcher(allowed=frozenset({redirecting.authority})).fetch(f"http://{redirecting.authority}/")
    assert not doors.knocked()


def test_a_circle_of_redirects_ends(redirecting: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redirecting, "goal", "/again")
    with pytest.raises(RefusedError, match="more than 5 redirects"):
        fetcher(allowed=frozenset({redirecting.authority})).fetch(f"http://{redirecting.authority}/")


def test_a_resolver_that_changes_its_mind_is_asked_once(doors: Doors) -> None:
    """DNS rebinding: the checked address is the one that is dialled."""
    replies = itertools.chain([[PUBLIC]], itertools.repeat(["127.0.0.1"]))
    dialled: list[str] = []

    def record(address: tuple[str, int], seconds: float) -> socket.socket:
        dialled.append(address[0])
        return dial(address, seconds)

    changing = fetcher(resolve=lambda host, port: next(replies), dial=record)
    with pytest.raises(UnreachableError):
        changing.fetch(f"http://rebinding.test:{doors.port}/")
    assert dialled == [PUBLIC]
    with pytest.raises(RefusedError):
        changing.fetch(f"http://rebinding.test:{doors.port}/")  # the next request sees the other address
    assert dialled == [PUBLIC] and not doors.knocked()


@pytest.mark.parametrize("port", [22, 25, 6379, 8080, 65535])
def test_only_the_usual_ports(port: int) -> None:
    with pytest.raises(RefusedError, match=f"port {port}"):
        target(f"http://public.test:{port}/", ports=PORTS)


def test_public_addresses_are_accepted() -> None:
    for address in (PUBLIC, "8.8.8.8", "2606:4700:4700::1111"):
        check_address(address)
    assert (
        target("https://Example.org/a b?c=d é".replace(" ", "%20")).url
        == "https://example.org/a%20b?c=d%20%C3%A9"
    )
    assert target("http://bücher.example").host == "xn--bcher-kva.example"


def test_an_own_site_is_fetched(site: Server) -> None:
    page = fetcher(allowed=frozenset({site.authority})).fetch(f"http://{site.authority}{PATHS[0]}")
    assert b"<title>" in page.body and page.charset == "utf-8"


class Odd(BaseHTTPRequestHandler):
    """Replies as its path says."""

    stop = threading.Event()

    def do_GET(self) -> None:
        kinds = {"/image": "image/png"}
        self.send_response({"/gone": 404, "/broken": 503}.get(self.path, 200))
        self.send_header("Content-Type", kinds.get(self.path, "text/html"))
        if self.path == "/gzip":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.path == "/large":
            self.wfile.write(b"x" * 2000)
        try:
            while self.path == "/slow" and not self.stop.wait(0.02):
                self.wfile.write(b"x")
        except OSError:
            self.close_connection = True

    def log_message(self, *args: object) -> None: ...


@pytest.mark.parametrize(
    ("path", "error", "text"),
    [
        ("/image", RefusedError, "not HTML"),
        ("/gzip", RefusedError, "compressed"),
        ("/large", RefusedError, "larger than 1,000 bytes"),
        ("/gone", RefusedError, "status 404"),
        ("/broken", UnreachableError, "status 503"),
        ("/slow", UnreachableError, "no page within 0.5 s"),
    ],
)
def test_limits(path: str, error: type[Exception], text: str) -> None:
    server = Server(Odd)
    with ExitStack() as stack:
        stack.enter_context(serving(server))
        stack.callback(Odd.stop.set)
        Odd.stop.clear()
        own = fetcher(
            allowed=frozenset({server.authority}), max_bytes=1000, seconds=0.5 if path == "/slow" else 30.0
        )
        with pytest.raises(error, match=text):
            own.fetch(f"http://{server.authority}{path}")
