"""Without credentials: only this machine, and no server that others can reach."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

import windlass
from tests.api.access.conftest import Connect
from windlass import App
from windlass.api import ApiSettings
from windlass.api.access.addresses import host_of, is_loopback
from windlass.api.access.startup import require_authentication
from windlass.api.middleware.hosts import LOOPBACK
from windlass.errors import ConfigError
from windlass.model.principal import Principal

pytestmark = pytest.mark.one_database
OPEN = ApiSettings(no_auth=True)
ANNA = Principal("anna", roles=frozenset({"windlass:view"}))


def test_this_machine_needs_no_credentials_if_that_was_asked_for(connect: Connect) -> None:
    assert connect(OPEN).get("/v1/session").json()["how"] == "no-auth"
    assert connect(OPEN, host="http://localhost:8080").get("/v1/session").status_code == 200
    assert connect().get("/v1/session").status_code == 401


def test_a_session_says_release_and_database(connect: Connect) -> None:
    found = connect(OPEN).get("/v1/session").json()
    assert (found["version"], found["store"]) == (windlass.__version__, "SQLite")
    assert found["environment"].endswith(".db") and "/" not in found["environment"]


@pytest.mark.parametrize(
    "changes",
    [
        {"address": "10.0.0.7"},
        {"address": "testclient"},
        {"host": "http://evil.example:8080"},
        {"host": "http://127.0.0.1.evil.example:8080"},
        {"X_Forwarded_For": "10.0.0.7"},
        {"Forwarded": "for=10.0.0.7"},
    ],
)
def test_others_do(connect: Connect, changes: dict[str, Any]) -> None:
    """Another machine, a name that leads here (DNS rebinding), a proxy."""
    assert connect(OPEN, **changes).get("/v1/session").status_code in (401, 421)


def test_a_server_of_this_machine_serves_no_other_name(connect: Connect) -> None:
    """A page of evil.example whose name was made to lead here is of the same origin to the browser: nothing but the name tells."""
    settings = ApiSettings(no_auth=True, hosts=LOOPBACK)
    assert connect(settings).get("/v1/jobs").status_code == 200
    for host in ("http://evil.example:8080", "http://127.0.0.1.evil.example"):
        found = connect(settings, host=host).get("/v1/jobs")
        assert found.status_code == 421 and found.json()["code"] == "wrong-host"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_authentication_to_start(app: App, host: str) -> None:
    require_authentication(app, ApiSettings(host=host, no_auth=True))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "jobs.example"])
def test_a_server_for_others_does_not_start_without_authentication(app: App, host: str) -> None:
    with pytest.raises(ConfigError, match="windlass token create"):
        require_authentication(app, ApiSettings(host=host))
    with pytest.raises(ConfigError, match="--no-auth"):
        require_authentication(app, ApiSettings(host=host, no_auth=True))
    require_authentication(app, ApiSettings(host=host), has_function=True)
    app.tokens.create("wall", ["view"])
    require_authentication(app, ApiSettings(host=host))
    app.tokens.revoke("wall")
    with pytest.raises(ConfigError, match="windlass token create"):
        require_authentication(app, ApiSettings(host=host))


def test_addresses() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.8.0.1", "[::1]", "::1", "LOCALHOST", "app.localhost"]))
    assert not any(
        map(is_loopback, ["", None, "0.0.0.0", "::", "localhost.evil", "10.0.0.1", "127.0.0.1.nip.io"])
    )
    assert [host_of(text) for text in ("a:80", "a", "[::1]:80", "[::1]", "::1")] == [
        "a",
        "a",
        "[::1]",
        "[::1]",
        "::1",
    ]


async def by_cookie(request: Request) -> Principal | None:
    await asyncio.sleep(0)
    return ANNA if request.cookies.get("user") == "anna" else None


def plain(request: Request) -> Principal | None:
    return ANNA if request.headers.get("X-User") == "anna" else None


def test_a_function_of_the_application_says_who_asks(connect: Connect, app: App) -> None:
    for function, headers in ((by_cookie, {"Cookie": "user=anna"}), (plain, {"X-User": "anna"})):
        client = connect(authenticate=function)
        assert client.get("/v1/session").status_code == 401
        told = client.get("/v1/session", headers=headers).json()
        assert (told["subject"], told["how"], told["roles"]) == ("anna", "function", ["view"])
        assert told["environment"] is None, "she sees her own jobs only"
        token = app.tokens.create(function.__name__, ["view"]).text
        assert client.get("/v1/session", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_a_function_that_returns_something_else_is_a_mistake(connect: Connect) -> None:
    assert connect(authenticate=lambda _: "anna").get("/v1/jobs").status_code >= 400
    with pytest.raises(ConfigError, match="authenticate"):
        connect(authenticate="anna")
