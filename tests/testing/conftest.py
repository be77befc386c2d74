"""The application of tests/testing/shop.py, and its configured database, which no test may reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testing.shop import Shop


@pytest.fixture
def real(tmp_path: Path) -> Path:
    return tmp_path / "real.db"


@pytest.fixture
def shop(real: Path) -> Iterator[Shop]:
    made = Shop(f"sqlite:///{real}")
    yield made
    made.app.close()
