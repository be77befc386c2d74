"""Runs a command of an environment in our terminal."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from types import FrameType

from tools.dev.environment import Environment
from tools.dev.steps import ROOT

STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes of a command that somebody stopped: nothing is begun after it."""


def run(environment: Environment, command: list[str], **variables: str) -> int:
    """Run a command with our terminal and give back its exit code the way a shell does (128 + signal).

    Ctrl-C reaches the command by itself, since it shares our terminal; we only wait for it to tidy up. SIGTERM comes
    to us alone, so it is passed on.
    """
    folder = environment.folder
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    env = dict(os.environ, PATH=path, VIRTUAL_ENV=str(folder), **variables)
    if env.pop("PYTHONDONTWRITEBYTECODE", None):
        # The suite starts hundreds of processes, and each would compile everything it imports. Nothing appears in the tree.
        env.setdefault("PYTHONPYCACHEPREFIX", str(folder / "pycache"))
    received: set[int] = set()

    def note(number: int, _frame: FrameType | None) -> None:
        received.add(number)
        if number == signal.SIGTERM:
            process.terminate()

    with handling(signal.SIGINT, note):
        process = subprocess.Popen(command, cwd=ROOT, env=env)
        with handling(signal.SIGTERM, note):
            code = process.wait()
    if signal.SIGINT in received:
        return 128 + signal.SIGINT
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def handling(number: int, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def python(environment: Environment, *arguments: str, **variables: str) -> int:
    return run(environment, [str(environment.python), *arguments], **variables)
