"""Stopping jobs in child processes, and closing their executor: what does not end by itself is killed."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine import process_bench
from tests.engine import process_handlers as handlers
from tests.engine.leases import lease
from tests.engine.process_bench import (
    ProcessBench,
    TouchedProcessor,
    begun,
    is_alive,
    own_children,
    retried,
    wait_until,
)
from windlass.engine.processes import executor as process_executor
from windlass.engine.processes.child.runtime import TOUCH_EVERY
from windlass.engine.processes.child_process import Child
from windlass.engine.running_attempt import Stop
from windlass.errors import ConfigError
from windlass.model import (
    Cancelled,
    Completed,
    Json,
    Released,
    Retried,
)

pytestmark = pytest.mark.timing

MEGABYTE = 1024 * 1024

benches, shared = process_bench.benches, process_bench.shared


# ---------------------------------------------------------------------- stopping


@pytest.mark.parametrize(
    "handler", [handlers.look_at_stop, handlers.hog, handlers.sleep_async, handlers.regroup]
)
def test_a_job_that_ran_out_of_time_is_killed(shared: ProcessBench, tmp_path: Path, handler: Any) -> None:
    running = shared.start(handler, path=str(tmp_path / "begun"))
    pid = begun(tmp_path / "begun")
    shared.stop(running, Stop.TIME_LIMIT)
    outcome = retried(shared.outcome(running))
    assert outcome.error.code == "time_limit" and not outcome.crashed and outcome.counted
    assert not is_alive(pid)


@pytest.mark.parametrize("handler", [handlers.look_at_stop, handlers.sleep_async])
@pytest.mark.parametrize(
    ("reason", "kind"),
    [(Stop.CANCELLED, Cancelled), (Stop.SHUTDOWN, Released), (Stop.LEASE_LOST, Retried)],
)
def test_a_job_that_listens_stops_by_itself(
    shared: ProcessBench, tmp_path: Path, handler: Any, reason: Stop, kind: type
) -> None:
    running = shared.start(handler, path=str(tmp_path / "begun"))
    pid = begun(tmp_path / "begun")
    shared.stop(running, reason)
    assert isinstance(shared.outcome(running), kind)
    assert is_alive(pid), "its process is fit for the next job"


@pytest.mark.parametrize("handler", [handlers.sleep, handlers.hog, handlers.regroup])
@pytest.mark.parametrize(
    ("reason", "kind"),
    [(Stop.CANCELLED, Cancelled), (Stop.SHUTDOWN, Released), (Stop.LEASE_LOST, Retried)],
)
def test_a_job_that_does_not_listen_is_killed_after_the_grace_time(
    benches: Callable[..., ProcessBench], tmp_path: Path, handler: Any, reason: Stop, kind: type
) -> None:
    bench = benches(cancel_grace=0.2)
    running = bench.start(handler, path=str(tmp_path / "begun"))
    pid = begun(tmp_path / "begun")
    asked = time.monotonic()
    bench.stop(running, reason)
    assert isinstance(bench.outcome(running), kind)
    assert time.monotonic() - asked >= 0.2 and not is_alive(pid)


def test_a_job_may_finish_although_it_was_told_to_stop(shared: ProcessBench, tmp_path: Path) -> None:
    running = shared.start(handlers.finish_although_stopped, path=str(tmp_path / "begun"))
    begun(tmp_path / "begun")
    shared.stop(running, Stop.CANCELLED)
    assert isinstance(shared.outcome(running), Completed)


def test_a_job_told_to_stop_before_it_began_does_not_begin(
    benches: Callable[..., ProcessBench], tmp_path: Path
) -> None:
    bench = benches()
    phase = bench.define(handlers.look_at_stop)
    job = replace(lease("look_at_stop"), args_json=Json(json.dumps({"path": str(tmp_path / "begun")})))
    running = bench.start(phase, lease=job)
    bench.stop(running, Stop.CANCELLED)  # long before its process has started
    assert isinstance(bench.outcome(running), Cancelled)
    assert not (tmp_path / "begun").exists()


def test_stopping_a_job_that_has_ended_does_nothing(shared: ProcessBench) -> None:
    running = shared.start(handlers.pid)
    shared.outcome(running)
    shared.stop(running, Stop.TIME_LIMIT)
    assert shared.result(handlers.pid)


def test_an_interrupt_is_left_to_the_instance(shared: ProcessBench) -> None:
    assert shared.result(handlers.interrupt_self) == "still here"


def test_signs_of_life_arrive_and_are_few(shared: ProcessBench) -> None:
    began = time.monotonic()
    running = shared.start(handlers.beat, times=100_000)
    shared.outcome(running)
    assert isinstance(running.processor, TouchedProcessor)
    assert 2 <= len(running.processor.touches) < 10 + (time.monotonic() - began) / TOUCH_EVERY
    assert running.processor.progress_at <= time.monotonic()


# ---------------------------------------------------------------------- closing


def descriptors() -> dict[str, str]:
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one the folder was read through
            found[path.name] = str(path.readlink())
    return found


def test_closing_leaves_no_process_and_no_descriptor_behind(tmp_path: Path) -> None:
    gc.collect()
    children, files, threads = own_children(), descriptors(), set(threading.enumerate())
    bench = ProcessBench()
    for n in range(2):  # two busy ones, one idle, one dead
        bench.start(handlers.sleep, path=str(tmp_path / str(n)))
    bench.run(handlers.crash)
    bench.result(handlers.pid)
    for n in range(2):
        begun(tmp_path / str(n))
    assert len(own_children() - children) == 3
    bench.close()
    # What ends meanwhile is an earlier test's.
    assert own_children() <= children and set(threading.enumerate()) <= threads
    assert descriptors().items() <= files.items()


def test_closing_gives_running_jobs_time_and_releases_the_rest(tmp_path: Path) -> None:
    bench = ProcessBench()
    short = bench.start(handlers.wait_for, path=str(tmp_path / "short"), go=str(tmp_path / "go"))
    long = bench.start(handlers.hog, path=str(tmp_path / "long"))
    for name in ("short", "long"):
        begun(tmp_path / name)
    closing = threading.Thread(target=bench.close, kwargs={"wait": 60.0})
    closing.start()
    wait_until(lambda: bench.executor._closing_at, "it closes")
    late = bench.start(handlers.pid)
    assert isinstance(bench.outcome(late), Released), "nothing is begun any more"
    (tmp_path / "go").touch()
    assert isinstance(bench.outcome(short), Completed)
    bench.close()  # no more patience
    assert isinstance(bench.outcome(long), Released)
    closing.join()


def test_closing_does_not_wait_for_what_is_not_there() -> None:
    bench = ProcessBench()
    bench.close(wait=60)
    bench.start(handlers.pid)  # nobody takes it any more, and nothing happens
    assert not bench.batches and bench.executor.pids == []
    other = ProcessBench()
    other.result(handlers.pid)
    before = time.monotonic()
    other.close(wait=60)
    other.close()
    assert time.monotonic() - before < 30 and other.executor.pids == []


def test_what_cannot_be_killed_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in a system call that hangs; stopping an engine closes this twice."""
    bench = ProcessBench()
    bench.start(handlers.sleep, path=str(tmp_path / "begun"))
    begun(tmp_path / "begun")
    with monkeypatch.context() as patch:
        patch.setattr(process_executor, "EXIT_WAIT", 0.1)
        patch.setattr(Child, "kill", lambda child: None)
        before = time.monotonic()
        bench.close()
        assert bench.executor.pids, "it waited for that, and in vain"
        bench.close(wait=0.5)
        assert time.monotonic() - before < 30
    wait_until(lambda: not bench.executor.pids, "the process ends when it can")


