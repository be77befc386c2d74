"""The lock of a process that the database has declared dead is taken over; that of a living process never is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.locks.killed_process import config
from tests.waiting import PATIENCE, eventually
from windlass import processes as process
from windlass.app.app import App
from windlass.engine.engine import Engine
from windlass.model import Job, State

pytestmark = [pytest.mark.timing, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SHORT, LONG = 10.0, 60.0
"""Leases: of a process that is killed, and of processes that must not lose theirs on a loaded machine."""
Program = subprocess.Popen[str]


@pytest.fixture
def app(store_url: str, valkey_url: str) -> Iterator[App]:
    with App(config=config(store_url, valkey_url, LONG)) as made:
        yield made


@pytest.fixture
def seen(valkey_url: str) -> Iterator[Any]:
    """A look from outside."""
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def run(store_url: str, valkey_url: str) -> Iterator[Callable[..., Program]]:
    """Starts a process of killed_process.py."""
    with ExitStack() as stack:

        def start(role: str, lease: float, *arguments: str) -> Program:
            given = [role, store_url, valkey_url, str(lease), *arguments]
            command = [sys.executable, "-m", "tests.locks.killed_process", *given]
            program = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                preexec_fn=process.die_with_parent,
            )  # fmt: skip
            stack.callback(program.communicate, timeout=PATIENCE)
            stack.callback(program.kill)
            return program

        yield start


@pytest.fixture
def serve(app: App) -> Iterator[Callable[[], Engine]]:
    with ExitStack() as stack:

        def start() -> Engine:
            engine = app.worker()
            engine.start()
            stack.callback(engine.stop, grace=0)
            return engine

        yield start


def told(program: Program, count: int) -> list[str]:
    """The next lines of a process."""
    assert program.stdout is not None
    return [program.stdout.readline().strip() for _ in range(count)]


def completed(app: App, job_id: str) -> bool:
    return app.store.jobs.get(job_id).state is State.COMPLETED


def put_off(app: App, job_id: str) -> Job | None:
    job = app.store.jobs.get(job_id)
    return job if job.state is State.SCHEDULED else None


def test_jobs_of_a_killed_worker_run_again_long_before_their_locks_end(
    app: App, run: Callable[..., Program], serve: Callable[[], Engine], seen: Any
) -> None:
    @app.job
    def work() -> None: ...

    jobs = [app.enqueue("work").id for _ in range(3)]
    killed = run("worker", SHORT)
    assert sorted(told(killed, 3)) == sorted(f"begun {job_id}" for job_id in jobs)
    killed.kill()
    killed.wait()
    left = {job_id: seen.get(f"bg:req:{job_id}") for job_id in jobs}
    assert all(left.values()) and min(seen.pttl(f"bg:req:{job_id}") for job_id in jobs) > 2 * PATIENCE * 1000
    fresh = app.enqueue("work").id
    serve()
    eventually(lambda: completed(app, fresh))
    eventually(lambda: all(completed(app, job_id) for job_id in jobs))
    for job_id in jobs:
        assert app.store.jobs.get(job_id).attempt == 1
        codes = [(span.error or {}).get("code") for span in app.store.jobs.timeline(job_id)]
        assert codes == ["instance_died", None], "its lock was not refused once"
    eventually(
        lambda: not [key for key in seen.keys("bg:req:*") if "instance:" not in key and "probe:" not in key]
    )


def test_the_job_of_a_killed_request_runs_long_before_its_lock_ends(
    app: App, run: Callable[..., Program], serve: Callable[[], Engine], seen: Any
) -> None:
    """Killed between two attempts: the job is not held, and a worker claims it before the death is known."""

    @app.job
    def work() -> None: ...

    job_id = app.enqueue("work").id
    killed = run("request", SHORT, job_id)
    assert told(killed, 2) == [f"begun {job_id}", "waits"]
    killed.kill()
    killed.wait()
    assert seen.pttl(f"bg:req:{job_id}") > 2 * PATIENCE * 1000
    serve()
    eventually(lambda: completed(app, job_id))
    assert app.store.jobs.get(job_id).attempt == 2


def test_the_lock_of_a_living_request_is_never_taken_over_and_other_jobs_run(
    app: App, run: Callable[..., Program], serve: Callable[[], Engine], seen: Any
) -> None:
    @app.job(processors=1)
    def work() -> None: ...

    job_id = app.enqueue("work").id
    request = run("request", LONG, job_id)
    assert told(request, 2) == [f"begun {job_id}", "waits"]
    held = seen.get(f"bg:req:{job_id}")
    engine = serve()
    eventually(lambda: engine.stats.report().count("lock_held") >= 1)
    others = [app.enqueue("work").id for _ in range(5)]
    eventually(lambda: all(completed(app, other) for other in others))
    eventually(lambda: engine.stats.report().count("lock_held") >= 4)
    assert seen.get(f"bg:req:{job_id}") == held
    job = eventually(lambda: put_off(app, job_id))  # in between, the worker has claimed it
    assert job.attempt == 1 and "its lock is held by" in job.error["message"]
    request.communicate("go on\n", timeout=PATIENCE)
    eventually(lambda: completed(app, job_id))
    assert app.store.jobs.get(job_id).attempt == 2
