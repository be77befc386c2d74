"""The worker's HTTP server, over real sockets."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.observe.reports import a_report
from tests.waiting import PATIENCE
from windlass.errors import ConfigError
from windlass.model import Counts
from windlass.observe import server as server_module
from windlass.observe.metrics import Metrics
from windlass.observe.report import EngineReport, StatsReport
from windlass.observe.server import Server, serve

pytestmark = pytest.mark.timing

Ask = Callable[..., tuple[int, dict[str, str], bytes]]


class Instance:
    """What the server is asked about."""

    def __init__(self) -> None:
        self.now = a_report()
        self.metrics = Metrics(StatsReport, self.report)

    def report(self) -> EngineReport:
        return self.now

    def counts(self) -> dict[str, Counts]:
        return {"welcome": Counts(queued=7)}


@pytest.fixture
def instance() -> Instance:
    return Instance()


@pytest.fixture
def server(instance: Instance) -> Iterator[Server]:
    with serve("127.0.0.1", 0, instance.report, instance.metrics.render, counts=instance.counts) as made:
        yield made


@pytest.fixture
def ask(server: Server) -> Ask:
    def ask(path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    return ask


def _raw(port: int, sent: bytes, timeout: float = PATIENCE) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        connection.sendall(sent)
        received = b""
        while data := connection.recv(65536):
            received += data
        return received


def test_metrics_can_be_scraped(ask: Ask) -> None:
    status, headers, body = ask("/metrics")
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "windlass_queue_size" in {family.name for family in text_string_to_metric_families(body.decode())}


def test_health_follows_the_report(ask: Ask, instance: Instance) -> None:
    assert [ask(path)[0] for path in ("/livez", "/readyz", "/healthz")] == [200, 200, 200]
    instance.now = a_report(store_reachable=False)
    assert [ask(path)[0] for path in ("/livez", "/readyz", "/healthz")] == [200, 503, 503]
    assert json.loads(ask("/readyz")[2]) == {"status": "down", "reasons": ["the database does not answer"]}
    instance.now = a_report(state="stopped")
    assert [ask(path)[0] for path in ("/livez", "/readyz", "/healthz")] == [503, 503, 503]


def test_the_detailed_report(ask: Ask, instance: Instance) -> None:
    instance.now = a_report(degraded=["listener: no notifications"])
    status, headers, body = ask("/healthz?pretty=1")
    told = json.loads(body)
    assert status == 200 and headers["Content-Type"] == "application/json; charset=utf-8"
    assert (told["status"], told["parts"]["listener"]["state"]) == ("degraded", "degraded")
    assert told["jobs"]["welcome"]["queued"] == 7


def test_head_has_no_body(ask: Ask) -> None:
    status, headers, body = ask("/healthz", "HEAD")
    assert status == 200 and int(headers["Content-Length"]) > 100 and body == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FROB"])
def test_other_methods_are_refused(ask: Ask, method: str) -> None:
    status, headers, body = ask("/metrics", method, b"x" * 100)
    assert status == 405 and headers["Allow"] == "GET, HEAD" and b"windlass_" not in body


def test_other_paths_are_not_found(ask: Ask) -> None:
    for path in ("/", "/metrics/", "/metricsx", "/../etc/passwd"):
        status, _, body = ask(path)
        assert status == 404 and "/metrics" in json.loads(body)["paths"]


def test_answers_say_little_about_us(ask: Ask) -> None:
    _, headers, _ = ask("/livez")
    assert headers["Server"].strip() == "windlass"
    assert headers["Cache-Control"] == "no-store"


def test_what_goes_wrong_inside_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Any:
        raise RuntimeError("the password is hunter2")

    with serve("127.0.0.1", 0, broken, broken) as made:
        for path in (b"/metrics", b"/livez", b"/healthz"):
            answer = _raw(made.port, b"GET " + path + b" HTTP/1.1\r\n\r\n")
            assert answer.startswith(b"HTTP/1.0 500 ")
            assert b"hunter2" not in answer and b"Traceback" not in answer and b"RuntimeError" not in answer
    assert len([record for record in caplog.records if record.name == "windlass.observe"]) == 3


def test_jobs_that_cannot_be_counted_do_not_hide_the_rest(
    instance: Instance, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Any:
        raise RuntimeError("no")

    with serve("127.0.0.1", 0, instance.report, instance.metrics.render, counts=broken) as made:
        answer = _raw(made.port, b"GET /healthz HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 200 ") and b'"jobs"' not in answer
    assert "could not be read" in caplog.text


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /livez<script> HTTP/x\r\n\r\n",
    ],
)
def test_requests_that_cannot_be_read(server: Server, ask: Ask, sent: bytes) -> None:
    try:
        answer = _raw(server.port, sent)
    except ConnectionResetError:  # closed with bytes of ours unread
        answer = b""
    assert answer == b"" or _status(answer) in (400, 414, 431, 505)
    assert b"<" not in answer
    assert ask("/livez")[0] == 200


def _status(answer: bytes) -> int:
    head = answer.split(b"\r\n", 1)[0].split()
    return int(head[1]) if head and head[0].startswith(b"HTTP/") else 400 if answer.startswith(b"{") else 0


def test_a_body_is_never_waited_for(server: Server) -> None:
    answer = _raw(server.port, b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 405 ")


def test_a_slow_caller_is_sent_away(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte now and then does not hold a connection open for ever."""
    monkeypatch.setattr(server_module, "TIMEOUT", 0.5)
    with serve("127.0.0.1", 0, instance.report, instance.metrics.render) as made:
        began = time.monotonic()
        with (
            socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE) as connection,
            pytest.raises(OSError),
        ):
            while time.monotonic() - began < PATIENCE:
                connection.sendall(b"G")
                time.sleep(0.05)


