"""Compiles the tests once, beside the checks, so that not every process of pytest-xdist compiles all of them.

pytest rewrites the assertions of each test module, which takes 12 s for the whole suite. Its processes import the same modules at the same
moment: in a fresh checkout each of five rewrites them all, a minute of processor time. The checks mostly keep one core busy.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tools.dev.environment import Environment
from tools.dev.running import variables_of
from tools.dev.steps import ROOT

ENOUGH = 50
"""Changed test modules from which on it pays: the rest of a collection takes 5 s even if nothing has to be compiled."""


@contextlib.contextmanager
def compiling(environment: Environment, **variables: str) -> Iterator[None]:
    """Collect all tests while the block runs, if many modules changed since the last time; ``variables`` say which tests "all" is.

    What the collection says is thrown away: the run that follows says the same.
    """
    stamp = environment.folder / "-".join(["windlass-dev-compiled", *sorted(variables)])
    if _changed_since(stamp) < ENOUGH:
        yield
        return
    command = [str(environment.python), "-m", "pytest", "--collect-only", "-q"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables_of(environment, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        stamp.touch()  # before it reads them: a module that changes meanwhile is newer
        yield
        process.wait()
    finally:
        process.kill()
        process.wait()


def _changed_since(stamp: Path) -> int:
    try:
        last = stamp.stat().st_mtime
    except OSError:
        last = 0.0
    return sum(file.stat().st_mtime > last for file in (ROOT / "tests").rglob("*.py"))
