"""Real processes for tests: modules of this package, started together, ended with the test whatever happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from windlass import processes as process

ROOT = Path(__file__).parents[2]


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    """Start ``python -m module`` with pipes; it dies with us."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=process.die_with_parent,
    )


def hear(one: subprocess.Popen[str]) -> str:
    """The next line a process says; empty when it ended."""
    assert one.stdout is not None
    return one.stdout.readline().strip()


def tell(one: subprocess.Popen[str], line: str = "go") -> None:
    assert one.stdin is not None
    one.stdin.write(f"{line}\n")
    one.stdin.flush()


@contextmanager
def together(
    module: str, argument_lists: Sequence[Sequence[object]]
) -> Iterator[list[subprocess.Popen[str]]]:
    """Start one process per list of arguments, wait until each said "ready", and let them go at once."""
    running = [start(module, *arguments) for arguments in argument_lists]
    try:
        assert [hear(one) for one in running] == ["ready"] * len(running)
        for one in running:
            tell(one)
        yield running
    finally:
        for one in running:
            stop(one)


def finish(running: Sequence[subprocess.Popen[str]], seconds: float = 90) -> None:
    """Wait until all ended well."""
    codes = [one.wait(seconds) for one in running]
    assert codes == [0] * len(codes)


def stop(one: subprocess.Popen[str]) -> None:
    """End a process at once, and its pipes."""
    one.kill()
    one.wait()
    for pipe in (one.stdin, one.stdout):
        if pipe is not None:
            pipe.close()


def ask(one: subprocess.Popen[str], line: str) -> str:
    """Tell a process something and hear its answer."""
    tell(one, line)
    return hear(one)


@contextmanager
def running(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """One process that said "ready"; ended after the block, even if it is frozen."""
    one = start(module, *arguments)
    try:
        assert hear(one) == "ready"
        yield one
    finally:
        stop(one)
