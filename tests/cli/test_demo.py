"""``windlass demo`` with real processes: a worker is killed, the demo itself is interrupted and killed."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.cli.demos import Start, demos, finish
from tests.waiting import PATIENCE, eventually
from windlass.features import open_store
from windlass.model import JobFilter, State

pytestmark = [pytest.mark.slow, pytest.mark.timing]
JOBS, MORE = 120, 500  # five seconds of work are enough to be killed at work
MANY = "2000"  # twenty seconds of work: whoever interrupts a demo of so many finds it at work, however late the signal comes


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    yield from demos(tmp_path, "--kill", "--jobs", str(JOBS))


def _is_right(facts: dict[str, float], jobs: int = JOBS) -> None:
    ends = {state: facts[state] for state in ("completed", "failed", "cancelled")}
    assert ends == {"completed": jobs - 2, "failed": 1, "cancelled": 1}
    assert facts["pack: done"] == jobs - 1
    assert facts["ship: done"] == jobs - 2
    assert facts["effects twice"] == facts["effects missing"] == 0


def _workers(demo: subprocess.Popen[str]) -> list[int]:
    """The pids of the workers, as soon as the demo has said them."""
    for line in _lines(demo.stderr):
        if line.startswith("workers: "):
            return [int(pid) for pid in re.findall(r"pid (\d+)", line)]
    raise AssertionError("the demo ended without starting workers")


def _lines(stream: IO[str] | None) -> Iterator[str]:
    assert stream is not None
    return iter(stream.readline, "")


def _are_gone(pids: list[int]) -> bool:
    return not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("arguments", [[], ["--postgres"]], ids=["sqlite", "postgres"])
def test_a_killed_worker_loses_and_repeats_nothing(start, arguments: list[str]) -> None:
    demo = start(*arguments)
    facts, err = finish(demo)
    _is_right(facts)
    assert facts["workers killed"] == 1
    assert facts["jobs recovered"] >= 1
    assert "killed worker pid" in err
    assert len(re.findall(f"of {JOBS} done", err)) >= 2


def test_the_killed_demo_goes_on_where_it_was(start, tmp_path: Path) -> None:
    """SIGKILL of the demo takes its workers with it; the next start finishes the same jobs, each effect once."""
    first = start("--jobs", str(MORE))
    workers = _workers(first)
    url = f"sqlite:///{tmp_path / 'windlass-demo.db'}"
    with open_store(url) as store:
        eventually(
            lambda: first.poll() or store.jobs.list(JobFilter(state=State.COMPLETED), limit=1).jobs,
            "a completed job",
        )
        first.kill()
        assert first.wait() == -signal.SIGKILL, "it was at work"
        eventually(lambda: _are_gone(workers), "the end of the workers")
        assert store.jobs.list(JobFilter(state=State.QUEUED), limit=1).jobs
    facts, err = finish(start("--jobs", str(MORE)))
    assert "continuing with" in err
    _is_right(facts, MORE)
    again, _ = finish(start())  # all done: a new round in the same file
    _is_right(again)


def test_ctrl_c_ends_with_130_and_leaves_no_process(start) -> None:
    demo = start("--jobs", MANY)
    workers = _workers(demo)
    assert next(_lines(demo.stderr)), "it says how far it is, and works"
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 130
    assert err.splitlines()[-1] == "error: interrupted"
    assert _are_gone(workers)


def test_sigterm_leaves_no_process_and_no_server(start) -> None:
    demo = start("--postgres", "--jobs", MANY)
    workers = _workers(demo)
    children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
    processes = [int(pid) for pid in children]
    assert set(workers) < set(processes)
    demo.terminate()
    demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 143
    assert _are_gone(processes)
