"""Processes of an example: started, killed without warning, replaced, and stopped at the end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

LEASE = ("lease=4", "heartbeat=1", "margin=1", "recovery=1")
"""A short lease: the jobs of a killed worker run again after four seconds instead of thirty."""
STOP_SECONDS = 20.0


def environment(url: str, **more: str) -> dict[str, str]:
    """The environment of a process on a database; a URL may contain a password, so it is no argument."""
    return {**os.environ, "WINDLASS_DATABASE_URL": url, "WINDLASS_DATABASE_AUTO_MIGRATE": "true", **more}


def worker_command(app: str, *options: str) -> list[str]:
    """The command of a worker that serves an app."""
    settings = [part for setting in LEASE for part in ("--set", setting)]
    return [
        sys.executable, "-m", "windlass_examples.running.worker", app, *settings, "--grace", "10", "--level", "warning",
        *options,
    ]  # fmt: skip


class Processes:
    """Equal processes that end with the block. Their output goes to a log file each."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self._command, self._env, self._folder = list(command), dict(env), folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        self.killed = 0

    def start(self, count: int = 1, *more: str) -> None:
        """Start processes, with further arguments."""
        for _ in range(count):
            log = self._folder / f"process-{len(self._logs) + 1}.log"
            self._logs.append(log)
            with log.open("wb") as output:
                self._running.append(
                    subprocess.Popen(
                        [*self._command, *more], env=self._env, stdout=output, stderr=subprocess.STDOUT
                    )
                )

    def kill_one(self) -> int:
        """Kill a process with SIGKILL; returns its pid."""
        process = random.choice(self._running)
        process.kill()
        process.wait()
        self._running.remove(process)
        self.killed += 1
        return process.pid

    def check(self) -> None:
        """Raise if a process ended by itself."""
        for process in self._running:
            if process.poll() is not None:
                raise RuntimeError(f"process {process.pid} ended with {process.returncode}:\n{self.logs()}")

    def logs(self) -> str:
        """The text of all logs."""
        return "\n".join(log.read_text(errors="replace") for log in self._logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
