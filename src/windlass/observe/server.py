"""A small HTTP server for a worker: /metrics, /livez, /readyz, /healthz, and nothing else.

It is read-only: GET and HEAD, no body is read, every connection is closed after one response and within a few seconds. Errors are logged
here and never shown to the client. It has no authentication, hence its default address.
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
from typing import Any, TypeVar

from windlass.closing import Closing
from windlass.errors import ConfigError
from windlass.model import Counts, PhasePause
from windlass.observe import health
from windlass.observe.logger import get_logger
from windlass.observe.report import EngineReport

T = TypeVar("T")
log = get_logger("windlass.observe")

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JSON_TYPE = "application/json; charset=utf-8"
TIMEOUT = 5.0  # seconds for a client to send its request, and again to read the response
MAX_CONNECTIONS = 16  # at a time; for one more, the oldest one without a request is closed
PROBES = ("/livez", "/readyz")
MAX_PROBES = 8  # beyond those, for probes only, so that slow clients do not keep probes out

Response = tuple[HTTPStatus, str, bytes]


def serve(
    host: str,
    port: int,
    report: Callable[[], EngineReport],
    metrics: Callable[[], bytes],
    *,
    counts: Callable[[], Mapping[str, Counts]] | None = None,
    paused: Callable[[], Sequence[PhasePause]] | None = None,
) -> Server:
    """Start the server on its own thread; port 0 means any free port. ``counts`` adds the database's numbers to /healthz, ``paused``
    the paused phases."""
    try:
        return Server(_Listener(host, port, _Paths(report, metrics, counts, paused)))
    except (OSError, OverflowError) as error:
        where = f"{host}:{port}"
        raise ConfigError(
            "metrics address", where, f"an address this process may listen on ({error})"
        ) from error


class Server(Closing):
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
        self._thread.join(TIMEOUT)


class _Paths:
    """Makes the response of each path."""

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

    def __call__(self, path: str) -> Response:
        respond = self._paths.get(path.partition("?")[0])
        if respond is None:
            return _json(HTTPStatus.NOT_FOUND, {"error": "not found", "paths": sorted(self._paths)})
        try:
            return respond()
        except Exception:
            log.exception("the response to a request could not be made")
            return _json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "internal error; see the log"})

    def _text(self) -> Response:
        return HTTPStatus.OK, METRICS_TYPE, self._metrics()

    def _live(self) -> Response:
        return _result(health.live(self._report()))

    def _ready(self) -> Response:
        return _result(health.ready(self._report()))

    def _health(self) -> Response:
        """Always complete, with the HTTP status of /readyz."""
        report = self._report()
        data = health.detailed(report, _read(report, self._counts), _read(report, self._paused))
        return _json(HTTPStatus.OK if data["ready"] else HTTPStatus.SERVICE_UNAVAILABLE, data)


def _read(report: EngineReport, ask: Callable[[], T] | None) -> T | None:
    """Read from the database, if it can be reached."""
    if ask is None or not report.store_reachable:
        return None
    try:
        return ask()
    except Exception:
        log.exception("the database could not be read for a health report")
        return None


def _result(result: health.Result) -> Response:
    status = HTTPStatus.OK if result else HTTPStatus.SERVICE_UNAVAILABLE
    return _json(status, {"status": health.OK if result else health.DOWN, "reasons": result.reasons})


def _json(status: HTTPStatus, data: Mapping[str, Any]) -> Response:
    return status, JSON_TYPE, json.dumps(data, ensure_ascii=False).encode() + b"\n"


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, paths: _Paths) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.paths = paths
        self._connections = _Connections(MAX_CONNECTIONS, MAX_PROBES)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind like HTTPServer, without a query to the name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._connections.add(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was started
            self._connections.left(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.left(request)

    def may_respond(self, request: Any, path: str) -> bool:
        """Whether a request that was read gets a response; if so, the connection is not closed for others."""
        return self._connections.may_respond(request, is_probe=path.partition("?")[0] in PROBES)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error of a connection: mostly a client that is gone."""
        log.debug("a request ended with an error", exc_info=True)  # noqa: LOG014  called inside `except`


class _Connections:
    """The open connections. Neither connections without a request nor responses that are not read keep a probe out."""

    def __init__(self, most: int, probes: int) -> None:
        self._most, self._probes = most, probes
        self._lock = threading.Lock()
        self._idle: dict[socket.socket, None] = {}  # the oldest first
        self._probing: set[socket.socket] = set()
        self._responding: set[socket.socket] = set()

    def add(self, caller: socket.socket) -> bool:
        """Add a connection, if necessary in place of the oldest one without a request; False if all have responses."""
        with self._lock:
            connected = len(self._idle) + len(self._responding) + len(self._probing)
            if connected >= self._most + self._probes:
                oldest = next(iter(self._idle), None)
                if oldest is None:
                    return False
                del self._idle[oldest]
                with suppress(OSError):  # it is closed already
                    oldest.shutdown(socket.SHUT_RDWR)  # its own thread closes it
            self._idle[caller] = None
            return True

    def may_respond(self, caller: socket.socket, *, is_probe: bool) -> bool:
        """Whether there is room for the response. The response to a probe is so short that it never waits for its reader."""
        with self._lock:
            if caller not in self._idle:  # it was cut off
                return False
            if not is_probe and len(self._responding) >= self._most:
                return False
            del self._idle[caller]
            (self._probing if is_probe else self._responding).add(caller)
            return True

    def left(self, caller: socket.socket) -> None:
        with self._lock:
            self._idle.pop(caller, None)
            self._responding.discard(caller)
            self._probing.discard(caller)


class _Handler(BaseHTTPRequestHandler):
    """Handles one request and closes the connection."""

    server: _Listener
    server_version, sys_version = "windlass", ""
    timeout = TIMEOUT

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_DeadlineReader(self.connection, time.monotonic() + TIMEOUT))

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self.server.may_respond(self.request, self.path):
            return True
        busy = {"error": "too many requests at a time; try again"}
        self._respond(*_json(HTTPStatus.SERVICE_UNAVAILABLE, busy))
        return False

    def do_GET(self) -> None:
        self._respond(*self.server.paths(self.path))

    def do_HEAD(self) -> None:
        self.do_GET()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # every other method
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        response = _json(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET and HEAD are allowed"})
        self._respond(*response, allow="GET, HEAD")

    def _respond(self, status: HTTPStatus, kind: str, body: bytes, *, allow: str | None = None) -> None:
        self.connection.settimeout(TIMEOUT)
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
        """Respond to an invalid request with a status, without any text of the request."""
        self.command = getattr(self, "command", None) or ""
        self.request_version = getattr(self, "request_version", None) or "HTTP/1.0"
        self._respond(*_json(HTTPStatus(code), {"error": HTTPStatus(code).phrase.lower()}))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name in the standard library
        """Log no requests: a scraper sends one every few seconds."""


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a deadline, however slowly the bytes come."""

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
