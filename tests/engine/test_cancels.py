"""Cancels: who hears of them, when, and what becomes of the job."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine import process_handlers as handlers
from tests.engine.process_bench import begun as process_begun
from tests.engine.process_bench import is_alive
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.features import open_store
from windlass.handlers.context import Context
from windlass.model import CancelResult, NewJob, State
from windlass.store.jobs.holder_results import CancelRequest

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


@pytest.mark.parametrize("colour", ["async", "plain"])
def test_a_running_job_that_is_cancelled_stops_and_cleans_up(shop: Shop, colour: str) -> None:
    begun, cleaned = threading.Event(), threading.Event()

    if colour == "async":

        @shop.app.job(name="long")
        async def long() -> None:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.set()

    else:

        @shop.app.job(name="long")
        def long(ctx: Context) -> None:
            begun.set()
            try:
                ctx.sleep(60)
            finally:
                cleaned.set()

    job = long.enqueue()
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    assert shop.store.jobs.cancel(job.id, "not needed") is CancelResult.REQUESTED
    shop.drained(engine)
    assert cleaned.is_set() and shop.job(job).state is State.CANCELLED
    assert (shop.job(job).error or {})["message"] == "not needed"


def test_a_cancel_from_elsewhere_is_heard_long_before_the_next_heartbeat(shop: Shop) -> None:
    """SQLite says that something was committed, and not what; it took until the next beat, 10 s."""
    begun = threading.Event()

    @shop.app.job
    def long(ctx: Context) -> None:
        begun.set()
        ctx.sleep(600)

    job = long.enqueue()
    engine = shop.serve(lease=600.0, heartbeat=300.0)
    assert begun.wait(PATIENCE)
    with open_store(shop.app.url) as elsewhere:
        elsewhere.jobs.cancel(job.id)
    shop.until(lambda: shop.job(job).state is State.CANCELLED)
    shop.drained(engine)


def test_a_cancel_that_is_heard_late_does_not_stop_the_next_run(shop: Shop) -> None:
    """It was asked of a hold that ended meanwhile; the job was retried by hand, and runs again."""
    begun = threading.Event()

    @shop.app.job
    def brief(ctx: Context) -> int:
        begun.set()
        ctx.sleep(0.3)
        return 1

    job = brief.enqueue()
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    engine._stopper.cancel(CancelRequest(job.id, 0))
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED


def test_an_idle_instance_does_not_ask_for_cancels(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    engine = shop.serve(lease=60.0, heartbeat=30.0, phases=("work",))
    asked: list[float] = []

    def cancels() -> list[CancelRequest]:
        asked.append(time.monotonic())
        return []

    holder: Any = engine.holder
    holder.cancels = cancels
    for _ in range(20):
        shop.store.enqueue([NewJob(kind="elsewhere")])
        time.sleep(0.05)
    assert asked == []


def test_a_claimed_job_that_only_waits_is_cancelled_without_running(shop: Shop) -> None:
    gate, ran = threading.Event(), []

    @shop.app.job(processors=1)
    def queue_up(n: int) -> None:
        ran.append(n)
        gate.wait(PATIENCE)

    for n in range(30):  # fast at first, so that some are claimed ahead
        queue_up.enqueue(n=-1 - n)
    gate.set()
    engine = shop.serve(prefetch=10.0)
    shop.drained(engine)
    gate.clear()
    jobs = [queue_up.enqueue(n=n) for n in range(3)]
    shop.until(lambda: engine.report().phases["queue_up"].waiting == 2)
    shop.store.jobs.cancel(jobs[2].id)
    shop.until(lambda: shop.job(jobs[2]).state is State.CANCELLED)
    gate.set()
    shop.drained(engine)
    assert 2 not in ran and 1 in ran


def test_a_process_that_does_not_stop_has_the_grace_time_of_the_settings(shop: Shop, tmp_path: Path) -> None:
    """The setting cancel_grace."""
    job = shop.app.job(executor="process")(handlers.sleep).enqueue(path=str(tmp_path / "begun"))
    engine = shop.serve(cancel_grace=0.2)
    pid = process_begun(tmp_path / "begun")
    asked = time.monotonic()
    shop.store.jobs.cancel(job.id)
    shop.until(lambda: shop.job(job).state is State.CANCELLED)
    assert time.monotonic() - asked >= 0.2 and not is_alive(pid)
    shop.drained(engine)
