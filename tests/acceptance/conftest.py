"""Both databases, for experiments with several processes."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, sqlite_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{sqlite_path}"
    dsn: str = request.getfixturevalue("postgres_dsn")
    return dsn
