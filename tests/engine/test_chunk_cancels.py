"""Chunked work that is cancelled stops between two chunks, and cleans up once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.engine.chunk_effects import effects, insert
from tests.engine.shop import Shop
from tests.waiting import PATIENCE, eventually
from windlass.handlers.context import Context
from windlass.model import State
from windlass.model.retry import fixed

pytestmark = pytest.mark.timing


def test_a_cancelled_job_stops_at_the_edge_and_cleans_up(records: Shop) -> None:
    second, cleaned = threading.Event(), []

    @records.app.job
    def long(ctx: Context) -> None:
        for chunk in ctx.chunks(total=100, size=1, cleanup=lambda: cleaned.append(ctx.job_id)):
            with chunk as tx:
                tx.connection.execute(insert(chunk))
            if chunk.number == 1:
                second.set()
                eventually(lambda: ctx.should_stop)

    job = long.enqueue()
    engine = records.serve(cancel_grace=PATIENCE)  # a slow machine may need long to clean up
    assert second.wait(PATIENCE)
    records.store.jobs.cancel(job.id)
    records.drained(engine)
    assert records.job(job).state is State.CANCELLED and cleaned == [job.id]
    assert len(effects(records)) == 2, "what was committed stays"


def test_a_job_cancelled_while_a_chunk_waits_for_its_next_try_cleans_up(records: Shop) -> None:
    tried, cleaned = threading.Event(), []

    @records.app.job(retry=fixed(1), chunk_retry=fixed(3, wait=600))
    def flaky(ctx: Context) -> None:
        for chunk in ctx.chunks(total=2, size=1, cleanup=lambda: cleaned.append(ctx.job_id)):
            with chunk:
                tried.set()
                raise ConnectionError("gone")

    job = flaky.enqueue()
    engine = records.serve(cancel_grace=PATIENCE)  # a slow machine may need long to clean up
    assert tried.wait(PATIENCE)
    records.store.jobs.cancel(job.id)
    records.drained(engine)
    assert records.job(job).state is State.CANCELLED and cleaned == [job.id]


@pytest.mark.parametrize("place", ["inside", "waiting"])
def test_a_coroutine_that_is_cancelled_in_its_loop_cleans_up_once(records: Shop, place: str) -> None:
    begun, cleaned = threading.Event(), []

    @records.app.job(retry=fixed(1), chunk_retry=fixed(3, wait=600))
    async def long(ctx: Context) -> None:
        async def clean() -> None:
            await asyncio.sleep(0)
            cleaned.append(ctx.job_id)

        async for chunk in ctx.chunks(total=2, size=1, cleanup=clean):
            async with chunk as tx:
                if place == "inside":
                    begun.set()
                    await asyncio.sleep(600)
                await tx.execute(insert(chunk))
                begun.set()
                raise ConnectionError("gone")

    job = long.enqueue()
    engine = records.serve(cancel_grace=PATIENCE)  # a slow machine may need long to clean up
    assert begun.wait(PATIENCE)
    records.store.jobs.cancel(job.id)
    records.drained(engine)
    assert records.job(job).state is State.CANCELLED and cleaned == [job.id] and effects(records) == []


def test_a_plain_loop_takes_no_coroutine_for_its_clean_up(records: Shop) -> None:
    async def clean() -> None: ...

    @records.app.job(retry=fixed(1))
    def job(ctx: Context) -> None:
        for chunk in ctx.chunks(total=1, cleanup=clean):
            with chunk:
                pass

    enqueued = job.enqueue()
    records.drained(records.serve())
    assert "plain function" in (records.job(enqueued).error or {})["message"]
