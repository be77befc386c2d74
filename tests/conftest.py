"""Fixtures for every test: real servers (tests/servers) and a store on each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from chaos.profile import HOSTILE
from tests.servers import choice, postgres
from windlass.clock import ManualClock
from windlass.features import Store, open_store

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
        "--lives", default=None, help="random lives the store's state machine tries (default: 30 and 20)"
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
minutes on two cores. The conformance suite runs on SQLite but for NOT_QUICK; on PostgreSQL it is the modules of OLDER_TOO."""
NOT_QUICK = frozenset(
    {
        "conformance/test_guards_bystanders",
        "conformance/test_guards_fence",
        "conformance/test_guards_idle",
        "conformance/test_guards_rules",
        "conformance/test_guards_schema",
        "conformance/test_guards_verbs",
        "conformance/test_odd_rows",
        "conformance/test_rates",
        "conformance/test_review",
        "conformance/test_sqlite_log",
        "engine/test_canary",
        "engine/test_counting",
        "engine/test_doors",
        "engine/test_isolated",
        "engine/test_lost_leases",
        "engine/test_principal_tokens",
        "engine/test_process_line",
        "engine/test_process_scripts",
        "engine/test_process_stopping",
        "engine/test_process_store",
        "unit/test_cron",
    }
)
"""Modules of those folders that are not in it: what takes longest for the least that another Python could break (guards of the SQL, an
oracle, many processes)."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules that are not in the quick set are not even imported."""
    if not os.environ.get("WINDLASS_TEST_QUICK"):
        return None
    name = f"{collection_path.parent.name}/{collection_path.stem}"
    is_below = collection_path.parent == Path(__file__).parent
    return True if (is_below and collection_path.name not in QUICK) or name in NOT_QUICK else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_every = os.environ.get("WINDLASS_TEST_PG_VERSIONS") == "all"
    older = set() if is_every else set(postgres.ids()[1:])
    between = set() if is_every else set(postgres.ids()[1:-1])
    is_hostile = choice.profile() == HOSTILE
    every = set(postgres.ids())
    is_quick = bool(os.environ.get("WINDLASS_TEST_QUICK"))
    is_long = bool(os.environ.get("WINDLASS_TEST_LONG"))

    def is_left_out(item: pytest.Item) -> bool:
        if not is_long and item.get_closest_marker("long"):
            return True
        if is_quick and item.get_closest_marker("slow"):
            return True
        if is_hostile and item.get_closest_marker("owner"):
            return True
        if "migrations" in item.path.parts:
            return False
        params = getattr(getattr(item, "callspec", None), "params", {})
        is_core = item.path.stem in OLDER_TOO
        unwanted = between if is_core and not is_quick else older
        if is_quick and not is_core and item.path.parent.name == "conformance":
            unwanted = every
        return any(isinstance(value, str) and value in unwanted for value in params.values())

    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]
        config.hook.pytest_deselected(items=left_out)
