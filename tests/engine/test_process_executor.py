"""Jobs in child processes: whatever they do, each ends with an outcome, and only its own process dies."""

from __future__ import annotations

import functools
import json
import os
import threading
import time
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
    retried,
    wait_until,
)
from tests.waiting import PATIENCE
from windlass.arguments import importable as address
from windlass.engine.processes import children as children
from windlass.engine.processes.child_process import Child
from windlass.engine.processes.exceptions import RemoteError
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.handlers.registry import Phase, Registry
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Released,
)
from windlass.model.retry import custom, fixed

pytestmark = pytest.mark.timing

MEGABYTE = 1024 * 1024

benches, shared = process_bench.benches, process_bench.shared


# ---------------------------------------------------------------------- results


def test_a_job_runs_in_a_process_that_is_used_again(shared: ProcessBench) -> None:
    first, second = shared.result(handlers.pid), shared.result(handlers.pid)
    assert first == second != os.getpid()
    assert shared.result(handlers.parent_pid) == os.getpid()


@pytest.mark.parametrize("handler", [handlers.echo, handlers.echo_async])
@pytest.mark.parametrize("value", [None, 7, "grüß dich 🪝\u2028", [1.5, {"a": [True]}], {}])
def test_results_come_back_as_they_were(shared: ProcessBench, handler: Any, value: Any) -> None:
    outcome = shared.run(handler, value=value)
    assert isinstance(outcome, Completed) and outcome.run is not None and outcome.run.processor == 7
    assert outcome.result is None if value is None else json.loads(outcome.result) == value


def test_results_are_written_by_their_annotation(shared: ProcessBench) -> None:
    assert shared.result(handlers.greet, name="Zoë") == {"text": "grüß dich, Zoë 🪝", "at": "PT0S"}


def test_async_jobs_share_one_event_loop(shared: ProcessBench) -> None:
    assert shared.result(handlers.loop_id) == shared.result(handlers.loop_id)


def test_a_large_result_passes_and_a_larger_one_is_refused(shared: ProcessBench) -> None:
    assert len(shared.result(handlers.repeat, text="ü", times=500_000)) == 500_000
    assert failed(shared.run(handlers.repeat, text="x", times=2 * MEGABYTE)).error.code == "bad_result"


def test_large_arguments_pass(shared: ProcessBench) -> None:
    """More than a socket holds, and to a process that does not listen yet."""
    jobs = [shared.start(handlers.echo, value="ü" * 500_000) for _ in range(3)]
    for job in jobs:
        outcome = shared.outcome(job)
        assert isinstance(outcome, Completed) and outcome.result is not None
        assert len(outcome.result) == 500_002


def test_a_result_or_arguments_that_do_not_fit_fail_the_job(shared: ProcessBench) -> None:
    assert failed(shared.run(handlers.bad_result)).error.code == "bad_result"
    assert failed(shared.run(handlers.greet, name=[1])).error.code == "bad_arguments"
    assert failed(shared.run(handlers.greet)).error.code == "bad_arguments"


def test_a_phase_that_is_not_the_last_advances_the_job(benches: Callable[..., ProcessBench]) -> None:
    bench = benches()
    first = bench.define(handlers.echo, kind="pipe", label="one")
    bench.define(handlers.echo_async, kind="pipe", label="two", retry=fixed(9))
    moved = bench.run(first, value=None)
    assert isinstance(moved, Advanced)
    assert (moved.phase, moved.output, moved.max_attempts) == ("pipe:two", "null", 9)


def test_a_decorated_handler_is_run_with_what_it_needs(shared: ProcessBench) -> None:
    phase: Phase = handlers.decorated.windlass_phase
    shared.registry._phases[phase.name] = phase
    assert shared.result(phase, name="Ada") == "Ada by real in decorated"


def test_a_job_without_a_handler_fails(shared: ProcessBench) -> None:
    phase = shared.define(handlers.echo)
    stray = replace(lease("echo"), kind="other")
    assert failed(shared.outcome(shared.start(phase, lease=stray))).error.code == "unknown_kind"


# ---------------------------------------------------------------------- exceptions


def test_an_exception_keeps_its_type_message_and_traceback(benches: Callable[..., ProcessBench]) -> None:
    bench = benches()
    phase = bench.define(handlers.raise_value_error, retry=fixed(3, wait=7))
    outcome = retried(bench.run(phase))
    assert outcome.delay == timedelta(seconds=7) and outcome.counted and not outcome.crashed
    assert (outcome.error.type, outcome.error.code) == ("ValueError", "exception")
    assert outcome.error.message == "ValueError: it broke: ü"
    assert outcome.error.traceback is not None and "KeyError: 'cause'" in outcome.error.traceback
    assert "process_handlers.py" in outcome.error.traceback


