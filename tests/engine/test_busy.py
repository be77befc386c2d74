"""SQLite's write lock in the hands of another process: what waits for it in vain does not spend an attempt."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.leases import lease
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.engine.attempt import AttemptRunner
from windlass.engine.running_attempt import Processor, RunningAttempt
from windlass.errors import StoreBusyError
from windlass.handlers.context import Context
from windlass.handlers.registry import Phase, Registry
from windlass.model import Lease, Retried, State
from windlass.model.retry import fixed

pytestmark = pytest.mark.timing

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
connection.close()
"""


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Another process has the file's write lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.stdin.close()
            assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("colour", ["async", "plain", "chunks"])
def test_a_transaction_that_cannot_begin_does_not_spend_the_attempt(
    fresh_sqlite: Callable[[], str], colour: str
) -> None:
    shop = Shop(fresh_sqlite())
    ready, may_begin, refused, attempts = threading.Event(), threading.Event(), threading.Event(), []

    def enter(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        ready.set()
        assert may_begin.wait(PATIENCE)

    def write(ctx: Context) -> None:
        try:
            with ctx.transaction() as tx:
                tx.complete("written")
        except StoreBusyError:
            refused.set()
            raise

    @shop.app.job(name="plain", retry=fixed(2))
    def plain(ctx: Context) -> str:
        enter(ctx)
        write(ctx)
        return "written"

    @shop.app.job(name="async", retry=fixed(2))
    async def coroutine(ctx: Context) -> str:
        await asyncio.to_thread(enter, ctx)
        try:
            async with ctx.transaction() as tx:
                tx.complete("written")
        except StoreBusyError:
            refused.set()
            raise
        return "written"

    @shop.app.job(name="chunks", retry=fixed(2))
    def chunks(ctx: Context) -> str:
        enter(ctx)
        try:
            for chunk in ctx.chunks(total=1):
                with chunk as tx:
                    tx.connection.execute("CREATE TABLE t (n)")
        except StoreBusyError:
            refused.set()
            raise
        return "written"

    try:
        kinds: dict[str, Any] = {"plain": plain, "async": coroutine, "chunks": chunks}
        job = kinds[colour].enqueue()
        engine = shop.serve(lease=60.0, heartbeat=1.0)
        holder: Any = engine.holder
        real = holder._bound
        # So long an effect waits while the other process has the lock; the lease has time to spare.
        holder._bound = lambda margin: real(margin) if refused.is_set() else 0.5
        assert ready.wait(PATIENCE)
        with locked(shop.app.url.removeprefix("sqlite:///")):
            may_begin.set()
            assert refused.wait(PATIENCE)
        shop.drained(engine)
        ended = shop.job(job)
        assert (ended.state, ended.result, attempts) == (State.COMPLETED, "written", [1, 1])
        (first,) = shop.store.jobs.attempts(job.id)
        assert first.error is not None and first.error["code"] == "store_busy"
    finally:
        shop.close()


def raised(runner: AttemptRunner, lease: Lease, phase: Phase) -> Retried:
    """What comes of an attempt that met a locked database."""
    running = RunningAttempt(lease, phase, Processor(phase.name, 1), 0.0, 0.0, False)
    outcome = runner.raised(running, StoreBusyError("locked"))
    assert isinstance(outcome, Retried)
    return outcome


def test_a_job_that_locks_the_database_itself_does_not_come_back_for_ever(runner: AttemptRunner) -> None:
    phase = Registry().define("work", lambda: None, injected=lambda annotation: False, retry=fixed(2))
    held = lease("work")
    counted = [raised(runner, held, phase).counted for _ in range(12)]
    assert counted == [False] * 10 + [True, False], "and the next attempt begins anew"


def test_a_job_of_one_attempt_that_met_a_locked_database_is_not_run_twice(runner: AttemptRunner) -> None:
    """I-14: nobody knows what it did before."""
    phase = Registry().define("work", lambda: None, injected=lambda annotation: False, retry=fixed(1))
    outcome = raised(runner, replace(lease("work"), max_attempts=1), phase)
    assert outcome.counted, "which is a failure"


@pytest.fixture
def runner() -> AttemptRunner:
    no_store: Any = None
    return AttemptRunner(lambda running: no_store)
