"""FastAPI: the worker begins and ends with the application; a real server, too."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from tests.engine.shop import QUICK
from tests.integrations.running import environment, write_example
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE, eventually
from windlass.app.app import App
from windlass.errors import StoreUnreachableError
from windlass.features import open_store
from windlass.integrations.fastapi import lifespan
from windlass.model import State
from windlass.processes import free_port

pytestmark = pytest.mark.timing


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, sqlite_path: Path) -> str:
    return f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres()


@pytest.fixture
def jobs(url: str) -> Iterator[App]:
    made = App(url, settings=QUICK)
    yield made
    made.close()


def application(jobs: App, **options: Any) -> tuple[FastAPI, threading.Event]:
    """An application with a job that may be held up."""
    may_go_on = threading.Event()

    @jobs.job
    def work(n: int) -> int:
        may_go_on.wait(PATIENCE)
        return n

    web = FastAPI(lifespan=lifespan(jobs, **options))

    @web.post("/orders/{n}", status_code=202)
    async def submit(n: int, request: Request) -> dict[str, str]:
        assert request.state.windlass is jobs
        return {"job": (await work.enqueue_async(n=n)).id}

    return web, may_go_on


def state(url: str, job_id: str) -> State:
    with open_store(url) as store:
        return store.jobs.get(job_id).state


def test_jobs_are_served_beside_the_application(url: str, jobs: App) -> None:
    web, may_go_on = application(jobs)
    may_go_on.set()
    for _ in range(2):  # an application may be started again
        with TestClient(web) as client:
            job = client.post("/orders/7").json()["job"]
            eventually(lambda: jobs.store.jobs.get(job).result == 7)  # noqa: B023
        assert jobs.parts._store is None, "what was opened is closed"
    eventually(lambda: "windlass-step" not in {thread.name for thread in threading.enumerate()})


def test_without_a_worker_jobs_are_only_submitted(url: str, jobs: App) -> None:
    web, _ = application(jobs, worker=False)
    with TestClient(web) as client:
        job = client.post("/orders/7").json()["job"]
        assert jobs.store.instances.list() == []
    assert state(url, job) is State.QUEUED


def test_a_running_job_has_its_grace_time(url: str, jobs: App) -> None:
    web, may_go_on = application(jobs, grace=PATIENCE)
    with TestClient(web) as client:
        job = client.post("/orders/7").json()["job"]
        eventually(lambda: jobs.store.jobs.get(job).state is State.PROCESSING)
        threading.Timer(0.3, may_go_on.set).start()
    assert state(url, job) is State.COMPLETED


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)  # it waits for a thread that nobody can stop
def test_a_job_that_takes_too_long_is_given_back(url: str, jobs: App) -> None:
    web, may_go_on = application(jobs, grace=0.1)
    with TestClient(web) as client:
        job = client.post("/orders/7").json()["job"]
        eventually(lambda: jobs.store.jobs.get(job).state is State.PROCESSING)
    assert state(url, job) is State.QUEUED
    may_go_on.set()


def test_a_lifespan_of_ones_own_is_inside(url: str, jobs: App) -> None:
    said: list[str] = []

    @asynccontextmanager
    async def own(web: FastAPI) -> AsyncIterator[dict[str, str]]:
        said.append(f"begins, worker {'runs' if jobs.parts._store else 'is not there'}")
        yield {"mine": "kept"}
        said.append(f"ends, worker {'runs' if jobs.parts._store else 'is gone'}")

    web = FastAPI(lifespan=lifespan(jobs, inner=own))

    @web.get("/")
    def look(request: Request) -> str:
        return f"{request.state.mine} {request.state.windlass_engine.state}"

    with TestClient(web) as client:
        assert client.get("/").json() == "kept running"
    assert said == ["begins, worker runs", "ends, worker runs"]


@pytest.mark.parametrize("worker", [True, False])
def test_a_database_that_does_not_answer_stops_the_start(worker: bool) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        jobs = App(f"postgresql://u:p@127.0.0.1:{nobody.getsockname()[1]}/x", connect_timeout=1.0)
        web = FastAPI(lifespan=lifespan(jobs, worker=worker))
        with pytest.raises(StoreUnreachableError), TestClient(web):
            raise AssertionError("it must not start")


@pytest.mark.slow
def test_the_example_under_a_real_server(tmp_path: Path) -> None:
    """uvicorn, ended by SIGTERM."""
    write_example("fastapi", tmp_path)
    port = free_port()  # which nobody takes before the server does
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "shop:web", "--port", str(port)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        job = asyncio.run(_ask(f"http://127.0.0.1:{port}"))
        server.send_signal(signal.SIGTERM)
        output, _ = server.communicate(timeout=PATIENCE)
        assert server.returncode in (0, -signal.SIGTERM), output
        assert "Application shutdown complete" in output
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    with open_store(f"sqlite:///{tmp_path / 'windlass.db'}") as store:
        assert store.jobs.get(job).state is State.COMPLETED
        assert store.instances.list() == [], "the worker left in order"


async def _ask(base: str) -> str:
    async with httpx2.AsyncClient(base_url=base, timeout=PATIENCE) as client:
        for _ in range(int(PATIENCE * 10)):
            try:
                job: str = (await client.post("/users/7")).json()["job"]
                break
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
        else:
            raise AssertionError("the server did not start")
        found: dict[str, str] = {}
        for _ in range(int(PATIENCE * 20)):
            found = (await client.get(f"/jobs/{job}")).json()
            if found["state"] == "completed":
                assert found["result"] == "hello, user 7"
                return job
            await asyncio.sleep(0.05)
    raise AssertionError(found)
