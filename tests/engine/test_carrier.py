"""Coroutines share a task while none of them waits, and must not notice."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass.engine.carrier import AT_A_TIME
from windlass.model import State
from windlass.retry import fixed
from windlass.work.context import Context

mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


def test_what_one_job_sets_no_other_sees_before_and_after_it_waited(shop: Shop) -> None:
    seen: list[tuple[str, str]] = []

    @shop.app.job(processors=20)
    async def work(n: int) -> None:
        before = mark.get()
        mark.set(f"job {n}")
        if n % 3 == 0:
            await asyncio.sleep(0.01)
        if n % 4 == 0:
            await asyncio.sleep(0)
        seen.append((before, mark.get().removesuffix(str(n))))

    work.enqueue_many({"n": n} for n in range(20))
    shop.drained(shop.serve())
    assert seen == [("none", "job ")] * 20


def test_jobs_that_wait_do_it_at_the_same_time_whatever_runs_between_them(shop: Shop) -> None:
    meeting = 0
    met = asyncio.Event()

    @shop.app.job(processors=30)
    async def work(n: int) -> bool:
        nonlocal meeting
        if n % 2:
            return True
        meeting += 1
        if meeting == 10:
            met.set()
        await asyncio.wait_for(met.wait(), 10)
        return True

    jobs = work.enqueue_many({"n": n} for n in range(20))
    shop.drained(shop.serve())
    assert all(shop.job(job).result is True for job in jobs)


def test_timeouts_groups_and_the_current_task_work_from_the_first_line_on(shop: Shop) -> None:
    @shop.app.job(processors=10, retry=fixed(1))
    async def grouped() -> int:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0.001, n)) for n in range(3)]
        return sum(task.result() for task in tasks)

    @shop.app.job(processors=10, retry=fixed(1))
    async def late() -> str:
        assert asyncio.current_task() is not None
        try:
            async with asyncio.timeout(0.02):
                await asyncio.sleep(10)
        except TimeoutError:
            return "in time"
        return "late"

    sums, times = grouped.enqueue_many([{}] * 5), late.enqueue_many([{}] * 5)
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in (*sums, *times)] == [3] * 5 + ["in time"] * 5


def test_a_job_that_cancels_its_own_task_and_is_done_harms_no_other(shop: Shop) -> None:
    @shop.app.job(processors=30, retry=fixed(1))
    async def work(n: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        if n % 3 == 0:
            task.cancel()
            return n
        if n % 3 == 1:
            await asyncio.sleep(0.001)
        return n

    jobs = work.enqueue_many({"n": n} for n in range(30))
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == list(range(30))


def test_a_job_that_takes_back_its_own_cancel_does_not_hold_up_the_line(shop: Shop) -> None:
    @shop.app.job(processors=200, retry=fixed(3))
    async def work(n: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        if n == 0:
            task.cancel()
            task.uncancel()
        return n

    jobs = work.enqueue_many({"n": n} for n in range(150))
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == list(range(150))


def test_only_the_job_that_is_cancelled_stops(shop: Shop) -> None:
    begun = threading.Semaphore(0)
    caught: list[int] = []

    @shop.app.job(processors=10)
    async def work(n: int) -> int:
        begun.release()
        try:
            await asyncio.sleep(0.4 if n else 30)
        except asyncio.CancelledError:
            caught.append(n)
            raise
        return n

    jobs = work.enqueue_many({"n": n} for n in range(6))
    engine = shop.serve()
    for _ in jobs:
        assert begun.acquire(timeout=10)
    shop.store.jobs.cancel(jobs[0].id)
    shop.drained(engine)
    assert caught == [0]
    states = [shop.job(job).state for job in jobs]
    assert states == [State.CANCELLED] + [State.COMPLETED] * 5


@pytest.mark.parametrize("waits_first", [False, True])
def test_the_job_whose_code_blocks_the_loop_is_named(
    shop: Shop, waits_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.job(processors=5)
    async def quick() -> None: ...

    @shop.app.job(processors=5)
    async def blocks() -> None:
        if waits_first:
            await asyncio.sleep(0.01)
        time.sleep(0.6)  # noqa: ASYNC251  what it must not do

    engine = shop.serve(blocked_after=0.1)
    quick.enqueue_many([{}] * 5)
    job = blocks.enqueue()
    shop.drained(engine)
    told = [record for record in caplog.records if "block" in record.getMessage()]
    assert any(job.id in record.getMessage() or getattr(record, "job_id", "") == job.id for record in told), [
        record.getMessage() for record in told
    ]


def test_a_long_line_of_quick_jobs_lets_the_loop_do_other_things(shop: Shop) -> None:
    order: list[Any] = []

    @shop.app.job(processors=500)
    async def work(n: int) -> None:
        if n == 0:
            asyncio.get_running_loop().call_soon(order.append, "other")
        order.append(n)

    work.enqueue_many({"n": n} for n in range(2 * AT_A_TIME))
    shop.drained(shop.serve())
    assert order.index("other") <= AT_A_TIME


def test_each_job_knows_its_own_context_object_across_waits(shop: Shop) -> None:
    @shop.app.job(processors=20)
    async def work(ctx: Context, n: int) -> str:
        first = ctx.job_id
        await asyncio.sleep(0.001 * (n % 3))
        assert ctx.job_id == first
        return first

    jobs = work.enqueue_many({"n": n} for n in range(20))
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == [job.id for job in jobs]
