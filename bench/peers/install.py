"""The peers' environments: ``.bench/<name>/``, made once and reused until a requirement or the interpreter changes.

Python peers get a virtual environment and pip, which follows the person's own pip configuration; Node peers get
``npm install --prefix``. A stamp written last tells a finished environment from one that was interrupted.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peers.catalogue import Definition
from bench.report import say

HOME = Path(__file__).resolve().parents[2] / ".bench"
SCRIPTS = Path(__file__).resolve().parent / "scripts"
_STEP_SECONDS = 600


class NotAvailableError(Exception):
    """A peer cannot be measured here; the message is the reason."""


def install(definition: Definition, home: Path = HOME) -> list[str]:
    """The command that starts the peer's script, its environment made if need be; NotAvailableError otherwise."""
    folder = home / definition.environment
    program = _program("node") if definition.runtime == "node" else str(folder / "bin" / "python")
    try:
        _ensure(definition, home, folder)
    except OSError as error:
        raise NotAvailableError(str(error)) from error
    return [program, str(SCRIPTS / definition.script)]


def _ensure(definition: Definition, home: Path, folder: Path) -> None:
    with _alone(home):
        stamp = {"requirements": list(definition.requirements), **_identity(definition, folder)}
        if _stamp(folder) != stamp:
            say(f"peers: installing {' '.join(definition.requirements)} into {home.name}/{folder.name} ...")
            shutil.rmtree(folder, ignore_errors=True)
            if definition.runtime == "node":
                _install_node(folder, definition.requirements)
            else:
                _install_python(folder, definition.requirements)
            (folder / "stamp.json").write_text(json.dumps(stamp))
            say(f"peers: {definition.name} {definition.version} is installed")


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Keep two runs from installing over each other, and everything under home out of git."""
    home.mkdir(exist_ok=True)
    (home / ".gitignore").write_text("*\n")
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _identity(definition: Definition, folder: Path) -> dict[str, str]:
    """What an environment is tied to besides its requirements: scripts in it hold absolute paths."""
    return {"runtime": sys.version if definition.runtime == "python" else "node", "folder": str(folder)}


def _stamp(folder: Path) -> Any:
    try:
        return json.loads((folder / "stamp.json").read_text())
    except (OSError, ValueError):
        return None


def _install_python(folder: Path, requirements: tuple[str, ...]) -> None:
    _step("making its environment", [sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _step("pip install", [*pip, "--only-binary=:all:", *requirements])


def _install_node(folder: Path, requirements: tuple[str, ...]) -> None:
    folder.mkdir()
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--no-progress"]
    _step("npm install", [_program("npm"), "install", "--prefix", str(folder), *options, *requirements])


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotAvailableError(f"{name} is not on PATH")
    return found


def _step(title: str, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_STEP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailableError(f"{title}: {error}") from error
    if done.returncode != 0:
        raise NotAvailableError(f"{title}: {_reason(done.stdout) or f'ended with {done.returncode}'}")


def _reason(output: str) -> str:
    """The lines that matter: installers end with advice, and begin with warnings."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return "; ".join((errors or lines[-1:])[:2])[:300]
