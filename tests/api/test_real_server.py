"""What only a real server shows: many clients at once, a server that is killed, and clients that do not read."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.api.conftest import by_header
from tests.waiting import PATIENCE, eventually
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.api.server import ApiServer
from windlass.api.streams.open_streams import OpenStreams
from windlass.api.streams.response import EventStream
from windlass.features import Store
from windlass.processes import free_port

pytestmark = pytest.mark.timing
CODE = "import windlass\n\napp = windlass.App()\n\n@app.job\ndef welcome(number: int) -> None: ...\n"
KILLS = 5 if os.environ.get("WINDLASS_TEST_LONG") else 1
CLIENTS, JOBS = 8, 120


def test_the_same_key_from_32_clients_at_once_makes_one_job_and_32_equal_responses(app: App) -> None:
    api = create_api(app, settings=ApiSettings(), authenticate=by_header)
    app.store.request_keys.patience = PATIENCE  # of those that find the key in use
    together = threading.Barrier(32)
    headers = {"X-Caller": "boss", "Idempotency-Key": "once"}

    def submit(_: int) -> tuple[int, str, str]:
        with httpx2.Client(base_url=server.url, headers=headers, timeout=PATIENCE, verify=False) as client:
            client.get("/livez")  # connects
            together.wait(PATIENCE)
            made = client.post("/v1/jobs", json={"kind": "welcome", "arguments": {"user": "anna"}})
        return made.status_code, made.text, made.headers["Location"]

    with ApiServer(api) as server, ThreadPoolExecutor(32) as pool:
        server.start()
        found = set(pool.map(submit, range(32)))
    assert len(found) == 1 and next(iter(found))[0] == 202, found
    assert app.jobs.count().count == 1


class Killable:
    """A server in a process of its own, which is killed and started again at the same address."""

    def __init__(self, folder: Path, url: str) -> None:
        (folder / "killed_app.py").write_text(CODE)
        self.port = free_port()  # which nobody takes before it is started again
        self._folder = folder
        self._command = [sys.executable, "-m", "windlass", "serve", "killed_app:app", "--url", url, "--no-auth", "--port", str(self.port)]  # fmt: skip
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def killable(tmp_path: Path, store_url: str) -> Iterator[Killable]:
    made = Killable(tmp_path, store_url)
    yield made
    made.kill()


@pytest.mark.slow
def test_submits_with_a_key_end_in_one_job_each_although_the_server_is_killed(
    killable: Killable, store_url: str, stores: Callable[[str], Store]
) -> None:
    url = f"http://127.0.0.1:{killable.port}/v1/jobs"
    numbers, accepted, lost = iter(range(JOBS)), dict[int, str](), list[int]()
    lock, kills, may_submit = threading.Lock(), threading.Semaphore(0), threading.Semaphore(0)
    some = JOBS // (KILLS + 2)

    def submit() -> None:
        with httpx2.Client(timeout=PATIENCE, verify=False) as client:
            while may_submit.acquire(timeout=PATIENCE) and (number := _next(numbers, lock)) is not None:
                accepted[number] = eventually(partial(post, client, number), "a submit is accepted")
                kills.release()

    def post(client: httpx2.Client, number: int) -> str | None:
        body = {"kind": "welcome", "arguments": {"number": number}}
        try:
            made = client.post(url, json=body, headers={"Idempotency-Key": f"order-{number}"})
        except httpx2.HTTPError:
            lost.append(number)
            return None
        assert made.status_code in (202, 409, 503), made.text
        return made.json()["id"] if made.status_code == 202 else None

    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(submit) for _ in range(CLIENTS)]
        may_submit.release(CLIENTS)  # requests under way when the server is killed
        for kill in range(KILLS):
            may_submit.release(some)
            for _ in range(some):
                assert kills.acquire(timeout=PATIENCE)
            killable.kill()
            if kill == KILLS - 1:
                may_submit.release(JOBS)
                eventually(lambda: lost, "a request was lost")
            killable.start()
        for one in running:
            one.result()
    store = stores(store_url)
    stored = {job.id: job.args["number"] for job in store.jobs.list(limit=JOBS).jobs}
    assert sorted(stored.values()) == list(range(JOBS)), "each submit is one job"
    assert {number: stored[job] for number, job in accepted.items()} == {n: n for n in range(JOBS)}


def _next(numbers: Iterator[int], lock: threading.Lock) -> int | None:
    with lock:
        return next(numbers, None)


@pytest.mark.one_database
@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the kernel has no such limit")
def test_a_client_that_reads_nothing_loses_its_stream_and_its_connection() -> None:
    streams, has_opened = OpenStreams(5), threading.Event()

    async def endless() -> Any:
        while True:
            yield b"data: " + b"x" * 2**16 + b"\n\n"

    async def stream(request: Request) -> Response:
        caller = await by_header(request)
        assert caller is not None

        async def is_accepted(_age: float) -> bool:
            return True

        opened = streams.open(caller)
        has_opened.set()
        return EventStream(endless(), b"", opened, streams, is_accepted, patience=0.3)

    server = ApiServer(Starlette(routes=[Route("/", stream)]))
    server.stuck = 1.0
    with server:
        server.start()
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Caller: boss\r\n\r\n")
            assert has_opened.wait(PATIENCE)
            eventually(lambda: not len(streams), "the stream was dropped")
            connections = server._server.server_state.connections
            eventually(lambda: not connections, "the connection was ended")
