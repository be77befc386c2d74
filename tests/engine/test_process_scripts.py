"""Whole programs with child processes: handlers of the main script, and parents that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.process_bench import is_alive, wait_until
from tests.waiting import PATIENCE

pytestmark = pytest.mark.timing

TOP = Path(__file__).parents[2]

SCRIPT = """
import sys
import time
from tests.engine.process_bench import ProcessBench
from tests.engine.process_handlers import hog, sleep, wait_for

print("loaded as", __name__, flush=True)


class OwnError(Exception):
    pass


def name_of_main() -> str:
    return __name__


def raise_own() -> None:
    raise OwnError("mine")


def policy(attempt, error):
    return 9 if isinstance(error, OwnError) else 1
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs a script as a program of its own, from another folder."""
    started: list[subprocess.Popen[str]] = []

    def run(body: str, *arguments: str, module: bool = False) -> subprocess.Popen[str]:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT + textwrap.dedent(body))
        how = ["-m", "script"] if module else [str(script)]
        started.append(
            subprocess.Popen(
                [sys.executable, *how, *arguments],
                env={**os.environ, "PYTHONPATH": f"{TOP}{os.pathsep}{tmp_path}"},
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


MAIN = """
    if __name__ == "__main__":
        from windlass.model.retry import custom

        bench = ProcessBench()
        print("handler in", bench.result(name_of_main))
        print("delay", bench.run(bench.define(raise_own, retry=custom(3, policy))).delay.total_seconds())
        bench.close()
"""


@pytest.mark.parametrize("module", [False, True])
def test_handlers_of_the_main_script_are_found(
    start: Callable[..., subprocess.Popen[str]], module: bool
) -> None:
    output, errors = start(MAIN, module=module).communicate(timeout=PATIENCE)
    assert output.splitlines() == ["loaded as __main__", "handler in __windlass_main__", "delay 9.0"], errors
    assert errors.splitlines() == ["loaded as __windlass_main__"], "once, although there were two jobs"


def test_a_script_that_always_starts_an_instance_is_told_so(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    body = """
        bench = ProcessBench()
        print(bench.run(bench.define(name_of_main, kind="heavy", executor="process")).error.message)
        suspect = bench.define(name_of_main)
        print("suspect:", type(bench.run(suspect)).__name__, bench.executor.can_host(suspect))
        bench.close()
    """
    output, errors = start(body).communicate(timeout=PATIENCE)
    assert "whenever it is loaded" in output and "__name__" in output, errors
    assert "suspect: Released False" in output, "no job's fault: it runs beside the others"


def test_handlers_of_an_interactive_session_have_no_address() -> None:
    code = """if True:
        from windlass.arguments.importable import locate, why_not_importable
        def handler(): ...
        assert locate(handler) is None
        print(why_not_importable(handler))
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert "interactive" in done.stdout


@pytest.mark.parametrize("handler", ["hog", "sleep"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_die_with_their_parent(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, handler: str, number: signal.Signals
) -> None:
    """A busy one, which may keep Python from switching threads, and an idle one."""
    body = f"""
        if __name__ == "__main__":
            bench = ProcessBench()
            idle = bench.start(wait_for, path=sys.argv[1] + "-idle", go=sys.argv[1])
            bench.start({handler}, path=sys.argv[1])
            bench.outcome(idle)
            print("idle", flush=True)
            time.sleep(600)
    """
    parent = start(body, str(tmp_path / "busy"))
    paths = [tmp_path / "busy", tmp_path / "busy-idle"]
    assert parent.stdout is not None
    assert parent.stdout.readline() and parent.stdout.readline() == "idle\n"
    wait_until(lambda: all(path.exists() for path in paths), "both jobs have begun")
    pids = [int(path.read_text()) for path in paths]
    assert all(is_alive(pid) for pid in pids)
    parent.send_signal(number)
    parent.wait(PATIENCE)
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "the children are gone")
