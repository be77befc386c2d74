"""``windlass init`` writes the first files, and never over others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Windlass
from windlass.cli.init import FILES


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_files_work_as_they_are(windlass: Windlass, folder: Path) -> None:
    answer = windlass("init")
    assert (answer.code, answer.out.split()) == (0, ["windlass.toml", "jobs.py"])
    assert "windlass dev jobs:app" in answer.err
    shown = windlass("config", "show", "--changed", "-o", "json")
    assert {row["key"] for row in shown.json()} >= {"database.url", "retention.failed"}
    worker = subprocess.Popen(
        [sys.executable, "-m", "windlass", "worker", "jobs:app", "--log", "none"], stderr=subprocess.PIPE
    )
    try:
        run = subprocess.run([sys.executable, "jobs.py"], capture_output=True, text=True, check=True)
        assert run.stdout.splitlines()[-1] == "Hello, world!"
    finally:
        worker.terminate()
        worker.communicate()
    assert windlass("doctor").code == 0


@pytest.mark.parametrize("there", [["windlass.toml"], ["jobs.py"], ["windlass.toml", "jobs.py"]])
def test_nothing_is_overwritten(windlass: Windlass, folder: Path, there: list[str]) -> None:
    for name in there:
        (folder / name).write_text("mine")
    answer = windlass("init")
    assert (answer.code, answer.out) == (4, "")
    assert all(name in answer.err for name in there)
    assert {path.name: path.read_text() for path in folder.iterdir()} == dict.fromkeys(there, "mine")


def test_a_link_to_nowhere_is_not_written_through(windlass: Windlass, folder: Path) -> None:
    (folder / "jobs.py").symlink_to(folder / "elsewhere.py")
    assert windlass("init").code == 4
    assert not (folder / "elsewhere.py").exists() and not (folder / "windlass.toml").exists()


def test_a_folder_that_cannot_be_made_is_one_line(windlass: Windlass, folder: Path) -> None:
    (folder / "file").write_text("mine")
    answer = windlass("init", "file/project")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.startswith(
        "error: file/project cannot be written: Not a directory; name another folder"
    )


def test_another_folder(windlass: Windlass, folder: Path) -> None:
    assert windlass("init", "new/project").code == 0
    assert {path.name for path in (folder / "new" / "project").iterdir()} == set(FILES)
