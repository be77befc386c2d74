"""A ``windlass worker`` as a real process: started, watched through its own log, frozen, stopped, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from windlass import processes as process

ROOT = Path(__file__).resolve().parents[1]
APP = "chaos.app:app"


class Log:
    """The lines a worker wrote to its standard error, each as an object; text that is none is kept as ``raw``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._lines: list[dict[str, Any]] = []

    def lines(self) -> list[dict[str, Any]]:
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        self._lines += [_parsed(line) for line in whole.decode("utf-8", "replace").splitlines()]
        return self._lines

    def events(self, *names: str) -> list[dict[str, Any]]:
        """The records with one of these names."""
        return [line for line in self.lines() if line.get("event") in names]


class Worker:
    """One worker process, or a supervisor with several. It dies with us, however we die."""

    def __init__(
        self,
        number: int,
        folder: Path,
        environment: Mapping[str, str],
        *,
        phases: Sequence[str] = (),
        settings: Mapping[str, object] | None = None,
        grace: float | None = None,
        processes: int = 1,
        level: str = "info",
    ) -> None:
        self.number = number
        self.path = folder / f"worker-{number}.log"
        self.log = Log(self.path)
        command = [sys.executable, "-m", "windlass", "worker", APP, "--log", "json", "--level", level]
        for phase in phases:
            command += ["--phase", phase]
        for name, value in (settings or {}).items():
            command += ["--set", f"{name}={value}"]
        if grace is not None:
            command += ["--grace", str(grace)]
        if processes > 1:
            command += ["--processes", str(processes)]
        self.started_at = time.time()
        with self.path.open("ab") as output:
            self._process = process.start(
                command, env={**os.environ, **environment}, cwd=ROOT, output=output.fileno()
            )

    def __str__(self) -> str:
        return f"worker {self.number} (pid {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def is_serving(self) -> bool:
        return bool(self.log.events("instance.started"))

    @property
    def instances(self) -> list[str]:
        """The instances this process has been, as its log says: more than one after a lost lease."""
        found = {line["instance"]: None for line in self.log.lines() if line.get("instance")}
        return list(found)

    def rss_mb(self) -> float:
        """Its resident memory; 0 where it has ended."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0.0
        return pages * 4096 / 1024**2

    def send(self, number: signal.Signals) -> float:
        """Send a signal; answers when that was."""
        at = time.time()
        if self._process.poll() is None:
            os.kill(self.pid, number)
        return at

    def kill(self) -> float:
        """``kill -9``, and wait until it is gone."""
        at = self.send(signal.SIGKILL)
        self._process.wait()
        return at

    def end(self) -> None:
        """Kill it with all it started: a supervisor's workers would take their time otherwise."""
        family = [self.pid, *descendants(self.pid)]
        if self.code is None:
            for pid in family:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def stop(self, within: float = 60.0) -> int | None:
        """SIGTERM, and its exit code; None where it did not end in time."""
        self.send(signal.SIGTERM)
        return self.wait(within)

    def wait(self, within: float) -> int | None:
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            return None


def at(line: Mapping[str, Any]) -> float:
    """When a log line was written."""
    return datetime.fromisoformat(line["ts"]).timestamp()


def descendants(pid: int) -> list[int]:
    """The processes below a process."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [child, *descendants(child)]
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"raw": line}
