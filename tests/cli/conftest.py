"""The command line, called as a function: fast, and the exit code and both streams are there to look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.bench import Bench
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
