"""What the tests of the examples share: the local servers, and the folder of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass_examples.web.servers import Model, Pages, Server, serving


@pytest.fixture
def site() -> Iterator[Server]:
    """The local site."""
    server = Server(Pages)
    with serving(server):
        yield server


@pytest.fixture
def model() -> Iterator[Server]:
    """The local model, without a rate."""
    server = Server(Model)
    with serving(server):
        yield server


@pytest.fixture
def surroundings(site: Server, model: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that lead the examples to the local servers."""
    monkeypatch.setenv("EXAMPLES_ALLOWED_SITES", site.authority)
    monkeypatch.setenv("EXAMPLES_MODEL_URL", f"http://{model.authority}/v1")
    monkeypatch.setenv("EXAMPLES_MODEL_RATE", "1000")


Example = Callable[..., dict[str, str]]


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    """Runs the command of an example to its end; returns its table, the last run's if there are several."""
    started: list[subprocess.Popen[str]] = []
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("EXAMPLES_", "TIMESHEETS_"))
    }

    def run(name: str, *arguments: str) -> dict[str, str]:
        command = [sys.executable, "-m", f"windlass_examples.{name}", "--folder", str(tmp_path), *arguments]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=kept, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        out, err = process.communicate(timeout=220)
        assert process.returncode == 0, out + err
        rows = (line.rsplit(None, 1) for line in out.splitlines())
        return {label.strip(): value for label, value in rows}

    yield run
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.communicate()
