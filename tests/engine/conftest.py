"""The shop: an app on a real database, whose engines end with the test; and the box: an app that runs its jobs in the test itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.engine.shop import Shop
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE
from windlass.app.app import App
from windlass.testing import Sandbox


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, fresh_sqlite: Callable[[], str]
) -> Iterator[Shop]:
    made = Shop(fresh_sqlite() if request.param == "sqlite" else fresh_postgres())
    yield made
    made.close()


@pytest.fixture
def patient_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop waits for what ends, and for what is written, for as long as a busy machine may take."""
    for name in ("STOP_WAIT", "END_WAIT", "LAST_WRITES_WAIT"):
        monkeypatch.setattr(f"windlass.engine.engine.{name}", PATIENCE)


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def box(app: App) -> Iterator[Sandbox]:
    with Sandbox(app) as made:
        yield made


@pytest.fixture
def records(shop: Shop) -> Shop:
    """A shop with a table for the effects of chunks."""
    shop.run("CREATE TABLE effect (chunk integer, first integer, last integer)")
    return shop
