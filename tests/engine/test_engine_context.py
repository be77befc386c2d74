"""What a handler does through its context: effects, results, checkpoints and outputs, in threads and in coroutines."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.handlers.context import Context
from windlass.model import JobFilter, NewJob, State
from windlass.model.retry import fixed

pytestmark = pytest.mark.timing


def test_effects_and_the_end_of_the_job_are_one_commit(shop: Shop) -> None:
    """Both colours."""
    shop.run("CREATE TABLE effect (job text, colour text)")

    @shop.app.job
    def plain(ctx: Context) -> Any:
        with ctx.transaction() as tx:
            tx.connection.execute(f"INSERT INTO effect VALUES ('{ctx.job_id}', 'plain')")
            tx.complete({"sum": 1})

    @shop.app.job
    async def coloured(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.execute(f"INSERT INTO effect VALUES ('{ctx.job_id}', 'async')")

    @shop.app.job(retry=fixed(2, wait=0.02))
    def torn(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(f"INSERT INTO effect VALUES ('{ctx.job_id}', 'torn')")
            if ctx.attempt == 1:
                raise RuntimeError("in the middle")

    jobs = [plain.enqueue(), coloured.enqueue(), torn.enqueue()]
    engine = shop.serve()
    shop.drained(engine)
    rows = shop.run("SELECT job, colour FROM effect ORDER BY colour")
    assert [row[1] for row in rows] == ["async", "plain", "torn"]
    assert {row[0] for row in rows} == {job.id for job in jobs}
    assert [shop.job(job).state for job in jobs] == [State.COMPLETED] * 3
    assert shop.job(jobs[0]).result == {"sum": 1}


@pytest.mark.parametrize("colour", ["plain", "async", "phase"])
def test_a_result_that_a_transaction_cannot_store_fails_the_job_at_once(shop: Shop, colour: str) -> None:
    """I-17, as with a bad return value: tried again, it would be as bad."""
    shop.run("CREATE TABLE effect (job text)")
    bad: Any = {"colour": object()}
    pipe = shop.app.pipeline("pipe")

    @shop.app.job(name="plain", retry=fixed(3, wait=0.02))
    def plain(ctx: Context) -> dict[str, str]:
        with ctx.transaction() as tx:
            tx.connection.execute(f"INSERT INTO effect VALUES ('{ctx.job_id}')")
            tx.complete(bad)
        return {}

    @shop.app.job(name="async", retry=fixed(3, wait=0.02))
    async def coloured(ctx: Context) -> Any:
        async with ctx.transaction() as tx:
            await tx.execute(f"INSERT INTO effect VALUES ('{ctx.job_id}')")
            tx.complete(bad)

    @pipe.phase("one", retry=fixed(3, wait=0.02))
    def one(ctx: Context) -> int:
        with ctx.transaction() as tx:
            tx.connection.execute(f"INSERT INTO effect VALUES ('{ctx.job_id}')")
            tx.complete("many")
        return 1

    @pipe.phase("two")
    def two() -> None: ...

    job = {"plain": plain, "async": coloured, "phase": pipe}[colour].enqueue()
    shop.drained(shop.serve())
    done = shop.job(job)
    assert done.state is State.FAILED and done.attempt == 1 and done.error is not None
    assert (done.error["type"], done.error["code"]) == ("PayloadError", "bad_result")
    assert shop.run("SELECT job FROM effect") == [], "its writes are taken back"


def test_in_a_coroutine_the_context_does_not_block_the_event_loop(shop: Shop) -> None:
    """Each call takes as long as the database does; a neighbour on the same loop goes on meanwhile."""
    pipe = shop.app.pipeline("pipe")
    gate, ticks, blocked = threading.Event(), [0], []

    @pipe.phase("one")
    async def one() -> int:
        return 7

    @pipe.phase("two")
    async def two(ctx: Context) -> dict[str, Any]:
        hold: Any = ctx._store

        class Slow:
            """Answers when the neighbour has had its turn."""

            def __getattr__(self, name: str) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    seen = ticks[0]
                    deadline = time.monotonic() + PATIENCE
                    while ticks[0] == seen and time.monotonic() < deadline:
                        time.sleep(0.001)
                    if ticks[0] == seen:
                        blocked.append(name)
                    return getattr(hold, name)(*args, **kwargs)

                return call

        slow: Any = Slow()
        ctx._store = slow
        before = await ctx.resume_async()
        await ctx.checkpoint_async({"page": 1}, done=1, total=2)
        after = await ctx.resume_async()
        put = await ctx.put_output_async("note", "first")
        made = await ctx.enqueue_async(NewJob(kind="other"))
        number: int = await ctx.output_async("one", int)
        gate.set()
        return {
            "resumed": [before, after and after.position],
            "put": put.created,
            "made": made.created,
            "outputs": [number, await ctx.output_async("one")],
        }

    @shop.app.job
    async def neighbour() -> None:
        while not gate.is_set():
            ticks[0] += 1
            await asyncio.sleep(0)

    @shop.app.job
    async def other() -> None: ...

    neighbour.enqueue()
    job = pipe.options(correlation_id="c-1").enqueue()
    shop.drained(shop.serve())
    assert blocked == [] and shop.job(job).result == {
        "resumed": [None, {"page": 1}],
        "put": True,
        "made": True,
        "outputs": [7, 7],
    }
    (child,) = shop.store.jobs.list(JobFilter(kind="other")).jobs
    assert child.correlation_id == "c-1"


def test_a_checkpoint_in_a_coroutine_stops_a_cancelled_job(shop: Shop) -> None:
    begun, asked = threading.Event(), threading.Event()

    @shop.app.job
    async def long(ctx: Context) -> None:
        begun.set()
        await asyncio.to_thread(asked.wait, PATIENCE)
        for page in range(1, 1000):
            await ctx.checkpoint_async(page, done=page)
            await asyncio.sleep(0.01)

    job = long.enqueue()
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    shop.store.jobs.cancel(job.id)
    asked.set()
    shop.drained(engine)
    assert shop.job(job).state is State.CANCELLED


def test_contextvars_of_one_job_are_not_seen_by_the_next(shop: Shop) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
    seen: list[str] = []

    @shop.app.job(processors=1)
    async def who(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)

    @shop.app.job(processors=1)
    def whose(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)

    for n in range(5):
        who.enqueue(name=f"a{n}")
        whose.enqueue(name=f"b{n}")
    shop.drained(shop.serve())
    assert seen == ["nobody"] * 10
