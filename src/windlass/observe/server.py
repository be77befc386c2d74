"""A small HTTP server for a worker: /metrics, /livez, /readyz, /healthz, and nothing else.

It only answers questions: GET and HEAD, no body is read, every connection is closed after one answer and within a few seconds, and
what goes wrong inside is logged here and never shown to the caller. It has no authentication, hence its default address.
"""

from __future__ import annotations

import io
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeVar

from windlass.errors import ConfigError
from windlass.model import Counts, PhasePause
from windlass.observe import health
from windlass.observe.logger import get_logger
from windlass.observe.report import EngineReport

T = TypeVar("T")
log = get_logger("windlass.observe")

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JSON_TYPE = "application/json; charset=utf-8"
PATIENCE = 5.0  # seconds a caller has for its whole request, and again for taking the answer
MOST_CALLERS = 16  # at a time; for one more, the one is cut off that has not asked for longest
PROBES = ("/livez", "/readyz")
PROBE_PLACES = 8  # beyond those: only probes are answered there, so that whoever reads slowly keeps none out

Answer = tuple[HTTPStatus, str, bytes]


def serve(
    host: str,
    port: int,
    report: Callable[[], EngineReport],
    metrics: Callable[[], bytes],
    *,
    counts: Callable[[], Mapping[str, Counts]] | None = None,
    paused: Callable[[], Sequence[PhasePause]] | None = None,
) -> Server:
    """Start answering on a thread of its own; port 0 takes a free one. ``counts`` adds the database's numbers to
    /healthz, ``paused`` the phases that are paused."""
    try:
        return Server(_Listener(host, port, _Answers(report, metrics, counts, paused)))
    except (OSError, OverflowError) as error:
        where = f"{host}:{port}"
        raise ConfigError(
            "metrics address", where, f"an address this process may listen on ({error})"
        ) from error


class Server:
    """A running server; ``close`` ends it."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener
        self.host, self.port = listener.server_address[:2]
        self._thread = threading.Thread(
            target=listener.serve_forever, args=(0.1,), name="windlass-http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening; may be called twice."""
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Answers:
    """What each path says."""

    def __init__(
        self,
        report: Callable[[], EngineReport],
        metrics: Callable[[], bytes],
        counts: Callable[[], Mapping[str, Counts]] | None,
        paused: Callable[[], Sequence[PhasePause]] | None,
    ) -> None:
        self._report = report
        self._metrics = metrics
        self._counts = counts
        self._paused = paused
        self._paths = {
            "/metrics": self._text,
            "/livez": self._live,
            "/readyz": self._ready,
            "/healthz": self._health,
        }

    def __call__(self, path: str) -> Answer:
        answer = self._paths.get(path.partition("?")[0])
        if answer is None:
            return _json(HTTPStatus.NOT_FOUND, {"error": "not found", "paths": sorted(self._paths)})
        try:
            return answer()
        except Exception:
            log.exception("the answer to a request could not be made")
            return _json(
                HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "this could not be found out; see the log"}
            )

    def _text(self) -> Answer:
        return HTTPStatus.OK, METRICS_TYPE, self._metrics()

    def _live(self) -> Answer:
        return _judged(health.live(self._report()))

    def _ready(self) -> Answer:
        return _judged(health.ready(self._report()))

    def _health(self) -> Answer:
        """Always whole, with the status of /readyz, so that whoever looks only at the number sees the same."""
        report = self._report()
        told = health.detailed(report, _asked(report, self._counts), _asked(report, self._paused))
        return _json(HTTPStatus.OK if told["ready"] else HTTPStatus.SERVICE_UNAVAILABLE, told)


def _asked(report: EngineReport, ask: Callable[[], T] | None) -> T | None:
    """What the database says, where it can be asked."""
    if ask is None or not report.store_reachable:
        return None
    try:
        return ask()
    except Exception:
        log.exception("the database could not be asked for a health report")
        return None


