"""gunicorn --preload: the application is loaded and has used its store, its verifier and its locks, then the server forks."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import jwt
import pytest

from tests.engine.shop import QUICK
from tests.integrations.running import environment
from tests.principals.tokens import AUDIENCE, ISSUER, SECRET, b64
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE, eventually
from windlass.app.app import App

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timing]


@contextmanager
def served(url: str, token: str, folder: Path, *arguments: str) -> Iterator[httpx2.Client]:
    """A client of a gunicorn with two processes, on a socket file."""
    socket, log = folder / "web.sock", folder / "gunicorn.log"
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", f"unix:{socket}"]
    command += ["--timeout", str(int(PATIENCE))]  # a worker that responds to nothing for so long is killed
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--no-control-socket", *arguments],
            cwd=ROOT,
            env=environment(WINDLASS_DATABASE_URL=url, PRELOADED_TOKEN=token, PRELOADED_KEY=b64(SECRET)),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: socket.exists() or server.poll() is not None)
        assert server.poll() is None, log.read_text()
        with httpx2.Client(
            transport=httpx2.HTTPTransport(uds=str(socket)), base_url="http://web", timeout=PATIENCE
        ) as client:
            yield client
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0, log.read_text()
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


CLASSES = {
    "sync": ("flask_web", "--worker-class", "sync"),
    "threads": ("flask_web", "--worker-class", "gthread", "--threads", "4"),
    "uvicorn": ("fastapi_web", "--worker-class", "uvicorn.workers.UvicornWorker"),
}
CASES = [
    ("sqlite", "sync"),
    ("postgresql", "threads"),
    ("sqlite", "uvicorn"),
    pytest.param("postgresql", "sync", marks=pytest.mark.long),
    pytest.param("sqlite", "threads", marks=pytest.mark.long),
    pytest.param("postgresql", "uvicorn", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("database", "workers"), CASES)
def test_an_application_that_was_used_before_the_fork_serves(
    database: str, workers: str, fresh_postgres: FreshPostgres, sqlite_path: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{sqlite_path}" if database == "sqlite" else fresh_postgres()
    application, *arguments = CLASSES[workers]
    claims = {"sub": "ana", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3600}
    token = jwt.encode(claims, SECRET, "HS256", {"kid": "hs"})
    jobs = App(url, settings=QUICK)

    @jobs.job
    def double(n: int) -> int:
        return 2 * n

    jobs.store.now()
    worker = jobs.worker()
    target = f"tests.integrations.preloaded_app:{application}()"
    with served(url, token, tmp_path, *arguments, target) as client:
        worker.start()
        try:
            for n in range(4):
                response = client.post(f"/double/{n}", headers={"Authorization": f"Bearer {token}"})
                assert response.status_code == 200, response.text
                found = response.json()
                assert (found["waited"], found["here"]) == (2 * n, 3 * n) and found["is_child"]
                captured = jobs.store.principals.get(found["job"])
                assert captured is not None and captured.principal.subject == found["user"] == "ana"
            assert client.post("/double/1").status_code == 401
        finally:
            worker.stop(grace=0)
            jobs.close()
