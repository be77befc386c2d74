"""Every route of the router: without credentials, and with each role. A new route without a declared role fails here."""

from __future__ import annotations

import asyncio
import re

import pytest
from fastapi import FastAPI
from starlette.requests import Request

from tests.api.access.asgi import OPEN, call, role_of, routes
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.api.access.caller import Caller
from windlass.control.actor import ADMIN
from windlass.control.roles import IMPLIED, Role
from windlass.features import Store
from windlass.model.principal import Principal

pytestmark = pytest.mark.one_database
BOSS = Principal("boss", roles=frozenset({ADMIN}))


async def by_role(request: Request) -> Caller | None:
    """A caller who sees everything, with one role."""
    role = request.headers.get("X-Role")
    return None if role is None else Caller(BOSS, IMPLIED[Role(role)], "function")


@pytest.fixture(scope="module")
def api(shared_store: Store) -> FastAPI:
    return create_api(App(store=shared_store), settings=ApiSettings(), authenticate=by_role)


def filled(path: str) -> str:
    """A path with something in place of its parameters, which nothing has for its id or name."""
    return re.sub(r"\{[^}]*\}", "0190a000-0000-7000-8000-000000000000", path)


def test_every_route_declares_one_role_or_is_known_to_be_open(api: FastAPI) -> None:
    found = {(method, route.path): role_of(route) for method, route in routes(api)}
    documented = {
        (method.upper(), path) for path, methods in api.openapi()["paths"].items() for method in methods
    }
    told = {(method, re.sub(r":path\}", "}", path)) for method, path in found}
    assert documented <= told and told - documented <= OPEN
    assert {place for place, roles in found.items() if not roles} == OPEN
    for place, roles in found.items():
        assert len(roles) <= 1, place
        assert not roles or roles[0] is None or roles[0] in set(Role), place
        if place[0] not in ("GET", "HEAD") and place not in OPEN and roles != [None]:
            assert roles[0] not in (Role.VIEW, Role.VIEW_PAYLOAD), f"{place} changes something"


def test_no_route_answers_without_credentials(api: FastAPI) -> None:
    async def ask() -> None:
        for method, route in routes(api):
            if (method, route.path) not in OPEN:
                for body in (None, {"wrong": "body"}):
                    found = await call(api, method, filled(route.path), body=body)
                    assert found.status == 401, (method, route.path, found)
                    if method != "HEAD":
                        assert found.json()["code"] == "unauthenticated"

    asyncio.run(ask())


@pytest.mark.parametrize("role", Role)
def test_each_role_may_call_its_routes_and_no_others(api: FastAPI, role: Role) -> None:
    async def ask() -> None:
        for method, route in routes(api):
            if (method, route.path) in OPEN or route.path == "/v1/session":
                continue
            found = await call(api, method, filled(route.path), {"X-Role": role}, {}, until="", listen=0)
            (needed,) = role_of(route)
            if needed in IMPLIED[role]:
                assert found.status not in (0, 401, 403), (method, route.path, found)
            else:
                assert found.status == 403, (method, route.path, found)

    asyncio.run(ask())
