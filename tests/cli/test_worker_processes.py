"""``windlass worker --processes``: what the parent makes of the ends of its processes, and of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.bench import QUICK, ROOT, TARGET, Bench, children
from tests.waiting import PATIENCE
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import open_store
from windlass.model import State
from windlass.store.migrate import migrate

pytestmark = pytest.mark.timing


def test_processes_share_the_work_and_a_dead_one_is_replaced(lone: Bench, tmp_path: Path) -> None:
    app, together = lone.app(), tmp_path / "together"
    together.mkdir()
    deadly = app.die.enqueue()
    jobs = [app.wait.enqueue(seconds=0.05) for _ in range(20)]
    jobs += [app.meet.enqueue(folder=str(together)) for _ in range(2)]
    worker = lone.worker("--processes", "2", "--drain", *QUICK)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, errors
    assert all(lone.store.jobs.get(job.id).state is State.COMPLETED for job in jobs)
    died = lone.store.jobs.get(deadly.id)
    assert died.state is State.FAILED and died.error is not None
    assert "ended with exit code 9" in errors and "starting another" in errors
    instances = {span.instance for job in jobs for span in lone.store.jobs.timeline(job.id)}
    assert len(instances) >= 2, "more than one process did the work"


def test_jobs_that_end_every_process_as_if_all_went_well_do_not_end_a_drain(lone: Bench) -> None:
    app = lone.app()
    deadly = [app.die.enqueue(code=0) for _ in range(2)]
    others = [app.wait.enqueue(seconds=0.05) for _ in range(100)]
    worker = lone.worker("--processes", "2", "--drain", *QUICK)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0 and "ended with exit code 0 after" in errors, errors
    assert all(lone.store.jobs.get(job.id).state is State.COMPLETED for job in others), errors
    assert all(lone.store.jobs.get(job.id).state is State.FAILED for job in deadly), errors


def test_a_process_that_dies_of_a_signal_without_a_name_is_replaced(lone: Bench) -> None:
    """Python knows names for two of the real-time signals only, and the parent died of the others."""
    worker = lone.worker("--processes", "2")
    lone.until(lambda: len(lone.store.instances.list()) == 2)
    os.kill(children(worker.pid)[0], 40)
    lone.until(lambda: worker.poll() is not None or len(lone.store.instances.list()) == 3)
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0 and "was killed by signal 40 after" in errors, errors


def test_a_job_that_ends_its_process_with_the_code_for_usage_stops_nobody_else(lone: Bench) -> None:
    app = lone.app()
    deadly = app.die.enqueue(code=2)
    others = [app.wait.enqueue(seconds=0.3) for _ in range(10)]
    worker = lone.worker("--processes", "2", "--drain", *QUICK)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0 and "ended with exit code 2" in errors, errors
    assert all(lone.store.jobs.get(job.id).state is State.COMPLETED for job in others)
    assert lone.store.jobs.get(deadly.id).state is State.FAILED


def test_what_only_the_processes_find_out_ends_all_of_them(bench: Bench) -> None:
    """Exit code 2, not 0; what they are told is their own, so each says it once."""
    worker = bench.worker("--processes", "2", target="tests.cli.parents_app:app")
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 2 and 1 <= errors.count("not in a child") <= 2, errors
    assert "starting another" not in errors


def test_a_port_that_is_taken_is_named_once_before_any_process_is_started(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = bench.worker("--processes", "2", "--metrics", str(port - 1))
        _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 2 and errors.count("error:") == 1, errors
    named = [one for one in (port - 1, port) if f"127.0.0.1:{one}'" in errors]
    assert named and "instance.started" not in errors, (
        errors
    )  # the lower one, where another test took it just now


@pytest.mark.parametrize("code", [2, *(pytest.param(code, marks=pytest.mark.long) for code in (0, 69, 78))])
def test_jobs_that_end_every_process_end_nobody_else_whatever_the_code(lone: Bench, code: int) -> None:
    """One after the other, so that each process has its death as its first end."""
    app = lone.app()
    worker = lone.worker("--processes", "2", *QUICK)
    lone.until(lambda: len(lone.store.instances.list()) == 2)
    first = set(children(worker.pid))

    def died() -> int:
        return len(first - set(children(worker.pid)))

    app.die.enqueue(code=code)
    lone.until(lambda: died() >= 1)
    deadly = [app.die.enqueue(code=code)]

    def both_died() -> bool:
        if died() < 2 and lone.store.jobs.get(deadly[-1].id).state.is_final:
            # The job before ended the process that had replaced the first one.
            deadly.append(app.die.enqueue(code=code))
        return died() == 2 or worker.poll() is not None

    lone.until(both_died)
    others = [app.wait.enqueue(seconds=0.05) for _ in range(10)]
    lone.until(lambda: all(lone.store.jobs.get(job.id).state is State.COMPLETED for job in others))
    lone.until(lambda: len(children(worker.pid)) == 2)
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0 and errors.count(f"ended with exit code {code} after") >= 2, errors


def test_a_process_that_does_not_end_is_killed_after_the_grace_time(lone: Bench) -> None:
    """Frozen, or a job holds its interpreter: the parent waited for ever, a second signal made no difference."""
    worker = lone.worker("--processes", "2", "--grace", "0.5")
    lone.until(lambda: len(lone.store.instances.list()) == 2)
    os.kill(children(worker.pid)[0], signal.SIGSTOP)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_log_that_nobody_reads_does_not_keep_a_worker_that_is_told_to_stop(
    lone: Bench, processes: str
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        worker = lone.worker("--processes", processes, "--grace", "0.5", errors=writer)
        lone.until(lambda: len(lone.store.instances.list()) == int(processes))
        with pytest.raises(BlockingIOError):
            while True:
                os.write(writer, b"x" * 65536)
        os.set_blocking(writer, True)
        lone.app().fail.enqueue()  # whose line cannot be written
        time.sleep(0.5)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_a_log_that_went_away_ends_nobody(lone: Bench) -> None:
    """As of ``2>&1 | head``: the parent died of it, and killed its processes with their jobs."""
    app = lone.app()
    reader, writer = os.pipe()
    worker = lone.worker("--processes", "2", *QUICK, errors=writer)
    os.close(writer)
    lone.until(lambda: len(lone.store.instances.list()) == 2)
    os.close(reader)
    app.die.enqueue()
    jobs = [app.wait.enqueue(seconds=0.05) for _ in range(20)]
    lone.until(lambda: all(lone.store.jobs.get(job.id).state is State.COMPLETED for job in jobs))
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_without_a_standard_error_works(lone: Bench, processes: str) -> None:
    job = lone.app().hello.enqueue(name="x")
    command = f"exec {sys.executable} -m windlass worker {TARGET} --drain --processes {processes} 2>&-"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env={**os.environ, "WINDLASS_DATABASE_URL": lone.url},
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0 and lone.store.jobs.get(job.id).state is State.COMPLETED


def test_a_drain_outlives_a_restart_of_the_database(own_postgres: Callable[..., PostgresServer]) -> None:
    """It ended with 69, and left the jobs it waited for."""
    server = own_postgres(durable=True)
    migrate(server.dsn())
    bench = Bench(server.dsn())
    try:
        app = bench.app()
        first, job = (
            app.hello.enqueue(name="x"),
            app.hello.options(delay=timedelta(seconds=5)).enqueue(name="x"),
        )
        worker = bench.worker("--drain")
        bench.until(lambda: bench.store.jobs.get(first.id).state is State.COMPLETED)
        server.crash()
        time.sleep(1)
        server.start()
        _, errors = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0, errors
        with open_store(server.dsn()) as store:  # our own connections died, too
            assert store.jobs.get(job.id).state is State.COMPLETED, errors
    finally:
        bench.close()
