"""Worker processes for measurements: started, awaited, asked what they did."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


class Worker:
    """One ``bench.worker`` process."""

    def __init__(
        self, url: str, *, jobs: int = 0, processors: int = 500, marks: Sequence[int] = (), shape: str = ""
    ) -> None:
        command = [
            sys.executable, "-m", "bench.worker", url, "--jobs", str(jobs), "--processors", str(processors),
            "--marks", ",".join(map(str, marks)), "--shape", shape,
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._line()

    def answer(self) -> dict[str, Any]:
        """End it (if it does not end by itself) and take what it measured."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        facts = self._line()
        self._process.wait(30)
        return facts

    def result(self) -> dict[str, Any]:
        """Wait until it has done its jobs, and take what it measured."""
        facts = self._line()
        self._process.wait(30)
        return facts

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _line(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError(f"the worker ended with {self._process.wait(5)} and said nothing")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def workers(url: str, count: int = 1, **options: Any) -> Iterator[list[Worker]]:
    """Some worker processes, which end with the block."""
    made: list[Worker] = []
    try:
        made.extend(Worker(url, **options) for _ in range(count))
        yield made
    finally:
        for worker in made:
            worker.close()


def rate(url: str, jobs: int, **options: Any) -> dict[str, Any]:
    """Have one worker run some of the queued jobs; what it measured."""
    with workers(url, 1, jobs=jobs, **options) as (worker,):
        return worker.result()


def settle(seconds: float) -> None:
    """Let a worker come to rest."""
    time.sleep(seconds)
