"""The command line, called as a function: fast, and the exit code and both streams are there to look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.bench import Bench
from tests.cli.shop import Shop
from tests.servers.plugin import FreshPostgres
from windlass.cli import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Windlass = Callable[..., Answer]


@pytest.fixture
def windlass(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Windlass:
    """Runs ``windlass ARGUMENTS`` in this process, without a database in the environment."""
    monkeypatch.delenv("WINDLASS_DATABASE_URL", raising=False)

    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, sqlite_path: Path
) -> Iterator[Bench]:
    made = Bench(f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres())
    made.app()
    yield made
    made.app().app.close()
    made.close()


@pytest.fixture
def lone(sqlite_path: Path) -> Iterator[Bench]:
    """For what has nothing to do with the database."""
    made = Bench(f"sqlite:///{sqlite_path}")
    made.app()
    yield made
    made.app().app.close()
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(
    request: pytest.FixtureRequest,
    fresh_postgres: FreshPostgres,
    sqlite_path: Path,
    windlass: Windlass,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    """An application without jobs, whose database commands find in the environment."""
    url = f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres()
    monkeypatch.setenv("WINDLASS_DATABASE_URL", url)
    made = Shop(url)
    made.app.sync()
    yield made
    made.close()


@pytest.fixture
def filled(shop: Shop) -> Shop:
    """The application with jobs in every state."""
    shop.fill()
    return shop
