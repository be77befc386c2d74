"""Fixtures for every test: real servers (tests/servers) and a store on each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from chaos.profile import HOSTILE
from tests.servers import choice, postgres
from windlass.clock import ManualClock
from windlass.store import Store, open_store

if TYPE_CHECKING:
    from tests.servers.plugin import FreshPostgres

pytest_plugins = ["tests.servers.plugin"]

# Both judge the speed of the machine.
settings.register_profile("windlass", deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
        "--crashes", default="1", help="how often a handler crashes in each of 45 ways (default: once)"
    )
    parser.addoption(
        "--lives", default=None, help="random lives the store's state machine tries (default: 60 and 40)"
    )
    parser.addoption(
        "--crowd",
        default="20000",
        help="rows in every table beside which plans made on empty tables are judged (default: 20000)",
    )
    parser.addoption(
        "--transitions",
        default="120",
        help="how many changes of zones' clocks the cron oracle walks through, or: all (default: 120)",
    )


OLDER_TOO = frozenset(
    {
        "test_claim",
        "test_fence",
        "test_enqueue",
        "test_record",
        "test_recovery",
        "test_hot_plans",
        "test_claim_limit",
        "test_stale_plans",
        "test_fan_out_plans",
    }
)
"""Modules that run on the oldest PostgreSQL found too. The others run on the newest, unless WINDLASS_TEST_PG_VERSIONS=all: the whole run
has to stay under ten minutes on two cores, and what differs between versions is plans and the core verbs. What holds at both ends
of the range holds between them; migrations run on each."""

QUICK = frozenset({"app", "conformance", "engine", "observe", "testing", "unit", "work"})
"""Folders whose tests are in the quick set (WINDLASS_TEST_QUICK), but for those marked slow: what a version of Python can break, within two
minutes on two cores."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_every = os.environ.get("WINDLASS_TEST_PG_VERSIONS") == "all"
    older = set() if is_every else set(postgres.ids()[1:])
    between = set() if is_every else set(postgres.ids()[1:-1])
    is_hostile = choice.profile() == HOSTILE
    is_quick = bool(os.environ.get("WINDLASS_TEST_QUICK"))

    def is_left_out(item: pytest.Item) -> bool:
        if is_quick and (item.path.parent.name not in QUICK or item.get_closest_marker("slow")):
            return True
        if is_hostile and item.get_closest_marker("owner"):
            return True
        if "migrations" in item.path.parts:
            return False
        params = getattr(getattr(item, "callspec", None), "params", {})
        wanted = between if item.path.stem in OLDER_TOO and not is_quick else older
        return any(isinstance(value, str) and value in wanted for value in params.values())

    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]
        config.hook.pytest_deselected(items=left_out)
