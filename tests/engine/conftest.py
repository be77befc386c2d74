"""The shop: an app on a real database, whose engines end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.shop import Shop
from tests.servers.plugin import FreshPostgres


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, sqlite_path: Path) -> Iterator[Shop]:
    made = Shop(f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres())
    yield made
    made.close()
