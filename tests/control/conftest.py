"""An app on the store of each database, and people who use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windlass import App
from windlass.control.actor import ADMIN, OPERATOR
from windlass.features import Store
from windlass.model.principal import Principal

ANNA = Principal("anna", tenant="acme")
BERT = Principal("bert", tenant="acme")
CARA = Principal("cara", tenant="other")
OPS = Principal("olga", tenant="acme", roles=frozenset({OPERATOR}))
BOSS = Principal("boss", roles=frozenset({ADMIN}))


@pytest.fixture
def app(store: Store) -> Iterator[App]:
    """An app with a few kinds, on the store of the test."""
    made = App(store=store)

    @made.job
    def welcome(user: str = "", number: int = 0) -> str:
        return f"hello {user}"

    @made.job(name="report")
    def report(county: str = "") -> None: ...

    with made:
        yield made
