"""An API on a store of each database, and callers with each role."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.requests import Request

from tests.control.conftest import app as app
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.api.access.caller import Caller
from windlass.api.application import prepared
from windlass.control.actor import ADMIN
from windlass.model.principal import Principal

EVERY_ROLE = frozenset({"view", "view-payload", "submit", "operate", "edit", "admin"})


async def by_header(request: Request) -> Caller | None:
    """The caller that a test names in a header: ``X-Caller: anna@acme view,submit``; ``boss`` sees everything."""
    if (given := request.headers.get("X-Caller")) is None:
        return None
    who, _, roles = given.partition(" ")
    subject, _, tenant = who.partition("@")
    principal = Principal(
        subject, tenant=tenant or None, roles=frozenset({ADMIN} if subject == "boss" else ())
    )
    return Caller(principal, frozenset(roles.split(",")) if roles else EVERY_ROLE, "function")


@pytest.fixture(scope="session")
def built_api() -> FastAPI:
    """One API for all tests that need no settings of their own: its routes are built with the first request, which takes a quarter of a second."""
    return create_api(App(), settings=ApiSettings(), authenticate=by_header)


@pytest.fixture
def api(app: App, built_api: FastAPI) -> FastAPI:
    built_api.state = prepared(app, ApiSettings(), built_api.state.access)
    return built_api


@pytest.fixture
def as_caller(api: FastAPI) -> Iterator[Callable[[str], TestClient]]:
    """Makes a client of a caller."""
    made: list[TestClient] = []

    def client(caller: str) -> TestClient:
        made.append(TestClient(api, headers={"X-Caller": caller}))
        made[-1].__enter__()
        return made[-1]

    yield client
    for one in made:
        one.__exit__(None, None, None)


@pytest.fixture
def boss(as_caller: Callable[[str], TestClient]) -> TestClient:
    """A client that sees everything and may do everything."""
    return as_caller("boss")
