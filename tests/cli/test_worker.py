"""``windlass worker`` as people and service managers use it: real processes, real signals."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from tests.cli.bench import QUICK, Bench, children, events, heard
from tests.waiting import PATIENCE
from windlass.cli.stop_signals import ECHO
from windlass.model import NewJob, State

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


def test_drain_runs_everything_and_ends(bench: Bench) -> None:
    app = bench.app()
    jobs = [app.hello.enqueue(name=str(n)) for n in range(20)]
    failed, late = (
        app.fail.options(correlation_id="order-9").enqueue(),
        app.hello.options(delay=0.5).enqueue(name="late"),
    )
    far = app.hello.options(delay=3600).enqueue(name="far")
    worker = bench.worker("--drain")
    output, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0 and output == "", errors
    assert [bench.store.jobs.get(job.id).result for job in jobs] == [f"hello {n}" for n in range(20)]
    assert bench.store.jobs.get(failed.id).state is State.FAILED
    assert bench.store.jobs.get(late.id).state is State.COMPLETED
    assert bench.store.jobs.get(far.id).state is State.SCHEDULED, "what is due much later does not hold it up"
    told = events(errors)
    about = [line["event"] for line in told if line["event"].startswith("instance")]
    assert [event for event in about if event != "instance.health"] == [  # of a machine that stalls
        "instance.started",
        "instance.stopping",
        "instance.stopped",
    ]
    (retried,) = [line for line in told if line["event"] == "job.retried"]
    assert (retried["job_id"], retried["correlation_id"], retried["attempt"]) == (failed.id, "order-9", 1)
    assert retried["fields"]["delay_seconds"] == 0.05 and retried["error"]["type"] == "ValueError"


def test_lines_of_a_jobs_own_process_name_their_instance(lone: Bench) -> None:
    job = lone.app().speak.enqueue()
    worker = lone.worker("--drain")
    _, errors = worker.communicate(timeout=PATIENCE)
    (line,) = [line for line in events(errors) if line["message"] == "from a child"]
    (span,) = lone.store.jobs.timeline(job.id)
    assert (line["job_id"], line["instance"]) == (job.id, span.instance)


def test_a_drain_says_which_jobs_nobody_serves(bench: Bench) -> None:
    """A handler was renamed while its jobs were queued: the drain ended without a word."""
    bench.store.enqueue([NewJob(kind="old_name"), NewJob(kind="old_name")])
    worker = bench.worker("--drain")
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, errors
    (told,) = [line for line in events(errors) if line["event"] == "phase.unserved"]
    assert told["phase"] == "old_name" and told["fields"]["queued"] == 2


def test_a_phase_of_the_app_that_no_worker_serves_is_named(bench: Bench) -> None:
    """Only phases that the app did not have were named: the jobs of a worker that was never started piled up unseen."""
    app = bench.app()
    app.pid.enqueue()
    worker = bench.worker("--drain", "--phase", "hello")
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, errors
    (told,) = [line for line in events(errors) if line["event"] == "phase.unserved"]
    assert told["phase"] == "pid" and told["fields"]["queued"] == 1


def test_a_drain_says_which_paused_phase_it_waits_for(bench: Bench) -> None:
    job = bench.app().hello.enqueue(name="x")
    bench.store.phases.pause("hello", "repairs")
    worker = bench.worker("--drain")
    errors = heard(worker, "drain.held_up")
    bench.store.phases.resume("hello")
    errors += worker.communicate(timeout=PATIENCE)[1]
    (told,) = [line for line in events(errors) if line["event"] == "drain.held_up"]
    assert "1 queued jobs of hello, which is paused until it is resumed: repairs" in told["message"]
    assert worker.returncode == 0 and bench.store.jobs.get(job.id).state is State.COMPLETED


def test_a_first_signal_waits_for_running_jobs(bench: Bench, tmp_path: Path) -> None:
    app = bench.app()
    running = app.wait.enqueue(seconds=0.8, begun=str(tmp_path / "begun"))
    waiting = [app.wait.enqueue(seconds=0.8) for _ in range(100)]  # for 40 s
    worker = bench.worker()
    bench.until((tmp_path / "begun").exists)
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, errors
    assert bench.store.jobs.get(running.id).state is State.COMPLETED
    left = [bench.store.jobs.get(job.id) for job in waiting]
    assert all(
        (job.state, job.attempt) == (State.QUEUED, 0) for job in left if job.state is not State.COMPLETED
    )
    assert any(job.state is State.QUEUED for job in left)


def test_a_second_signal_does_not(bench: Bench) -> None:
    app = bench.app()
    job = app.wait.enqueue(seconds=60)
    worker = bench.worker("--grace", "50")
    bench.until(lambda: bench.store.jobs.get(job.id).state is State.PROCESSING)
    worker.send_signal(signal.SIGINT)
    heard(worker, "instance.stopping")
    assert worker.poll() is None
    began = time.monotonic()
    worker.send_signal(signal.SIGINT)
    worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 130 and time.monotonic() - began < 40
    assert (bench.store.jobs.get(job.id).state, bench.store.jobs.get(job.id).attempt) == (State.QUEUED, 0)


def test_a_thread_that_cannot_be_stopped_does_not_stop_the_worker_from_ending(bench: Bench) -> None:
    app = bench.app()
    job = app.stubborn.enqueue(seconds=60)
    worker = bench.worker("--grace", "0.3")
    bench.until(lambda: bench.store.jobs.get(job.id).state is State.PROCESSING)
    time.sleep(0.2)
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE)
    assert time.monotonic() - began < 40 and worker.returncode == 0
    assert bench.store.jobs.get(job.id).state is State.QUEUED


@pytest.mark.parametrize("kind", ["terminate", "terminate_in_process"])
def test_a_job_may_terminate_what_it_forks(lone: Bench, kind: str) -> None:
    """The children handled SIGTERM as the worker does: they went on, and the worker heard it and stopped."""
    app = lone.app()
    job, then = getattr(app, kind).enqueue(), app.hello.options(delay=0.5).enqueue(name="x")
    worker = lone.worker("--grace", "2")
    lone.until(lambda: worker.poll() is not None or lone.store.jobs.get(then.id).state is State.COMPLETED)
    lone.until(lambda: lone.store.jobs.get(job.id).state is State.COMPLETED)
    assert lone.store.jobs.get(job.id).result == -signal.SIGTERM
    assert worker.poll() is None, "the worker was not told to stop"
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, errors


@pytest.mark.parametrize(
    ("kind", "processes", "named"),
    [
        ("stay_in_thread", "1", r"for 1 thread \((asyncio|uvloop)_0\)$"),
        pytest.param("stay_in_thread", "2", r"for 1 thread \((asyncio|uvloop)_0\)$", marks=pytest.mark.long),
        ("leave_process", "1", r"for 1 process \(sleeper\)$"),
    ],
)
def test_what_handlers_started_does_not_keep_the_process(
    lone: Bench, tmp_path: Path, kind: str, processes: str, named: str
) -> None:
    """Python would wait for it at exit, the worker's jobs given back or not."""
    begun = tmp_path / "begun"
    getattr(lone.app(), kind).enqueue(seconds=100, begun=str(begun))
    worker = lone.worker("--grace", "0.3", "--processes", processes)
    lone.until(begun.exists)
    worker.send_signal(signal.SIGTERM)
    output, errors = worker.communicate(timeout=PATIENCE)  # returns when nobody holds the pipes any more
    assert worker.returncode == 0, errors
    assert "not flushed" in output + errors
    (left,) = [line for line in events(errors) if line["event"] == "instance.left_behind"]
    assert re.search(named, left["message"])


