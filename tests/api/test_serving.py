"""The API is served by a process of its own, and by applications that mount it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.api.conftest import by_header
from tests.waiting import PATIENCE
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.api.server import ApiServer
from windlass.errors import ConfigError

pytestmark = pytest.mark.one_database
CODE = "import windlass\n\napp = windlass.App()\n\n@app.job\ndef hello(name: str = '') -> str:\n    return name\n"


@pytest.mark.parametrize("outer", [FastAPI, Starlette])
def test_addresses_lead_to_where_the_api_is_mounted(app: App, outer: type[Starlette]) -> None:
    api = create_api(app, settings=ApiSettings(), authenticate=by_header)
    mounted = outer(routes=[Mount("/inner/jobs", api)])
    client = TestClient(mounted, headers={"X-Caller": "boss"})
    made = client.post("/inner/jobs/v1/jobs", json={"kind": "welcome"})
    assert made.headers["Location"] == f"/inner/jobs/v1/jobs/{made.json()['id']}"
    assert client.get(made.headers["Location"]).status_code == 200
    client.post("/inner/jobs/v1/jobs", json={"kind": "welcome"})
    page = client.get("/inner/jobs/v1/jobs?limit=1")
    assert client.get(page.links["next"]["url"]).json()["jobs"][0]["id"] == made.json()["id"]
    problem = client.get("/inner/jobs/v1/jobs/none").json()
    assert problem["type"] == "/inner/jobs/problems/job-not-found"
    assert "No such job" in client.get(problem["type"]).text
    assert client.get("/inner/jobs/openapi.json").json()["servers"] == [{"url": "/inner/jobs"}]


def test_a_browser_may_do_nothing_with_a_response(boss: TestClient) -> None:
    found = boss.get("/v1/jobs")
    assert found.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert (
        "Access-Control-Allow-Origin"
        not in boss.get("/v1/jobs", headers={"Origin": "https://x.test"}).headers
    )


def test_pages_of_configured_origins_may_call(app: App) -> None:
    api = create_api(app, settings=ApiSettings(origins=["https://a.test"]), authenticate=by_header)
    client = TestClient(api, headers={"X-Caller": "boss"})
    for origin, allowed in (("https://a.test", "https://a.test"), ("https://b.test", None)):
        found = client.get("/v1/jobs", headers={"Origin": origin})
        assert found.headers.get("Access-Control-Allow-Origin") == allowed


def test_only_the_configured_hosts_are_served(app: App) -> None:
    api = create_api(app, settings=ApiSettings(hosts=["jobs.test", "[::1]"]), authenticate=by_header)
    client = TestClient(api, headers={"X-Caller": "boss"})
    for host, status in (
        ("jobs.test:8080", 200),
        ("JOBS.test", 200),
        ("[::1]:8080", 200),
        ("evil.test", 421),
        ("", 421),
    ):
        assert client.get("/v1/jobs", headers={"Host": host}).status_code == status, host


def test_long_responses_are_compressed(app: App, boss: TestClient) -> None:
    for _ in range(10):
        app.enqueue("welcome", user="x" * 100)
    assert boss.get("/v1/jobs").headers["Content-Encoding"] == "gzip"


def test_an_address_in_use_is_refused(app: App) -> None:
    api = create_api(app, settings=ApiSettings(), authenticate=by_header)
    with ApiServer(api) as first:
        first.start()
        assert httpx2.get(f"{first.url}/livez", timeout=PATIENCE).json() == {"status": "ok"}
        with ApiServer(api, port=first.port) as second, pytest.raises(ConfigError, match="free"):
            second.start()


def test_a_process_serves_the_api_and_a_worker_until_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "hello_app.py").write_text(CODE)
    command = [sys.executable, "-m", "windlass", "serve", "hello_app:app", "--port", "0", "--worker"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = next(found[1] for line in process.stderr if (found := re.search(r"Windlass API: (\S+)", line)))
        assert httpx2.get(f"{url}/readyz", timeout=PATIENCE).json() == {"status": "ok"}
        assert httpx2.get(f"{url}/v1/jobs", timeout=PATIENCE).status_code == 401
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "instance.stopped" in errors
