"""Each test of this folder that asks for a ``kind`` runs once for each library, on a database that the library speaks to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.transactions.django_project  # noqa: F401  configured before threads of a test want it
from tests.engine.shop import Shop
from tests.servers.plugin import FreshPostgres
from tests.transactions.apps import make_app
from tests.transactions.kinds import KINDS, ON_SQLITE, Open
from windlass.app.app import App
from windlass.app.kinds import JobKind


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(kind: str) -> Open:
    return KINDS[kind]


@pytest.fixture
def url(kind: str, fresh_postgres: FreshPostgres, fresh_sqlite: Callable[[], str]) -> str:
    return fresh_sqlite() if kind in ON_SQLITE else fresh_postgres()


@pytest.fixture
def app(url: str) -> Iterator[App]:
    made = App(url)
    made.store.now()  # opened, which makes the tables of a SQLite file
    yield made
    made.close()


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    made = Shop(url)
    made.run("CREATE TABLE effect (n integer, attempt integer)")
    yield made
    made.close()


@pytest.fixture
def on_postgres(postgres_dsn: str) -> tuple[App, JobKind[..., Any]]:
    return make_app(postgres_dsn)


@pytest.fixture
def on_sqlite(sqlite_path: Path) -> tuple[App, JobKind[..., Any]]:
    app, welcome = make_app(f"sqlite:///{sqlite_path}")
    app.store.now()
    return app, welcome
