"""The chunks of a coroutine share one thread for their transactions and checkpoints, which goes with the loop."""

from __future__ import annotations

import threading

import pytest

from tests.engine.chunk_effects import effects, insert
from tests.engine.shop import Shop
from windlass.handlers.context import Context
from windlass.model import State

pytestmark = pytest.mark.timing
NAME = "windlass-transaction"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(NAME)]


def test_all_chunks_of_a_coroutine_use_one_thread_and_let_it_go(records: Shop) -> None:
    """With a transaction in every second chunk; the others save their checkpoint only."""
    used: set[int] = set()

    @records.app.job
    async def long(ctx: Context) -> None:
        async for chunk in ctx.chunks(total=60, size=10):
            async with chunk as tx:
                if chunk.number % 2:
                    await tx.execute(insert(chunk))
                    used.add(await tx.run(lambda _: threading.get_ident()))

    job = long.enqueue()
    records.drained(records.serve())
    assert records.job(job).state is State.COMPLETED
    assert [first for _, first, _ in effects(records)] == [10, 30, 50]
    progress = records.job(job).progress
    assert len(used) == 1 and progress is not None and progress.done == 60
    records.until(lambda: not threads())


def test_a_loop_that_is_left_early_lets_its_thread_go(records: Shop) -> None:
    @records.app.job
    async def long(ctx: Context) -> None:
        async for chunk in ctx.chunks(total=60, size=10):
            async with chunk as tx:
                await tx.execute(insert(chunk))
            if chunk.number == 2:
                break

    job = long.enqueue()
    records.drained(records.serve())
    assert records.job(job).state is State.COMPLETED and len(effects(records)) == 3
    records.until(lambda: not threads())
