"""What ``enqueue`` returns: a handle with the state, the progress and the result of its job, and ways to stop or repeat it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from pydantic import BaseModel

from tests.engine.shop import Shop
from windlass import Context, JobCancelled, JobFailed, JobHandle, ResultTimeout
from windlass.errors import ConfigError, JobNotFoundError, PayloadError
from windlass.model import CancelResult, State
from windlass.retry import fixed
from windlass.testing import Sandbox
from windlass.urls import shown_url


class Receipt(BaseModel):
    total: float


def test_a_result_comes_back_as_the_type_that_the_handler_returns(shop: Shop) -> None:
    @shop.app.job
    async def bill(order: int) -> Receipt:
        return Receipt(total=order / 2)

    @shop.app.job
    def nothing() -> None: ...

    job, quiet = bill.enqueue(order=7), nothing.enqueue()
    assert (job.created, job.state(), job.progress()) == (True, State.QUEUED, None)
    shop.serve()
    assert job.result(timeout=60) == Receipt(total=3.5)
    assert quiet.result(timeout=60) is None and quiet.wait() is State.COMPLETED
    assert job.state() is State.COMPLETED and job.job().args == {"order": 7}
    assert bill.handle(job.id).result() == shop.app.handle(job.id).result() == Receipt(total=3.5)
    assert job == bill.handle(job.id) and len({job, bill.handle(job.id)}) == 1


def test_the_result_of_a_pipeline_is_that_of_its_last_phase(shop: Shop) -> None:
    pipe = shop.app.pipeline("pipe")

    @pipe.phase("first")
    def first(n: int) -> int:
        return n + 1

    @pipe.phase("last")
    def last(ctx: Context, n: int) -> Receipt:
        return Receipt(total=ctx.output("first", int))

    shop.serve()
    assert first.enqueue(n=1).result(60) == Receipt(total=2)
    assert pipe.enqueue(n=2).result(60) == Receipt(total=3)
    with pytest.raises(ConfigError, match="begins in its first phase"):
        last.enqueue(n=1)


def test_a_job_that_failed_raises_its_structured_error(shop: Shop) -> None:
    @shop.app.job(retry=fixed(1))
    def bad() -> None:
        raise ValueError("no such county")

    job = bad.options(correlation_id="req-7").enqueue()
    shop.serve()
    with pytest.raises(JobFailed, match=f"job {job.id} of kind bad failed: .*no such county") as caught:
        job.result(60)
    error = caught.value.error
    assert (error["type"], error["phase"], error["attempt"]) == ("ValueError", "bad", 1)
    assert error["correlation_id"] == "req-7" and job.wait() is State.FAILED


def test_a_cancelled_job_raises_the_reason_and_can_be_retried(shop: Shop) -> None:
    @shop.app.job
    def work() -> str:
        return "done"

    job = work.enqueue()
    assert job.cancel("no need") is CancelResult.CANCELLED
    with pytest.raises(JobCancelled, match="was cancelled: no need"):
        job.result(60)
    assert job.retry().state is State.QUEUED
    shop.serve()
    assert job.result(60) == "done"


def test_a_time_out_says_what_state_the_job_is_in(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    job = work.options(delay=3600).enqueue()
    with pytest.raises(
        ResultTimeout, match=f"job {job.id} had not ended after 0.01 s: it is scheduled"
    ) as caught:
        job.result(timeout=0.01)
    assert caught.value.state == State.SCHEDULED and isinstance(caught.value, TimeoutError)
    assert f"`windlass jobs why {job.id}`" in str(caught.value)
    assert f"no worker serves it in {shown_url(str(shop.store.options['url']))}" in str(caught.value)
    with pytest.raises(ResultTimeout):
        job.wait(timeout=0)


def test_a_job_that_is_not_there_is_named_at_once(shop: Shop) -> None:
    missing = "01900000-0000-7000-8000-000000000000"
    for job_id in (missing, "not an id"):
        with pytest.raises(JobNotFoundError, match=job_id):
            shop.app.handle(job_id).result()


def test_every_form_has_one_for_coroutines(shop: Shop) -> None:
    @shop.app.job
    async def double(n: int) -> int:
        return 2 * n

    async def main() -> None:
        jobs = [await double.enqueue_async(n=n) for n in range(20)]
        waiting = [asyncio.create_task(job.result_async(60)) for job in jobs]
        many = await double.enqueue_many_async([double.request(n) for n in range(3)])
        later = await double.options(delay=3600).enqueue_async(n=1)
        assert await later.state_async() is State.SCHEDULED and await later.progress_async() is None
        with pytest.raises(ResultTimeout):
            await later.result_async(timeout=0.01)
        shop.serve()
        assert await asyncio.gather(*waiting) == [2 * n for n in range(20)]
        assert [await job.result_async(60) for job in many] == [0, 2, 4]
        assert await later.cancel_async("no need") is CancelResult.CANCELLED
        assert await later.wait_async() is State.CANCELLED
        assert (await later.retry_async()).id == (await later.job_async()).id

    asyncio.run(main())


def test_a_coroutine_that_gives_up_waiting_leaves_nothing_behind(shop: Shop) -> None:
    @shop.app.job
    async def never() -> None: ...

    async def main() -> None:
        job = await never.options(delay=3600).enqueue_async()
        task = asyncio.create_task(job.result_async())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert shop.app.parts.waiter.waited_for() == 0


def test_the_handles_of_many_jobs_are_a_sequence(shop: Shop) -> None:
    @shop.app.job
    def work(n: int) -> int:
        return n

    made = work.enqueue_many([{"n": n} for n in range(5)])
    assert len(made) == 5 and made.ids == [job.id for job in made]
    assert [job.job().args["n"] for job in made[1:3]] == [1, 2]
    assert work.enqueue_many([]).ids == []
    with pytest.raises(PayloadError, match=r"calls\[0\] is a request of other"):
        shop.app.job(name="other")(lambda: None).request()
        work.enqueue_many([shop.app.kind("other").request()])


def test_requests_carry_their_options(shop: Shop) -> None:
    @shop.app.job
    def work(n: int) -> None: ...

    made = work.options(priority=3).enqueue_many(
        [work.request(1), work.options(key="two").request(n=2), work.options(priority=7).request(n=3)]
    )
    assert [job.job().priority for job in made] == [3, 3, 7]
    assert work.options(key="two").enqueue(n=2).id == made[1].id


def test_a_job_of_the_callers_transaction_has_a_handle_that_works_after_the_commit(shop: Shop) -> None:
    @shop.app.job
    def work() -> str:
        return "done"

    @shop.app.job
    def parent(ctx: Context) -> str:
        with ctx.transaction(ends=False) as tx:
            child: JobHandle[str] = work.enqueue_in(tx)
        return child.id

    job = parent.enqueue()
    shop.serve()
    assert work.handle(job.result(60)).result(60) == "done"


def test_one_job_may_have_many_waiters(shop: Shop) -> None:
    @shop.app.job
    def work() -> int:
        return 7

    job = work.enqueue()
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(job.result(60))) for _ in range(20)]
    for thread in threads:
        thread.start()
    shop.serve()
    for thread in threads:
        thread.join()
    assert results == [7] * 20


def test_a_result_that_no_longer_fits_is_named(shop: Shop) -> None:
    @shop.app.job(name="work")
    def work() -> dict[str, int]:
        return {"sum": 1}

    job = work.enqueue()
    shop.serve()
    assert job.result(60) == {"sum": 1}
    other = type(shop.app)(store=shop.store)

    @other.job(name="work")
    def changed() -> Receipt: ...  # type: ignore[empty-body]

    with pytest.raises(PayloadError, match="total is missing; deploy a handler whose return type fits"):
        changed.handle(job.id).result()


def test_inline_jobs_have_results(box: Sandbox) -> None:
    original = box._original

    @original.job
    def double(n: int) -> int:
        return 2 * n

    with box.inline():
        job = double.enqueue(n=4)
        assert double.handle(job.id).state() is original.handle(job.id).wait() is State.COMPLETED
    assert job.result(timeout=60) == 8 and job.state() is State.COMPLETED


def test_a_wait_in_an_open_transaction_is_refused_on_sqlite(fresh_sqlite: Callable[[], str]) -> None:
    """The transaction holds the file's one write lock: the job could never end."""
    shop = Shop(fresh_sqlite())

    @shop.app.job
    def other() -> int:
        return 1

    @shop.app.job(retry=fixed(1))
    def waits(ctx: Context) -> None:
        job = other.enqueue()
        with ctx.transaction() as tx:
            tx.complete(job.result())

    @shop.app.job(retry=fixed(1))
    async def awaits(ctx: Context) -> None:
        job = await other.enqueue_async()
        async with ctx.transaction():
            await job.result_async()

    jobs = [waits.enqueue(), awaits.enqueue()]
    shop.serve()
    try:
        for job in jobs:
            with pytest.raises(JobFailed, match="has a transaction open here"):
                job.result(60)
    finally:
        shop.close()


def test_time_outs_may_be_durations(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    job = work.options(delay=3600).enqueue()
    with pytest.raises(ResultTimeout, match=r"after 0\.01 s"):
        job.result(timedelta(milliseconds=10))
    with pytest.raises(ConfigError, match="timeout = 'soon'"):
        job.result("soon")  # type: ignore[arg-type]


def test_options_may_be_used_for_many_jobs(shop: Shop) -> None:
    """Also those that were given as a generator."""

    @shop.app.job
    def work() -> None: ...

    parent = work.enqueue()
    child = work.options(after=(job for job in [parent]))
    assert [child.enqueue().state(), child.enqueue().state()] == [State.WAITING, State.WAITING]


def test_an_id_of_the_future_is_found(shop: Shop) -> None:
    @shop.app.job
    def work() -> str:
        return "done"

    job = work.options(id="03bb2cc3-d800-7000-8000-000000000001").enqueue()
    shop.serve()
    assert job.result(60) == "done" and job.result(0) == "done"