def test_connections_that_ask_nothing_do_not_keep_a_probe_out(server: Server, ask: Ask) -> None:
    """Sixteen of them were enough for an empty answer, and for a restart by whoever probes."""
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(60)]
    try:
        assert [ask("/livez")[0] for _ in range(3)] == [200] * 3
        assert silent[0].recv(10) == b""
        silent[-1].sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(8) == b"HTTP/1.0"
    finally:
        for connection in silent:
            connection.close()


def test_while_all_places_are_taken_by_answers_callers_are_turned_away(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    asked, may_answer = threading.Semaphore(0), threading.Event()

    def slow() -> bytes:
        asked.release()
        assert may_answer.wait(PATIENCE)
        return b"done"

    with serve("127.0.0.1", 0, instance.report, slow) as made:
        callers = []
        try:
            for _ in range(2):
                callers.append(socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE))
                callers[-1].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                assert asked.acquire(timeout=PATIENCE)
            callers.append(socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE))
            callers[2].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert callers[2].recv(12) == b"HTTP/1.0 503"
            may_answer.set()
            assert [caller.recv(8) for caller in callers[:2]] == [b"HTTP/1.0"] * 2
        finally:
            may_answer.set()
            for caller in callers:
                caller.close()


def test_answers_that_nobody_reads_do_not_keep_a_probe_out(instance: Instance) -> None:
    """More of them than there are places, each larger than what the sockets hold."""
    asked = threading.Semaphore(0)

    def large() -> bytes:
        asked.release()
        return b"x" * 20_000_000

    with serve("127.0.0.1", 0, instance.report, large) as made:
        callers = []
        try:
            for place in range(server_module.MAX_CONNECTIONS + 20):
                callers.append(socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE))
                callers[-1].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                if place < server_module.MAX_CONNECTIONS:
                    assert asked.acquire(timeout=PATIENCE)
            for path in ("/livez", "/readyz") * 3:
                with socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE) as probe:
                    probe.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                    assert probe.recv(12) == b"HTTP/1.0 200"
        finally:
            for caller in callers:
                caller.close()


def test_many_callers_at_once(server: Server, ask: Ask) -> None:
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(ask("/metrics")[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert statuses == [200] * 8


def test_requests_are_not_logged(
    ask: Ask, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    ask("/livez")
    ask("/nowhere")
    said = "".join([*(record.getMessage() for record in caplog.records), *capfd.readouterr()])
    assert not any(word in said for word in ("livez", "nowhere", "127.0.0.1"))
    assert not [record for record in caplog.records if record.name == "windlass.observe"]


def test_closing_frees_the_port(instance: Instance) -> None:
    def is_free_again() -> bool:
        first = serve("127.0.0.1", 0, instance.report, instance.metrics.render)
        first.close()
        first.close()
        try:
            with serve("127.0.0.1", first.port, instance.report, instance.metrics.render) as second:
                return second.port == first.port
        except ConfigError:  # another program was given it meanwhile
            return False

    assert any(is_free_again() for _ in range(5))


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70_000), ("203.0.113.7", 0), ("no.such.host.invalid", 0)]
)
def test_an_address_that_cannot_be_used_is_named(instance: Instance, host: str, port: int) -> None:
    with pytest.raises(ConfigError, match=f"metrics address.*{host}"):
        serve(host, port, instance.report, instance.metrics.render)


def test_a_port_in_use_is_named(server: Server, instance: Instance) -> None:
    with pytest.raises(ConfigError, match=str(server.port)):
        serve("127.0.0.1", server.port, instance.report, instance.metrics.render)


def test_ipv6(instance: Instance) -> None:
    try:
        made = serve("::1", 0, instance.report, instance.metrics.render)
    except ConfigError:
        pytest.skip("no IPv6 on this machine")
    with made, socket.create_connection(("::1", made.port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.0 200"
