"""The Python interpreters of this machine: the one that runs ``./dev``, those on PATH, those of pyenv."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.dev.steps import ROOT, StepError

_ASK = "import sys; print(getattr(sys, '_base_executable', None) or sys.executable); print(sys.version)"


@dataclass(frozen=True)
class Interpreter:
    """A Python outside of any virtual environment; `text` is all that it says about its version."""

    path: str
    text: str

    @property
    def version(self) -> str:
        return self.text.split()[0]

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


def running() -> Interpreter:
    """The interpreter behind any virtual environment we may have been started from."""
    return Interpreter(str(getattr(sys, "_base_executable", None) or sys.executable), sys.version)


def supported() -> list[str]:
    """The minor versions that the project says it supports."""
    text = (ROOT / "pyproject.toml").read_text()
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def find(minor: str) -> Interpreter | None:
    """The interpreter of a minor version; None where this machine has none that works."""
    if running().minor == minor:
        return running()
    for path in _candidates(minor):
        found = _ask(path)
        if found is not None and found.minor == minor:
            return found
    return None


def wanted(minor: str) -> Interpreter:
    """As `find`, but it has to be there."""
    if not re.fullmatch(r"3\.\d+", minor):
        raise StepError(
            f"reading the version {minor!r}", "it is no minor version of Python", "write it like 3.13"
        )
    found = find(minor)
    if found is None:
        looked = f"there is no python{minor} on PATH, and none under {_pyenv()}"
        raise StepError(
            f"looking for Python {minor}", looked, f"install it, for example: pyenv install {minor}"
        )
    return found


def _candidates(minor: str) -> Iterator[str]:
    if on_path := shutil.which(f"python{minor}"):
        yield on_path
    versions = [path for path in _pyenv().glob(f"{minor}.*") if re.fullmatch(r"3\.\d+\.\d+", path.name)]
    for version in sorted(versions, key=lambda path: int(path.name.rpartition(".")[2]), reverse=True):
        yield str(version / "bin" / "python")


def _pyenv() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def _ask(path: str) -> Interpreter | None:
    """What an interpreter says of itself; None where it does not start (pyenv leaves such programs on PATH)."""
    try:
        answer = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    base, _, text = answer.stdout.partition("\n")
    return Interpreter(base, text.strip()) if answer.returncode == 0 and text.strip() else None
