"""Coroutines share a task while none of them waits, and must not notice."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.arguments.test_asyncness import Later, giving
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.engine.executors.shared_task import AT_A_TIME
from windlass.handlers.context import Context
from windlass.model import State
from windlass.model.retry import fixed
from windlass.observe.current_job import current_job

pytestmark = [pytest.mark.one_database, pytest.mark.timing]

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
        await asyncio.wait_for(met.wait(), PATIENCE)
        return True

    jobs = work.enqueue_many({"n": n} for n in range(20))
    shop.drained(shop.serve())
    assert all(shop.job(job).result is True for job in jobs)


def test_timeouts_groups_and_the_current_task_work_from_the_first_line_on(shop: Shop) -> None:
    @shop.app.job(processors=10, retry=fixed(1))
    async def grouped() -> int:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0.001, n)) for n in range(3)]
        return sum(task.result() for task in tasks)

    @shop.app.job(processors=10, retry=fixed(1))
    async def late() -> str:
        assert asyncio.current_task() is not None
        try:
            async with asyncio.timeout(0.02):
                await asyncio.sleep(PATIENCE)
        except TimeoutError:
            return "in time"
        return "late"

    sums, times = grouped.enqueue_many([{}] * 5), late.enqueue_many([{}] * 5)
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in (*sums, *times)] == [3] * 5 + ["in time"] * 5


@pytest.mark.parametrize("waits", [False, True])
def test_a_job_runs_in_a_task_of_a_real_coroutine_as_later_versions_of_python_demand(
    shop: Shop, waits: bool
) -> None:
    """A task of a generator runs on Python 3.11 and is refused from 3.12 on: there no job would ever begin."""

    @shop.app.job(retry=fixed(1))
    async def work() -> bool:
        task = asyncio.current_task()
        assert task is not None
        if waits:
            await asyncio.sleep(0)
        return inspect.iscoroutine(task.get_coro())

    jobs = work.enqueue_many([{}] * 3)
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == [True] * 3


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
    @shop.app.job(processors=200, retry=fixed(1))
    async def work(n: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        if n == 0:
            task.cancel()
            task.uncancel()
        if n == 1:
            await asyncio.sleep(0.01)
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
            await asyncio.sleep(0.4 if n else PATIENCE)
        except asyncio.CancelledError:
            caught.append(n)
            raise
        return n

    jobs = work.enqueue_many({"n": n} for n in range(6))
    engine = shop.serve()
    for _ in jobs:
        assert begun.acquire(timeout=PATIENCE)
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
        is_told.wait(PATIENCE)  # what it must not do

    is_told = threading.Event()
    engine = shop.serve(blocked_after=0.1)
    quick.enqueue_many([{}] * 5)
    job = blocks.enqueue()
    shop.until(
        lambda: any(
            "block" in record.getMessage() and job.id in str(vars(record)) for record in caplog.records
        )
    )
    is_told.set()
    shop.drained(engine)


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


def test_a_task_that_is_cancelled_before_its_first_step_stops_nobody_else(shop: Shop) -> None:
    """`asyncio.all_tasks()` has the task that serves the line, too."""
    enough = threading.Event()

    @shop.app.job(processors=1)
    async def rampage() -> None:
        me = asyncio.current_task()
        while not enough.is_set():
            for task in asyncio.all_tasks():
                if task is not me:
                    task.cancel()
            await asyncio.sleep(0)

    @shop.app.job(processors=30, retry=fixed(5))
    async def work(n: int) -> int:
        return n

    engine = shop.serve()
    wild = rampage.enqueue()
    shop.until(lambda: shop.job(wild).state is State.PROCESSING)
    jobs = work.enqueue_many({"n": n} for n in range(25))
    time.sleep(0.3)
    enough.set()
    shop.drained(engine)
    more = work.enqueue_many({"n": n} for n in range(25))
    shop.drained(engine)
    assert [shop.job(job).result for job in (*jobs, *more)] == [*range(25), *range(25)]


def test_what_a_job_leaves_on_its_task_no_other_gets(shop: Shop) -> None:
    sessions: dict[Any, int] = {}
    ends: list[float] = []

    @shop.app.job(processors=1, retry=fixed(1))
    async def work(n: int) -> tuple[int, str]:
        task = asyncio.current_task()
        assert task is not None
        found, name = sessions.setdefault(task, n), task.get_name()
        if n == 1:
            asyncio.get_running_loop().call_later(0.05, task.cancel)
        if n == 2:
            task.add_done_callback(lambda _: ends.append(time.monotonic()))
        if n == 3:
            task.set_name("mine")
        if n == 5:
            await asyncio.sleep(0.2)
        return found, name

    jobs = work.enqueue_many({"n": n} for n in range(7))
    shop.drained(shop.serve())
    results = [shop.job(job).result for job in jobs]
    assert [found for found, _ in results] == list(range(7)) and len(ends) == 1
    assert "mine" not in [name for _, name in results]


def test_what_a_plain_decorator_sets_its_job_sees_and_no_other(shop: Shop) -> None:
    seen: list[tuple[str, str, str]] = []

    def marked(handler: Any) -> Any:
        @functools.wraps(handler)
        def call(*, n: int) -> Any:
            before = mark.get()
            mark.set(f"job {n}")
            job = current_job.get()
            return handler(n=n, before=before, logged=job.lease.id if job else "none")

        return call

    @shop.app.job(processors=20)
    @marked
    async def work(n: int, before: str = "", logged: str = "") -> None:
        if n % 3 == 0:
            await asyncio.sleep(0.01)
        seen.append((before, mark.get(), logged))

    jobs = work.enqueue_many({"n": n} for n in range(20))
    shop.drained(shop.serve())
    assert sorted(seen) == sorted(("none", f"job {n}", job.id) for n, job in enumerate(jobs))


def test_a_decorator_that_raises_what_means_the_end_of_a_coroutine_has_not_run_it(shop: Shop) -> None:
    nothing: list[int] = []

    def careless(handler: Any) -> Any:
        @functools.wraps(handler)
        def call(*args: Any, **kwargs: Any) -> Any:
            next(iter(nothing))
            return handler(*args, **kwargs)

        return call

    @shop.app.job(retry=fixed(1))
    @careless
    async def work() -> None: ...

    job = work.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).state is State.FAILED
    assert (shop.job(job).error or {})["type"] == "StopIteration"


@pytest.mark.parametrize("give", [asyncio.ensure_future, Later])
def test_a_cancel_reaches_what_a_decorator_gave(shop: Shop, give: Callable[[Any], Any]) -> None:
    begun, ended = threading.Event(), threading.Event()

    @shop.app.job(retry=fixed(1))
    @giving(give)
    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    job = work.enqueue()
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    shop.store.jobs.cancel(job.id)
    shop.drained(engine)
    assert ended.is_set() and shop.job(job).state is State.CANCELLED


def test_jobs_that_wait_all_begin_in_the_same_turn_of_a_busy_loop(shop: Shop) -> None:
    """One at a time they would each wait for all the others' steps."""
    turns, begun = 0, []

    @shop.app.job(processors=200)
    async def work(n: int) -> None:
        nonlocal turns
        begun.append(turns)
        if n == 0:
            loop = asyncio.get_running_loop()

            def turn() -> None:
                nonlocal turns
                turns += 1
                if turns < 1000:
                    loop.call_soon(turn)

            loop.call_soon(turn)
        await asyncio.sleep(0.05)

    work.enqueue_many({"n": n} for n in range(100))
    shop.drained(shop.serve(page=100))
    assert len(begun) == 100 and max(begun) <= 10
