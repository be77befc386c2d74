"""No token, code or cookie in log lines, responses, pages or the database, whatever is done with it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
import uvicorn

from tests.api.access.conftest import HOST, Keys, bearer
from tests.waiting import PATIENCE, eventually
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.features import open_store


def test_secrets_are_nowhere_but_with_their_owners(
    sqlite_path: Path, jwt_settings: ApiSettings, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    """A real server with its access log, a client with each kind of credentials, right and wrong."""
    with caplog.at_level(logging.DEBUG), App(store=open_store(f"sqlite:///{sqlite_path}")) as app:
        made = app.tokens.create("wall", ["admin"], reason="a wall")
        caplog.clear()
        api = create_api(app, settings=jwt_settings)
        link = api.state.access.one_time_link(HOST)
        code, token = link.partition("#")[2], keys.token(roles=["windlass:admin"])
        config = uvicorn.Config(
            api, port=0, log_level="debug", access_log=True, log_config=None, lifespan="off"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            eventually(lambda: server.started, lambda: "the server does not start")
            address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            shown = _use(address, code, [made.text, token, f"{made.text[:-3]}abc", f"{token}x"])
        finally:
            server.should_exit = True
            thread.join()
        app.store.close()
    assert "GET /v1/jobs" in caplog.text, "the access log is written"
    with closing(sqlite3.connect(sqlite_path)) as db:
        shown.append("\n".join(db.iterdump()))
    secrets = [code, made.text, made.text[36:], token, token.rpartition(".")[2]]
    for place in (caplog.text, *shown):
        for secret in secrets:
            assert secret not in place


def _use(address: str, code: str, tokens: list[str]) -> list[str]:
    """Everything that responses say, but for the cookie that a session begins with."""
    shown = []
    with httpx2.Client(base_url=address, timeout=PATIENCE) as client:

        def ask(method: str, path: str, **more: object) -> None:
            found = client.request(method, path, **more)  # type: ignore[arg-type]
            shown.append(f"{found.text} { {**found.headers, 'set-cookie': ''} }")

        for text in tokens:
            for path in (
                "/v1/jobs",
                "/v1/session",
                "/v1/jobs/no-such-job",
                "/v1/settings",
                "/v1/audit",
                "/metrics",
            ):
                ask("GET", path, headers=bearer(text))
            ask("POST", "/v1/jobs", headers=bearer(text), json={"kind": "no-such-kind"})
            ask("POST", "/v1/session", json={"token": text})
            ask("POST", "/login", data={"secret": text})
        ask("GET", "/login")
        ask("POST", "/v1/session", json={"code": code})
        ask("POST", "/v1/session", json={"code": code})
        ask("GET", "/v1/audit")
    return shown
