"""Runs a command of an environment in our terminal."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from tools.dev.environment import Environment
from tools.dev.steps import ROOT, say

STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes of a command that somebody stopped: nothing is begun after it."""
TOO_LONG = 124  # as timeout(1) has it


def run(environment: Environment, command: list[str], *, limit: float | None = None, **variables: str) -> int:
    """Run a command with our terminal and give back its exit code the way a shell does (128 + signal).

    A command that takes longer than ``limit`` seconds is ended, and the exit code is 124.

    Ctrl-C reaches the command by itself, since it shares our terminal; we only wait for it to tidy up. SIGTERM comes
    to us alone, so it is passed on.
    """
    env = variables_of(environment, **variables)
    received: set[int] = set()

    def note(number: int, _frame: FrameType | None) -> None:
        received.add(number)
        if number == signal.SIGTERM:
            process.terminate()

    with handling(signal.SIGINT, note):
        process = subprocess.Popen(command, cwd=ROOT, env=env)
        with handling(signal.SIGTERM, note):
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                say(f"dev: {' '.join(command[1:4])} ... did not end within {limit:g} s; it is aborted")
                _abort(process.pid)
                process.wait()
                code = TOO_LONG
    if signal.SIGINT in received:
        return 128 + signal.SIGINT
    return code if code >= 0 else 128 - code


def variables_of(environment: Environment, **variables: str) -> dict[str, str]:
    """The environment variables of a command that uses the programs of ``environment``."""
    folder = environment.folder
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    env = dict(os.environ, PATH=path, VIRTUAL_ENV=str(folder), **variables)
    if env.pop("PYTHONDONTWRITEBYTECODE", None):
        # The suite starts hundreds of processes, and each would compile everything it imports. Nothing appears in the tree.
        env.setdefault("PYTHONPYCACHEPREFIX", str(folder / "pycache"))
    return env


def _abort(pid: int) -> None:
    """End a process and what it started, the youngest first. SIGABRT: a process with Python's faulthandler, which pytest enables, says
    what each of its threads was doing."""
    for child in _children(pid):
        _abort(child)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGABRT)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # the process is gone, or this system has no /proc
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


@contextlib.contextmanager
def handling(number: int, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def python(environment: Environment, *arguments: str, limit: float | None = None, **variables: str) -> int:
    return run(environment, [str(environment.python), *arguments], limit=limit, **variables)
