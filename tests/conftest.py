"""Fixtures for every test: real servers (tests/servers) and a store on each of them."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from tests.servers import postgres
from tests.waiting import PATIENCE
from windlass.clock import ManualClock
from windlass.features import Store, open_store
from windlass.store.database import CHANNEL

if TYPE_CHECKING:
    from tests.servers.plugin import FreshPostgres

pytest_plugins = ["tests.servers.plugin", "tests.selection"]

# Both judge the speed of the machine.
settings.register_profile(
    "windlass",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 if os.environ.get("WINDLASS_TEST_LONG") else 40,
)
settings.load_profile("windlass")


@pytest.fixture(params=["sqlite", *postgres.ids()])
def store_url(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, fresh_sqlite: Callable[[], str]
) -> str:
    """A fresh database: SQLite, and every PostgreSQL version found."""
    if request.param == "sqlite":
        return fresh_sqlite()
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
        stores.append(open_store(store_url, clock=clock))
        return stores[-1]

    yield open_another
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[[], Store]) -> Store:
    """A store on a fresh database, with a clock that stands still until the test moves it."""
    return opened()


@pytest.fixture(scope="module", params=["sqlite", *postgres.ids()])
def open_shared(
    request: pytest.FixtureRequest,
    pg_servers: postgres.PostgresServers,
    sqlite_template: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[], Store]]:
    """Opens stores, each on a fresh database, for fixtures that serve all the tests of a module."""
    stores: list[Store] = []
    urls: list[str] = []

    def fresh() -> str:
        if request.param == "sqlite":
            path = shutil.copyfile(sqlite_template, tmp_path_factory.mktemp("shared") / "windlass.db")
            return f"sqlite:///{path}"
        urls.append(pg_servers.get(request.param).fresh())
        return urls[-1]

    def open_one() -> Store:
        stores.append(open_store(fresh(), clock=ManualClock()))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()
    for url in urls:
        pg_servers.get(request.param).drop(url)


@pytest.fixture(scope="module")
def shared_store(open_shared: Callable[[], Store]) -> Store:
    """A store on one database for all the tests of a module that leave nothing behind, such as those of calls that are refused."""
    return open_shared()


@pytest.fixture
def stores() -> Iterator[Callable[[str], Store]]:
    """Opens stores with the database's own clock, as several instances would; closed after the test."""
    made: list[Store] = []

    def open_one(url: str) -> Store:
        made.append(open_store(url))
        return made[-1]

    yield open_one
    for store in made:
        store.close()


@pytest.fixture
def heard(postgres_dsn: str) -> Iterator[Callable[[], list[str]]]:
    """Returns the payloads that PostgreSQL notified so far, in order."""
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")

        def hear() -> list[str]:
            connection.execute(f"NOTIFY {CHANNEL}, 'last'")
            payloads = []
            for notification in connection.notifies(timeout=PATIENCE):
                if notification.payload == "last":
                    break
                payloads.append(notification.payload)
            return payloads

        yield hear


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, and leave what was collected out of its later passes.

    The modules, fixtures and items of the suite live as long as the process. A full pass over them takes half a second, and allocations of
    the tests cause many passes.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--crashes", default="1", help="how often a handler crashes in each of 45 ways (default: once)"
    )
    parser.addoption(
        "--lives", default=None, help="random lives the store's state machine tries (default: 30 and 20)"
    )
    parser.addoption(
        "--crowd",
        default="10000",
        help="rows in every table beside which plans made on empty tables are judged (default: 10000)",
    )
    parser.addoption(
        "--transitions",
        default="120",
        help="how many changes of zones' clocks the cron oracle walks through, or: all (default: 120)",
    )
