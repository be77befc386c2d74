"""Examples in the documentation are run, each page in a folder of its own; examples.py says which, and how they are written."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.examples import Command, File, Program, is_as_told, steady, steps
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE

pytestmark = pytest.mark.timing

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if steps(page)]


def test_there_are_examples() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "leases.md", "sqlite.md", "postgresql.md", "jobs.md", "workers.md"} <= names


def test_the_readme_starts_a_worker() -> None:
    """The first thing a visitor tries."""
    lines = [step.line for step in steps(ROOT / "README.md") if isinstance(step, Command)]
    assert any(line.startswith("windlass worker ") and "--drain" in line for line in lines)


def test_the_readme_says_how_to_set_up_before_its_first_example() -> None:
    """Without it the first line of the first example ends in "No module named 'windlass'"."""
    before = (ROOT / "README.md").read_text("utf-8").partition("<!-- file:")[0]
    assert "pip install windlass" in before and "./dev setup" in before and ". .venv/bin/activate" in before


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, fresh_postgres: FreshPostgres) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    environment |= {"NO_COLOR": "1", "COLUMNS": "120"}
    for step in steps(page):
        match step:
            case File():
                (tmp_path / step.name).parent.mkdir(parents=True, exist_ok=True)
                with (tmp_path / step.name).open("a", encoding="utf-8") as file:
                    file.write(step.text)
            case Program():
                if "WINDLASS_DATABASE_URL" in step.code:
                    environment["WINDLASS_DATABASE_URL"] = fresh_postgres()
                _run(step, tmp_path, environment)
            case Command():
                code, seen = _on_terminal(step.line, tmp_path, environment)
                assert code == 0, f"{step.line} ended with {code}:\n{seen}"
                assert is_as_told(seen, step.printed), f"{step.line} printed\n{seen}\nand not\n{step.printed}"


def _run(program: Program, folder: Path, environment: dict[str, str]) -> None:
    file = folder / "example.py"
    file.write_text(program.code, "utf-8")
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert answer.returncode == 0, answer.stderr
    if program.printed:
        assert steady(answer.stdout) == steady(program.printed)


def _on_terminal(line: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command as somebody at a terminal does; its exit code, and all it wrote."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", line],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
    finally:
        os.close(theirs)
    seen, deadline = b"", time.monotonic() + PATIENCE
    try:
        while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not data:
                break
            seen += data
        return process.wait(max(0.1, deadline - time.monotonic())), seen.decode().replace("\r\n", "\n")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
