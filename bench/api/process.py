"""Starts the process of ``bench.api.serve``, and asks it what it has used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


class ServerProcess:
    """A process that serves an API."""

    def __init__(self, url: str, *options: str) -> None:
        command = [sys.executable, "-m", "bench.api.serve", url, *options]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self._line()["port"])

    def facts(self) -> dict[str, Any]:
        """What the process has used so far."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _line(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError(f"the server ended with {self._process.wait(5)}")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def serving(url: str, *options: str) -> Iterator[ServerProcess]:
    """A server, which ends with the block."""
    made = ServerProcess(url, *options)
    try:
        yield made
    finally:
        made.close()
