"""One script of a peer as a process: the order as JSON on its stdin, the answer as the last line of its stdout."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self


class ScriptError(Exception):
    """A script failed, or did not answer as it should."""


class Script:
    """Started at once; ``end()`` or leaving the with block kills it if it still runs."""

    def __init__(self, command: Sequence[str], order: Mapping[str, Any], folder: Path) -> None:
        self._verb = command[-1]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed by end()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with tempfile.TemporaryFile() as given:
                given.write(json.dumps(order).encode())
                given.seek(0)
                self._process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=_environment(),
                    stdin=given,
                    stdout=self._output,
                    stderr=self._errors,
                )
        except OSError as error:
            self._output.close()
            self._errors.close()
            raise ScriptError(f"{command[0]} can not be started: {error}") from error

    def resident_mb(self) -> float:
        """Its resident memory now (Linux)."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def answer(self) -> dict[str, Any]:
        """What an ended script said; ScriptError with its last words if it failed."""
        code = self._process.returncode
        if code != 0:
            raise ScriptError(f"{self._verb} ended with {code}: {self._tail() or '(nothing on stderr)'}")
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        try:
            answer = json.loads(lines[-1]) if lines else None
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ScriptError(f"{self._verb} answered no JSON object: {lines[-1] if lines else '(nothing)'}")
        return answer

    def end(self) -> None:
        if not self.has_ended():
            self._process.kill()
            self._process.wait()
        self._output.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _tail(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return " | ".join(line.strip() for line in lines[-3:])


def await_answers(scripts: Sequence[Script], seconds: float) -> list[dict[str, Any]]:
    """The answers of all, in order. The first that fails ends the waiting: the others may be waiting for it."""
    deadline = time.monotonic() + seconds
    answers: dict[int, dict[str, Any]] = {}
    while len(answers) < len(scripts):
        for n, script in enumerate(scripts):
            if n not in answers and script.has_ended():
                answers[n] = script.answer()
        if len(answers) < len(scripts):
            if time.monotonic() >= deadline:
                raise ScriptError(f"no answer within {seconds:g} s")
            time.sleep(0.02)
    return [answers[n] for n in range(len(scripts))]


def _environment() -> dict[str, str]:
    """Ours without what would lead the peer's interpreter to our packages, or change a peer's settings."""
    ours = ("PYTHON", "VIRTUAL_ENV", "NODE_PATH", "NODE_OPTIONS", "PGQUEUER_", "PROCRASTINATE_", "GRAPHILE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
