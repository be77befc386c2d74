"""Workers as real processes on one database, for the tests of ``windlass worker``."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE, eventually
from windlass.features import Store, open_store

ROOT = Path(__file__).parents[2]
TARGET = "tests.cli.worker_app:app"
QUICK = ("--set", "lease=2", "--set", "heartbeat=0.5", "--set", "margin=0.5", "--set", "recovery=0.3")


class Bench:
    """Starts workers on one database and knows how to wait."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store: Store = open_store(url)
        self._started: list[subprocess.Popen[str]] = []
        os.environ["WINDLASS_DATABASE_URL"] = url

    def app(self) -> Any:
        module = importlib.import_module("tests.cli.worker_app")
        module.app.close()
        return importlib.reload(module)  # an app reads the environment once

    def worker(
        self, *arguments: str, target: str = TARGET, errors: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "windlass", "worker", target, "--log", "json", *arguments]
        environment = {**os.environ, "WINDLASS_DATABASE_URL": self.url}
        started = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        self._started.append(started)
        return started

    def until(self, holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        return eventually(holds, self.store.phases.counts, seconds)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)
        self.store.close()
        del os.environ["WINDLASS_DATABASE_URL"]


def children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def heard(worker: subprocess.Popen[str], word: str, times: int = 1) -> str:
    """What a worker wrote until a word had come so often; a line that never comes ends with the test's own limit."""
    assert worker.stderr is not None
    text = ""
    while text.count(word) < times:
        line = worker.stderr.readline()
        assert line, f"it ended without {word}: {text}"
        text += line
    return text


def events(errors: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