def _judged(answer: health.Answer) -> Answer:
    status = HTTPStatus.OK if answer else HTTPStatus.SERVICE_UNAVAILABLE
    return _json(status, {"status": health.OK if answer else health.DOWN, "reasons": answer.reasons})


def _json(status: HTTPStatus, told: Mapping[str, Any]) -> Answer:
    return status, JSON_TYPE, json.dumps(told, ensure_ascii=False).encode() + b"\n"


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, answers: _Answers) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answers = answers
        self._callers = _Callers(MOST_CALLERS, PROBE_PLACES)
        super().__init__((host, port), _Caller)

    def server_bind(self) -> None:
        """As HTTPServer does, without asking the name server who we are."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._callers.let_in(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was started
            self._callers.left(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._callers.left(request)

    def has_asked(self, request: Any, path: str) -> bool:
        """A caller's request is read. Whether it is answered; if so, whoever else comes."""
        return self._callers.has_asked(request, is_probe=path.partition("?")[0] in PROBES)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away, most of the time."""
        log.debug("a request ended badly", exc_info=True)  # noqa: LOG014  called inside `except`


class _Callers:
    """Those that are connected. Neither connections that ask nothing nor answers that are not read keep a probe out."""

    def __init__(self, most: int, probes: int) -> None:
        self._most, self._probes = most, probes
        self._lock = threading.Lock()
        self._silent: dict[socket.socket, None] = {}  # the oldest first
        self._probing: set[socket.socket] = set()
        self._answered: set[socket.socket] = set()

    def let_in(self, caller: socket.socket) -> bool:
        """Take one more in, for the oldest that has not asked if need be; False while all places are taken by answers."""
        with self._lock:
            connected = len(self._silent) + len(self._answered) + len(self._probing)
            if connected >= self._most + self._probes:
                oldest = next(iter(self._silent), None)
                if oldest is None:
                    return False
                del self._silent[oldest]
                with suppress(OSError):  # it went by itself
                    oldest.shutdown(socket.SHUT_RDWR)  # its own thread reads the end, and closes it
            self._silent[caller] = None
            return True

    def has_asked(self, caller: socket.socket, *, is_probe: bool) -> bool:
        """Whether there is a place for the answer. The answer to a probe is so short that it never waits for its reader."""
        with self._lock:
            if caller not in self._silent:  # it was cut off
                return False
            if not is_probe and len(self._answered) >= self._most:
                return False
            del self._silent[caller]
            (self._probing if is_probe else self._answered).add(caller)
            return True

    def left(self, caller: socket.socket) -> None:
        with self._lock:
            self._silent.pop(caller, None)
            self._answered.discard(caller)
            self._probing.discard(caller)


class _Caller(BaseHTTPRequestHandler):
    """One request, one answer."""

    server: _Listener
    server_version, sys_version = "windlass", ""
    timeout = PATIENCE

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Patient(self.connection, time.monotonic() + PATIENCE))

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self.server.has_asked(self.request, self.path):
            return True
        busy = {"error": "too many callers are being answered; try again"}
        self._answer(*_json(HTTPStatus.SERVICE_UNAVAILABLE, busy))
        return False

    def do_GET(self) -> None:
        self._answer(*self.server.answers(self.path))

    def do_HEAD(self) -> None:
        self.do_GET()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # every other method
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        told = _json(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET and HEAD are answered"})
        self._answer(*told, allow="GET, HEAD")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes, *, allow: str | None = None) -> None:
        self.connection.settimeout(PATIENCE)
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if allow:
            self.send_header("Allow", allow)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """For requests that cannot be read: a status, and nothing of what was sent."""
        self.command = getattr(self, "command", None) or ""
        self.request_version = getattr(self, "request_version", None) or "HTTP/1.0"
        self._answer(*_json(HTTPStatus(code), {"error": HTTPStatus(code).phrase.lower()}))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name in the standard library
        """Requests are not logged; a scraper comes every few seconds."""


class _Patient(io.RawIOBase):
    """Reads from a socket until a moment, however slowly the bytes come."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection = connection
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)
