"""Fixtures for every test: real servers (tests/servers) and a store on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers import postgres
from windlass.clock import ManualClock
from windlass.store import Store, open_store

if TYPE_CHECKING:
    from tests.servers.plugin import FreshPostgres

pytest_plugins = ["tests.servers.plugin"]


@pytest.fixture(params=["sqlite", *postgres.ids()])
def store_url(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, sqlite_path: Path) -> str:
    """A fresh database: SQLite, and every PostgreSQL version found."""
    if request.param == "sqlite":
        return f"sqlite:///{sqlite_path}"
    return fresh_postgres(request.param)


@pytest.fixture
def clock() -> ManualClock:
    """The time a store under test believes in."""
    return ManualClock()


@pytest.fixture
def opened(store_url: str, clock: ManualClock) -> Iterator[Callable[[], Store]]:
    """Opens further stores on the same database and clock, as other instances would."""
    stores: list[Store] = []

    def open_another() -> Store:
        store = open_store(store_url, clock=clock)
        if not stores:
            store.upkeep.maintain()
        stores.append(store)
        return store

    yield open_another
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[[], Store]) -> Store:
    """A store on a fresh database, with a clock that stands still until the test moves it."""
    return opened()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lives", default=None, help="random lives the store's state machine tries (default: 60 and 40)"
    )
    parser.addoption(
        "--transitions",
        default="120",
        help="how many changes of zones' clocks the cron oracle walks through, or: all (default: 120)",
    )
