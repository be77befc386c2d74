"""Who may read a SQLite database: the user who made it, and nobody else unless that user says so."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.life import one
from windlass.features import open_store


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.usefixtures("open_umask")
def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'jobs.db'}") as store:
        one(store)
        modes = _modes(tmp_path)
    assert set(modes) == {"jobs.db", "jobs.db-wal", "jobs.db-shm"}
    assert set(modes.values()) == {0o600}


@pytest.mark.usefixtures("open_umask")
def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch(0o660)
    path.chmod(0o660)
    with open_store(f"sqlite:///{path}") as store:
        one(store)
        assert set(_modes(tmp_path).values()) == {0o660}