def test_what_handlers_started_may_end_within_the_grace_time(lone: Bench) -> None:
    job = lone.app().leave_process.enqueue(seconds=2)
    worker = lone.worker("--grace", "50")
    lone.until(lambda: lone.store.jobs.get(job.id).state is State.COMPLETED)
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0 and "instance.left_behind" not in errors, errors


@pytest.mark.one_database
@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_a_signal_to_every_process_of_the_service_is_one_signal(
    bench: Bench, tmp_path: Path, processes: str
) -> None:
    """What systemd does by default. Each process hears it from the service manager and from its parent, and gives its jobs their time."""
    app = bench.app()
    marks = [tmp_path / str(n) for n in range(2 * int(processes))]  # as many as they run at once
    jobs = [app.wait.enqueue(seconds=2, begun=str(mark)) for mark in marks]
    worker = bench.worker("--processes", processes)
    bench.until(lambda: all(mark.exists() for mark in marks))
    for _ in range(2):
        for pid in (worker.pid, *children(worker.pid)):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.05)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, errors
    done = [bench.store.jobs.get(job.id) for job in jobs]
    assert {job.state for job in done} == {State.COMPLETED}
    assert "job.released" not in errors, "no running job was cut short"


def test_a_second_signal_to_the_parent_reaches_its_processes(bench: Bench) -> None:
    app = bench.app()
    worker = bench.worker("--processes", "2", "--grace", "50")
    bench.until(lambda: len(bench.store.instances.list()) == 2)
    jobs = [app.wait.enqueue(seconds=60) for _ in range(4)]  # as many as they run at once
    bench.until(lambda: all(bench.store.jobs.get(job.id).state is State.PROCESSING for job in jobs))
    worker.send_signal(signal.SIGTERM)
    heard(worker, "instance.stopping", times=2)
    time.sleep(ECHO + 0.2)  # sooner it would count as the same request, heard twice
    assert worker.poll() is None
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0 and time.monotonic() - began < 40
    assert all(bench.store.jobs.get(job.id).state is State.QUEUED for job in jobs)