def test_ends_that_cannot_be_told_do_not_stop_it(caplog: pytest.LogCaptureFixture) -> None:
    bench = ProcessBench()
    told, bench.executor._on_ended = bench.executor._on_ended, lambda batch: [][1]
    bench.start(handlers.pid)
    wait_until(lambda: "could not be reported" in caplog.text, "the error is logged")
    bench.executor._on_ended = told
    assert bench.result(handlers.pid)
    bench.close()


def test_without_process_descriptors_exits_are_found_all_the_same(
    benches: Callable[..., ProcessBench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """macOS, and kernels whose sandbox forbids them."""
    monkeypatch.delattr(os, "pidfd_open")
    bench = benches()
    assert retried(bench.run(handlers.crash)).error.details["signal"] == "SIGSEGV"
    running = bench.start(handlers.hog, path=str(tmp_path / "begun"))
    begun(tmp_path / "begun")
    bench.stop(running, Stop.TIME_LIMIT)
    assert retried(bench.outcome(running)).error.code == "time_limit"
    assert bench.result(handlers.echo, value=1) == 1
    bench.close()
    assert bench.executor.pids == []


def test_options_that_cannot_be_passed_on_are_refused() -> None:
    with pytest.raises(ConfigError, match="open_store"):
        ProcessBench(open_store={"url": "sqlite:///x.db", "clock": object()})