@pytest.mark.parametrize(
    ("handler", "arguments", "name"),
    [
        (handlers.raise_async, {}, "ValueError"),
        (handlers.raise_teapot, {}, "TeapotError"),
        (handlers.raise_unprintable, {}, "UnprintableError"),
        (handlers.interrupt, {}, "KeyboardInterrupt"),
        (handlers.leave, {"code": 3}, "SystemExit"),
        (handlers.leave_async, {}, "SystemExit"),
        (handlers.raise_signal, {"which": "cancelled"}, "CancelledError"),
    ],
)
def test_every_exception_is_a_failed_attempt_and_no_death(
    shared: ProcessBench, handler: Any, arguments: dict[str, Any], name: str
) -> None:
    before = shared.result(handlers.pid)
    outcome = retried(shared.run(handler, **arguments))
    assert outcome.error.type == name and outcome.error.traceback and not outcome.crashed
    assert shared.result(handlers.pid) == before


def test_a_policy_sees_what_was_raised(benches: Callable[..., ProcessBench]) -> None:
    bench = benches()
    seen: list[Any] = []

    def wait(attempt: int, error: BaseException | None) -> float:
        seen.append(error)
        return 12

    policy = custom(5, wait)
    for handler in (handlers.raise_teapot, handlers.raise_connection_error):
        assert retried(bench.run(bench.define(handler, retry=policy))).delay == timedelta(seconds=12)
    teapot, refused = seen
    assert isinstance(teapot, RemoteError) and isinstance(teapot, handlers.TeapotError)
    assert teapot.status == 418 and "answered 418" in str(teapot)
    assert teapot.windlass_error.type == "TeapotError" and teapot.windlass_error.traceback
    assert isinstance(refused, ConnectionRefusedError) and refused.errno == 111


def test_where_a_policy_breaks_the_default_one_stands_in(benches: Callable[..., ProcessBench]) -> None:
    bench = benches()
    phase = bench.define(handlers.raise_teapot, retry=custom(5, lambda *_: 1 / 0))
    outcome = retried(bench.run(phase))
    assert (
        outcome.error.type == "TeapotError" and "ZeroDivisionError" in outcome.error.details["retry_policy"]
    )


def test_exceptions_are_chosen_by_type_as_in_this_process(benches: Callable[..., ProcessBench]) -> None:
    """Also an exception that cannot be made again here."""
    bench = benches()
    sealed, teapot = handlers.SealedError, handlers.TeapotError
    for kind, chosen in (("itself", sealed), ("base", teapot)):
        phase = bench.define(handlers.raise_sealed, kind=kind, retry=fixed(3, on=chosen))
        assert retried(bench.run(phase)).error.type == "SealedError"
    chosen_by: list[dict[str, Any]] = [
        {"give_up_on": teapot},
        {"on": OSError},
        {"on": teapot, "give_up_on": sealed},
    ]
    for number, options in enumerate(chosen_by):
        phase = bench.define(handlers.raise_sealed, kind=f"k{number}", retry=fixed(3, **options))
        error = failed(bench.run(phase)).error
        assert error.type == "SealedError" and error.traceback
        assert (
            error.details["retry"]
            == "not retried: SealedError is "
            + (
                "a TeapotError, which is in give_up_on",
                "not in on (OSError)",
                "in give_up_on",
            )[number]
        )


def test_a_context_knows_the_time_limit_of_its_phase(benches: Callable[..., ProcessBench]) -> None:
    """The waits of a repeated call depend on it."""
    bench = benches()
    for number, limit in enumerate((123.5, None)):
        assert bench.result(bench.define(handlers.time_limit, kind=f"k{number}", timeout=limit)) == limit


def test_a_repeated_call_stops_with_its_job(benches: Callable[..., ProcessBench], tmp_path: Path) -> None:
    bench = benches()
    running = bench.start(handlers.call_in_vain, path=str(tmp_path / "called"))
    wait_until((tmp_path / "called").exists)
    bench.stop(running, Stop.CANCELLED)
    assert isinstance(bench.outcome(running), Cancelled)


def test_what_a_handler_raises_to_steer(benches: Callable[..., ProcessBench]) -> None:
    bench = benches()
    phase = bench.define(handlers.raise_signal, retry=fixed(3, wait=7))
    later = retried(bench.run(phase, which="retry"))
    assert (later.delay, later.counted, later.error.message) == (timedelta(seconds=90), False, "later")
    assert retried(bench.run(phase, which="retry by policy")).delay == timedelta(seconds=7)
    fail = failed(bench.run(phase, which="fail"))
    assert (fail.error.type, fail.error.code, fail.error.message) == ("Fail", "bad_county", "no such county")
    cancel = bench.run(phase, which="cancel")
    assert isinstance(cancel, Cancelled) and cancel.reason == "enough"
    lost = retried(bench.run(phase, which="lost"))  # perhaps of another job: the database knows
    assert lost.error.code == "lease_lost"


# ---------------------------------------------------------------------- noise