@pytest.mark.parametrize(("dies", "result"), [("after", 1), ("before", -1)])
def test_a_killed_instances_job_is_run_again_only_if_its_probe_finds_no_output(
    bench: Bench, tmp_path: Path, dies: str, result: int
) -> None:
    """With a real SIGKILL after the effect and before its record, or before both."""
    app = bench.app()
    job = app.stamp.enqueue(path=str(tmp_path / "stamp"), dies=dies)
    killed = bench.worker(*QUICK)
    killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    worker = bench.worker("--drain", "--set", "recovery=0.3")  # it must not lose its own lease
    _, errors = worker.communicate(timeout=PATIENCE)
    done = bench.store.jobs.get(job.id)
    assert (done.state, done.result) == (State.COMPLETED, result), errors
    assert (tmp_path / "stamp").read_text() == "x", "once"


def test_only_some_phases_with_other_numbers(bench: Bench) -> None:
    app = bench.app()
    hello, waits = app.hello.enqueue(name="x"), [app.wait.enqueue(seconds=0.3) for _ in range(4)]
    worker = bench.worker("--drain", "--phase", "wai[t]=4")
    worker.communicate(timeout=PATIENCE)
    assert bench.store.jobs.get(hello.id).state is State.QUEUED
    spans = [bench.store.jobs.timeline(job.id)[0] for job in waits]
    assert {span.processor for span in spans} == {f"wait-processor-{n}" for n in (1, 2, 3, 4)}


def test_metrics_and_health_can_be_asked_for(bench: Bench) -> None:
    app = bench.app()
    app.hello.enqueue(name="x")
    worker = bench.worker("--metrics", "0")
    assert worker.stderr is not None
    address = ""
    while not address:
        line = worker.stderr.readline()
        assert line, "it ended"
        if json.loads(line)["event"] == "metrics.listening":  # every line is an object
            address = json.loads(line)["fields"]["url"]
    bench.until(lambda: bench.store.phases.counts()["hello"].completed == 1)

    def get(path: str) -> tuple[int, str]:
        with urllib.request.urlopen(f"{address}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()

    bench.until(
        lambda: 'windlass_jobs_ended_total{outcome="completed",phase="hello"} 1.0' in get("/metrics")[1]
    )
    assert get("/livez")[0] == 200 and get("/readyz")[0] == 200
    bench.store.phases.pause("hello", "stock-taking")
    told = bench.until(lambda: told if (told := json.loads(get("/healthz")[1]))["status"] == "ok" else None)
    assert told["paused"]["hello"]["reason"] == "stock-taking"
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE)
