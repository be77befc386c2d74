"""Stores on one PostgreSQL with the database's own clock: these tests are about time that really passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from windlass.features import Store, open_store

Open = Callable[[str], Store]


@pytest.fixture
def stores() -> Iterator[Open]:
    """Opens stores, as several instances would; closed after the test."""
    opened: list[Store] = []

    def open_one(url: str) -> Store:
        opened.append(open_store(url))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()