def test_what_jobs_print_goes_to_standard_error(
    benches: Callable[..., ProcessBench], capsys: pytest.CaptureFixture[str]
) -> None:
    bench = benches()
    assert bench.result(handlers.print_much, lines=3000) == "printed"
    bench.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("err")] == [f"err {n} ü" for n in range(3000)]
    assert [line for line in lines if line.startswith("out")] == [f"out {n} ü" for n in range(3000)]
    assert lines[-1] == "no newline"


def test_log_lines_can_tell_which_job_they_belong_to(shared: ProcessBench) -> None:
    running = shared.start(handlers.job_in_logs)
    outcome = shared.outcome(running)
    assert isinstance(outcome, Completed) and outcome.result == f'"{running.lease.id}"'


def test_a_job_may_close_its_outputs(benches: Callable[..., ProcessBench]) -> None:
    bench = benches()
    assert bench.result(handlers.mute) == "muted"
    assert bench.result(handlers.echo, value=1) == 1


# ---------------------------------------------------------------------- many


def test_fifty_jobs_go_through_as_many_processes_as_run_at_once(benches: Callable[..., ProcessBench]) -> None:
    """The next job is handed over from within the end of another, as the engine does it."""
    bench = benches(idle_kept=4)
    phase = bench.define(handlers.pid)
    left = 46
    started: list[RunningAttempt] = []
    told = bench._on_ended

    def on_ended(batch: Any) -> None:
        nonlocal left
        for _ in batch:
            if left > 0:
                left -= 1
                started.append(bench.start(phase))
        told(batch)

    bench.executor._on_ended = on_ended
    started += [bench.start(phase) for _ in range(4)]
    wait_until(lambda: len(started) == 50, "all jobs were started")
    pids = set()
    for running in started:
        outcome = bench.outcome(running)
        assert isinstance(outcome, Completed)
        pids.add(outcome.result)
    assert 1 <= len(pids) <= 4 and len(bench.executor.pids) == len(pids)


def test_processes_that_idle_are_ended_but_for_a_few(
    benches: Callable[..., ProcessBench], tmp_path: Path
) -> None:
    bench = benches(idle_kept=1, idle_seconds=0.2)
    go = tmp_path / "go"
    jobs = [bench.start(handlers.wait_for, path=str(tmp_path / str(n)), go=str(go)) for n in range(3)]
    for n in range(3):
        begun(tmp_path / str(n))
    assert len(bench.executor.pids) == 3
    go.touch()
    for job in jobs:
        bench.outcome(job)
    wait_until(lambda: len(bench.executor.pids) == 1, "two processes are ended")
    assert bench.result(handlers.pid) in bench.executor.pids


def test_submitting_does_not_wait(
    benches: Callable[..., ProcessBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = benches()
    may_start = threading.Event()

    def start(init: Any) -> Child:
        may_start.wait()
        return Child(init)

    monkeypatch.setattr(children, "Child", start)
    jobs = [bench.start(handlers.pid) for _ in range(3)]  # while the supervisor is held up
    bench.executor.stop_job(jobs[0])
    may_start.set()
    assert all(isinstance(bench.outcome(job), Completed | Cancelled | Released) for job in jobs)


def test_the_time_of_a_job_has_not_begun_while_its_process_is_started(
    benches: Callable[..., ProcessBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its limit would be over before its process is there, where the machine is busy."""
    bench = benches()
    is_starting, may_start = threading.Event(), threading.Event()

    def start(init: Any) -> Child:
        is_starting.set()
        may_start.wait()
        return Child(init)

    monkeypatch.setattr(children, "Child", start)
    running = bench.start(handlers.pid)
    assert is_starting.wait(PATIENCE)
    before = running.begun, running.processor.progress_at > time.monotonic()
    may_start.set()
    assert isinstance(bench.outcome(running), Completed)
    after = running.begun, running.processor.progress_at > time.monotonic()
    assert (before, after) == ((False, True), (True, False))


# ---------------------------------------------------------------------- which handlers


def test_a_handler_that_has_no_address_cannot_be_hosted(shared: ProcessBench) -> None:
    registry = Registry()
    hostable: list[Any] = [handlers.echo, handlers.echo_async, handlers.Holder.nested]
    homeless: list[Any] = [
        handlers.make_closure(),
        lambda: None,
        handlers.Holder().method,
        functools.partial(handlers.echo),
    ]
    for number, handler in enumerate(hostable):
        assert shared.executor.can_host(registry.define(f"good-{number}", handler))
    for number, handler in enumerate(homeless):
        phase = registry.define(f"bad-{number}", handler)
        assert not shared.executor.can_host(phase) and address.why_not_importable(handler)
        assert failed(shared.run(phase)).error.code == "config"
    assert shared.executor.can_host(handlers.decorated.windlass_phase)


def test_a_name_that_leads_elsewhere_is_no_address(
    shared: ProcessBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    phase = Registry().define("echo", handlers.echo)
    monkeypatch.setattr(handlers, "echo", handlers.pid)
    assert address.locate(phase.handler) is None
    monkeypatch.delattr(handlers, "echo")
    assert address.locate(phase.handler) is None
