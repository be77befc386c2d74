"""Writes inside and beside an open transaction of a handler on SQLite, whose one write lock it holds: what could never end is refused at
once, in coroutines as in threads; what can wait waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.engine.line import break_beats, run_out
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.engine.attempt import SELF_STOPS_SPARED
from windlass.handlers.context import Context
from windlass.model import NewJob, State
from windlass.model.retry import fixed

pytestmark = pytest.mark.timing

OWN, LOOP = "this call would wait for it without end", "would block the loop"


@pytest.fixture
def lite(fresh_sqlite: Callable[[], str]) -> Iterator[Shop]:
    made = Shop(fresh_sqlite())
    yield made
    made.close()


def refused_with(shop: Shop, job: Any, text: str) -> None:
    """The job failed at its first attempt, for this reason, and its instance never lost its lease."""
    engine = shop.serve()
    shop.drained(engine)
    ended = shop.job(job)
    assert ended.state is State.FAILED and ended.attempt == 1, ended
    assert ended.error is not None and text in ended.error["message"], ended.error
    assert engine.stats.report().count("self_stops") == 0


def no_notes(shop: Shop) -> bool:
    return not any(job.kind == "note" for job in shop.store.jobs.list().jobs)


INSIDE: dict[str, Callable[[Any, Context], Awaitable[Any]]] = {
    "enqueue_async": lambda note, ctx: note.enqueue_async(),
    "enqueue_async with a key": lambda note, ctx: note.options(key="one").enqueue_async(),
    "enqueue_many_async": lambda note, ctx: note.enqueue_many_async([{}, {}]),
    "in a task": lambda note, ctx: asyncio.gather(note.enqueue_async()),
    "in a thread": lambda note, ctx: asyncio.to_thread(note.enqueue),
    "ctx.enqueue_async": lambda note, ctx: ctx.enqueue_async(NewJob(kind="note")),
    "ctx.checkpoint_async": lambda note, ctx: ctx.checkpoint_async(1, done=1),
    "ctx.put_output_async": lambda note, ctx: ctx.put_output_async("name", 1),
    "another transaction": lambda note, ctx: ctx.transaction(ends=False).__aenter__(),
}


@pytest.mark.parametrize("how", INSIDE)
def test_a_coroutine_may_not_write_past_its_own_transaction(lite: Shop, how: str) -> None:
    @lite.app.job(name="note")
    async def note() -> None: ...

    @lite.app.job(retry=fixed(1))
    async def holds(ctx: Context) -> None:
        async with ctx.transaction(ends=False) as tx:
            await tx.execute("CREATE TABLE IF NOT EXISTS t (n)")
            await INSIDE[how](note, ctx)

    refused_with(lite, holds.enqueue(), OWN)
    assert no_notes(lite)


@pytest.mark.parametrize("how", INSIDE)
def test_a_coroutine_may_not_write_past_the_transaction_of_its_chunk(lite: Shop, how: str) -> None:
    @lite.app.job(name="note")
    async def note() -> None: ...

    @lite.app.job(retry=fixed(1))
    async def holds(ctx: Context) -> None:
        async for chunk in ctx.chunks(total=1, size=1):
            async with chunk as tx:
                await tx.execute("CREATE TABLE IF NOT EXISTS t (n)")
                await INSIDE[how](note, ctx)

    refused_with(lite, holds.enqueue(), OWN)


FIRST: dict[str, Callable[[Any, Any], Any]] = {
    "tx.enqueue": lambda note, tx: tx.enqueue(NewJob(kind="note")),
    "enqueue_in": lambda note, tx: note.enqueue_in(tx),
    "tx.put_output": lambda note, tx: tx.put_output("name", 1),
    "in a thread": lambda note, tx: asyncio.to_thread(tx.enqueue, NewJob(kind="note")),
    "enqueue_in_async": lambda note, tx: note.enqueue_in_async(tx),
}


@pytest.mark.parametrize("how", FIRST)
@pytest.mark.parametrize("ends", ["commits", "rolled back"])
def test_whatever_a_coroutine_begins_the_transaction_of_its_chunk_with(
    shop: Shop, how: str, ends: str
) -> None:
    """The turn to write is taken and given back by one thread. Taken by the loop's it was never given back: nobody of the process wrote to
    the file again."""

    @shop.app.job(name="note")
    async def note() -> None: ...

    @shop.app.job(chunk_retry=fixed(2, wait=0.001))
    async def work(ctx: Context) -> None:
        async for chunk in ctx.chunks(total=2, size=1):
            async with chunk as tx:
                begun = FIRST[how](note, tx)
                if asyncio.iscoroutine(begun):
                    await begun
                await tx.execute("SELECT 1")
                if ends == "rolled back" and chunk.attempt == 1:
                    raise RuntimeError("once more")

    job = work.enqueue()
    engine = shop.serve()
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED, shop.job(job).error
    notes = [item for item in shop.store.jobs.list().jobs if item.kind == "note"]
    assert [item.state for item in notes] == ([] if "output" in how else [State.COMPLETED] * 2)


def test_a_plain_call_inside_a_transaction_on_the_loop_is_refused(lite: Shop) -> None:
    @lite.app.job(name="note")
    async def note() -> None: ...

    @lite.app.job(retry=fixed(1))
    async def holds(ctx: Context) -> None:
        async with ctx.transaction(ends=False):
            note.enqueue()

    refused_with(lite, holds.enqueue(), OWN)


def test_a_thread_whose_enqueue_others_write_is_refused_as_well(lite: Shop) -> None:
    """Single jobs of many callers are gathered, and one of the callers writes for all; the refusal may not depend on who that is."""
    waiting = threading.Event()

    @lite.app.job(name="note")
    def note() -> None: ...

    @lite.app.job(retry=fixed(1))
    def holds(ctx: Context) -> None:
        with ctx.transaction(ends=False):
            other = threading.Thread(target=note.enqueue)
            other.start()
            submitter = lite.app.parts.submitter
            lite.until(lambda: submitter._leader and not submitter._waiting)
            waiting.set()
            try:
                note.enqueue()
            finally:
                holds.thread = other  # type: ignore[attr-defined]

    refused_with(lite, holds.enqueue(), OWN)
    assert waiting.is_set()
    holds.thread.join(PATIENCE)  # type: ignore[attr-defined]
    assert len([job for job in lite.store.jobs.list().jobs if job.kind == "note"]) == 1


BESIDE: dict[str, Callable[[Any, Context], Any]] = {
    "enqueue": lambda note, ctx: note.enqueue(),
    "enqueue with a key": lambda note, ctx: note.options(key="one").enqueue(),
    "enqueue_many": lambda note, ctx: note.enqueue_many([{}, {}]),
    "ctx.checkpoint": lambda note, ctx: ctx.checkpoint(1, done=1),
    "ctx.put_output": lambda note, ctx: ctx.put_output("name", 1),
    "ctx.transaction": lambda note, ctx: ctx.transaction(ends=False).__enter__(),
}


@pytest.mark.parametrize("how", BESIDE)
def test_a_plain_call_beside_a_transaction_of_the_same_loop_is_refused(lite: Shop, how: str) -> None:
    """It would block the loop on which the transaction has to go on to its end."""
    begun, opened, refused = threading.Event(), threading.Event(), threading.Event()

    @lite.app.job(name="note")
    async def note() -> None: ...

    @lite.app.job(retry=fixed(1))
    async def holds(ctx: Context) -> None:
        await asyncio.to_thread(begun.wait, PATIENCE)  # nothing can be claimed while the transaction is open
        async with ctx.transaction() as tx:
            await tx.execute("CREATE TABLE t (n)")
            opened.set()
            await asyncio.to_thread(refused.wait, PATIENCE)

    @lite.app.job(retry=fixed(1))
    async def beside(ctx: Context) -> None:
        begun.set()
        await asyncio.to_thread(opened.wait, PATIENCE)
        try:
            BESIDE[how](note, ctx)
        finally:
            refused.set()

    held, job = holds.enqueue(), beside.enqueue()
    refused_with(lite, job, LOOP)
    assert lite.job(held).state is State.COMPLETED


def test_async_calls_beside_a_transaction_wait_for_it(lite: Shop) -> None:
    """They do not block the loop, so the transaction ends, and then they go on."""
    begun, opened, asked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @lite.app.job(name="note")
    async def note() -> None: ...

    @lite.app.job(retry=fixed(1))
    async def holds(ctx: Context) -> None:
        await begun.wait()
        async with ctx.transaction() as tx:
            await tx.execute("CREATE TABLE t (n)")
            opened.set()
            await asked.wait()
            await asyncio.sleep(0.2)

    @lite.app.job(retry=fixed(1))
    async def beside(ctx: Context) -> None:
        begun.set()
        await opened.wait()
        asked.set()
        await asyncio.gather(
            note.enqueue_async(), note.options(key="one").enqueue_async(), ctx.checkpoint_async(done=1)
        )
        async with ctx.transaction() as tx:
            await tx.execute("INSERT INTO t VALUES (1)")

    jobs = [holds.enqueue(), beside.enqueue()]
    lite.drained(lite.serve())
    assert [lite.job(job).state for job in jobs] == [State.COMPLETED] * 2
    assert len([job for job in lite.store.jobs.list().jobs if job.kind == "note"]) == 2
    assert lite.store.db.open_effects is not None and not lite.store.db.open_effects.all


def test_what_a_block_left_behind_may_write_after_it(lite: Shop) -> None:
    """A task that was made inside a block knows of it; when the block is over, the task is free."""

    @lite.app.job(name="note")
    async def note() -> None: ...

    @lite.app.job(retry=fixed(1))
    async def holds(ctx: Context) -> None:
        over = asyncio.Event()

        async def later() -> None:
            await over.wait()
            await note.enqueue_async()

        async with ctx.transaction(ends=False) as tx:
            task = asyncio.create_task(later())
            await tx.execute("CREATE TABLE t (n)")
            await note.enqueue_in_async(tx)
        over.set()
        await task

    job = holds.enqueue()
    lite.drained(lite.serve())
    assert lite.job(job).state is State.COMPLETED
    assert len([one for one in lite.store.jobs.list().jobs if one.kind == "note"]) == 2


def test_a_transaction_that_does_not_begin_leaves_nothing_behind(lite: Shop) -> None:
    """Neither a failed nor an abandoned one may keep later calls out."""

    @lite.app.job(name="note")
    async def note() -> None: ...

    @lite.app.job(retry=fixed(1))
    async def holds(ctx: Context) -> None:
        db: Any = lite.store.db
        with db._in_turn(PATIENCE):  # somebody of this process writes
            task = asyncio.create_task(ctx.transaction(ends=False).__aenter__())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.to_thread(lite.until, lambda: not db.open_effects.all)
        note.enqueue()

    job = holds.enqueue()
    lite.drained(lite.serve())
    assert lite.job(job).state is State.COMPLETED, lite.job(job).error


def test_the_plain_loop_of_chunks_is_refused_in_a_coroutine(shop: Shop) -> None:
    """On either database: it blocks the loop, also while a chunk waits to be tried again."""

    @shop.app.job(retry=fixed(1))
    async def loops(ctx: Context) -> None:
        for chunk in ctx.chunks(total=1):
            with chunk:
                pass

    @shop.app.job(retry=fixed(1))
    async def in_a_thread(ctx: Context) -> None:
        def work() -> None:
            for chunk in ctx.chunks(total=1):
                with chunk:
                    pass

        await asyncio.to_thread(work)

    job, fine = loops.enqueue(), in_a_thread.enqueue()
    shop.drained(shop.serve())
    ended = shop.job(job)
    assert ended.state is State.FAILED and ended.error is not None
    assert "async for chunk in ctx.chunks" in ended.error["message"]
    assert shop.job(fine).state is State.COMPLETED, shop.job(fine).error


@pytest.mark.slow
def test_a_job_of_one_attempt_that_is_self_stopped_is_not_run_twice(shop: Shop) -> None:
    """I-14."""
    begun, attempts = threading.Event(), []

    @shop.app.job(retry=fixed(1))
    def once(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        begun.set()
        ctx.sleep(600)

    job = once.enqueue()
    engine = shop.serve(lease=60.0, heartbeat=0.2, margin=30.0, recovery=600.0)
    assert begun.wait(PATIENCE)
    mend = break_beats(engine)
    run_out(engine)
    shop.until(lambda: engine.stats.report().count("self_stops") == 1)
    mend()
    ended = shop.until(lambda: shop.job(job).state.is_final and shop.job(job))
    assert ended.state is State.FAILED and attempts == [1] and ended.error is not None
    assert ended.error["code"] == "self_stopped" and "app.handle(id).retry()" in ended.error["message"]


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_job_that_is_self_stopped_again_and_again_comes_to_an_end(shop: Shop, is_async: bool) -> None:
    """An outage spends no attempt, but a job that keeps its instance from renewing the lease does not come back without end."""
    begun, attempts = threading.Event(), []

    @shop.app.job(name="coroutine", retry=fixed(2, wait=0.001))
    async def coroutine(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        begun.set()
        await asyncio.sleep(600)

    @shop.app.job(name="plain", retry=fixed(2, wait=0.001))
    def plain(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        begun.set()
        ctx.sleep(600)

    job = (coroutine if is_async else plain).enqueue()
    engine = shop.serve(lease=60.0, heartbeat=0.2, margin=30.0, recovery=600.0)
    each = SELF_STOPS_SPARED + 1
    for number in range(1, 2 * each + 1):
        assert begun.wait(PATIENCE)
        begun.clear()
        mend = break_beats(engine)
        run_out(engine)
        shop.until(lambda number=number: engine.stats.report().count("self_stops") == number)  # type: ignore[misc]
        mend()
    ended = shop.until(lambda: shop.job(job).state is State.FAILED and shop.job(job))
    assert attempts == [1] * each + [2] * each
    assert ended.error is not None and ended.error["code"] == "self_stopped"
