"""Child processes that die: the job ends with a crash, and its neighbours go on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine import process_bench
from tests.engine import process_handlers as handlers
from tests.engine.leases import lease
from tests.engine.process_bench import (
    ProcessBench,
    begun,
    failed,
    is_alive,
    retried,
    wait_until,
)
from windlass.engine.processes import children as children
from windlass.engine.processes.child_process import KEPT_OUTPUT
from windlass.model import (
    Completed,
    Json,
)

pytestmark = pytest.mark.timing

MEGABYTE = 1024 * 1024

benches, shared = process_bench.benches, process_bench.shared


# ---------------------------------------------------------------------- deaths


def test_a_segfault_is_a_crash_that_tells_where(shared: ProcessBench) -> None:
    outcome = retried(shared.run(handlers.crash))
    assert outcome.crashed and outcome.delay == timedelta(0)
    assert (outcome.error.type, outcome.error.code) == ("ProcessDied", "process_died")
    assert "SIGSEGV" in outcome.error.message
    details = outcome.error.details
    assert (details["signal"], details["exit_code"], details["crashes"]) == ("SIGSEGV", None, 1)
    assert outcome.error.traceback is not None
    assert "Segmentation fault" in outcome.error.traceback and "in crash" in outcome.error.traceback


def test_a_process_that_ends_itself_is_a_crash(shared: ProcessBench) -> None:
    outcome = retried(shared.run(handlers.end_process, code=3))
    assert outcome.crashed and outcome.error.details["exit_code"] == 3
    assert outcome.error.details["signal"] is None and "exit code 3" in outcome.error.message
    assert outcome.error.traceback == "about to end\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_process_that_is_killed_is_a_crash(shared: ProcessBench, number: signal.Signals) -> None:
    outcome = retried(shared.run(handlers.kill_itself, number=int(number)))
    assert outcome.crashed and outcome.error.details["signal"] == number.name
    assert outcome.error.traceback is not None and len(outcome.error.traceback) <= KEPT_OUTPUT


def test_crashes_wait_longer_each_time_and_end_at_the_cap(benches: Callable[..., ProcessBench]) -> None:
    bench = benches(crash_cap=4, memory_limit=512 * MEGABYTE)
    phase = bench.define(handlers.end_process)
    job = replace(lease("end_process"), args_json=Json('{"code":1}'))
    third = retried(bench.outcome(bench.start(phase, lease=replace(job, crashes=2))))
    assert third.delay == timedelta(seconds=2) and third.error.details["crashes"] == 3
    assert third.error.details["memory_limit"] == 512 * MEGABYTE
    last = failed(bench.outcome(bench.start(phase, lease=replace(job, crashes=3))))
    assert last.error.code == "crash_cap" and "4 times" in last.error.message


def test_a_death_leaves_the_neighbours_alone(shared: ProcessBench, tmp_path: Path) -> None:
    neighbour = shared.start(handlers.wait_for, path=str(tmp_path / "begun"), go=str(tmp_path / "go"))
    begun(tmp_path / "begun")
    assert retried(shared.run(handlers.crash)).crashed
    (tmp_path / "go").touch()
    assert isinstance(shared.outcome(neighbour), Completed)


def test_a_death_takes_what_the_job_started_with_it(shared: ProcessBench, tmp_path: Path) -> None:
    assert retried(shared.run(handlers.start_sleeper, path=str(tmp_path / "pid"))).crashed
    sleeper = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_alive(sleeper), "the program is gone")


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (handlers.close_everything, "exit code 1"),
        (handlers.shut_down_everything, "closed its socket"),
        (handlers.write_rubbish, "an invalid message"),
    ],
)
def test_a_job_that_breaks_the_line_is_a_crash(shared: ProcessBench, handler: Any, told: str) -> None:
    outcome = retried(shared.run(handler))
    assert outcome.crashed and told in outcome.error.message


def test_too_much_memory_is_an_ordinary_exception(benches: Callable[..., ProcessBench]) -> None:
    bench = benches(memory_limit=128 * MEGABYTE)
    before = bench.result(handlers.pid)
    assert bench.result(handlers.take_memory, megabytes=16) == 16 * MEGABYTE
    outcome = retried(bench.run(handlers.take_memory, megabytes=400))
    assert outcome.error.type == "MemoryError" and not outcome.crashed
    assert bench.result(handlers.pid) != before, "a process that ran out of memory is not used again"


def test_an_idle_process_that_dies_is_replaced(benches: Callable[..., ProcessBench]) -> None:
    bench = benches()
    for _ in range(5):
        pid = bench.result(handlers.pid)
        os.kill(pid, signal.SIGKILL)  # its next job may be on its way before this is noticed
        assert bench.result(handlers.pid) != pid


def test_a_job_is_not_blamed_when_no_process_can_start(
    benches: Callable[..., ProcessBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = benches()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    outcome = retried(bench.run(handlers.pid))
    assert outcome.error.code == "process_start" and not outcome.counted and not outcome.crashed
    monkeypatch.undo()
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    outcome = retried(bench.run(handlers.pid))
    assert outcome.error.code == "process_start" and not outcome.counted and outcome.error.traceback
    monkeypatch.undo()
    assert bench.result(handlers.pid)
