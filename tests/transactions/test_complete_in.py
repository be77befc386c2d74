"""A handler's own transaction has the handler's writes and its job's end, or neither."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from tests.engine.shop import Shop
from tests.transactions.kinds import THE_FIVE, Hand, handler
from windlass.engine.engine import Engine
from windlass.handlers.context import Context
from windlass.model import State

SOON = windlass.retry.fixed(attempts=3, wait=0.01)
few = pytest.mark.parametrize("kind", [*THE_FIVE, "sqlite3"])


def effects(shop: Shop) -> list[Any]:
    return [tuple(row) for row in shop.run("SELECT n, attempt FROM effect ORDER BY n, attempt")]


def outcomes(engine: Engine) -> dict[str, int]:
    return {name: n for name, n in engine.stats.report().phases["work"].outcomes.items() if n}


async def insert(hand: Hand, ctx: Context, n: int) -> None:
    await hand.execute(f"INSERT INTO effect VALUES ({n}, {ctx.attempt})")


def test_the_effect_and_the_end_are_committed_together(shop: Shop, kind: str) -> None:
    async def body(hand: Hand, ctx: Context, n: int) -> str:
        await insert(hand, ctx, n)
        await hand.complete(ctx, {"n": n})
        assert shop.job(ctx.job_id).state is State.PROCESSING
        await hand.commit()
        assert shop.job(ctx.job_id).state is State.COMPLETED
        return "ignored"

    work = shop.app.job(name="work")(handler(kind, shop.app.url, body))
    jobs = work.enqueue_many([{"n": n} for n in range(3)])
    engine = shop.serve()
    shop.drained(engine)
    for n, job in enumerate(jobs):
        found = shop.job(job)
        assert (found.state, found.result, found.attempt) == (State.COMPLETED, {"n": n}, 1)
        (span,) = shop.store.jobs.timeline(job.id)
        assert span.outcome == "completed" and span.processor is not None and span.ran is not None
    assert effects(shop) == [(0, 1), (1, 1), (2, 1)]
    assert outcomes(engine) == {"completed": 3}
    assert not engine.holder._left, "a job that ended in a transaction of its own is let go"


def test_both_or_neither_wherever_the_handler_stops(shop: Shop, kind: str) -> None:
    """Five jobs, each of which goes wrong at another place in its first attempt, and not in its second."""
    places = ["before the end", "after the end", "after the commit", "rolled back", "never"]

    async def body(hand: Hand, ctx: Context, n: int) -> str:
        def pass_by(here: str) -> bool:
            return places[n] == here and ctx.attempt == 1

        await insert(hand, ctx, n)
        if pass_by("before the end"):
            raise RuntimeError
        await hand.complete(ctx, ctx.attempt)
        if pass_by("after the end"):
            raise RuntimeError
        if pass_by("rolled back"):
            await (
                hand.rollback()
            )  # and the handler returns as if all was well: nothing was done, so the job is not
            return "returned"
        await hand.commit()
        if pass_by("after the commit"):
            raise RuntimeError
        return "returned"

    work = shop.app.job(name="work", retry=SOON)(handler(kind, shop.app.url, body))
    jobs = work.enqueue_many([{"n": n} for n in range(5)])
    engine = shop.serve()
    shop.drained(engine)
    wanted = [2, 2, 1, 2, 1]
    assert [(shop.job(job).state, shop.job(job).result) for job in jobs] == [
        (State.COMPLETED, n) for n in wanted
    ]
    assert effects(shop) == list(enumerate(wanted))
    assert outcomes(engine) == {"completed": 5, "retried": 3}
    (failed,) = shop.store.jobs.attempts(jobs[places.index("rolled back")].id)
    assert failed.error is not None and failed.error["code"] == "not_committed"


@few
def test_a_pipeline_goes_on_with_the_output(shop: Shop, kind: str) -> None:
    sites = shop.app.pipeline("sites")

    async def body(hand: Hand, ctx: Context, n: int) -> None:
        await insert(hand, ctx, n)
        await hand.complete(ctx, {"n": n})
        await hand.commit()

    sites.phase("first")(handler(kind, shop.app.url, body))

    @sites.phase("second")
    def second(n: int, ctx: Context) -> Any:
        return ctx.output("first")

    job = sites.enqueue(n=5)
    shop.drained(shop.serve())
    assert shop.job(job).result == {"n": 5} and effects(shop) == [(5, 1)]


def test_an_end_in_the_handlers_transaction_settles_keys_outputs_and_children(shop: Shop, kind: str) -> None:
    """All that an end owes to other tables is done by the same commit."""

    async def body(hand: Hand, ctx: Context, n: int) -> None:
        ctx.put_output("note", [n])
        if n == 1:
            await hand.complete(ctx)
            await hand.commit()

    work = shop.app.job(name="work")(handler(kind, shop.app.url, body))
    parent = work.options(key="k").enqueue(n=1)
    children = [work.options(after=[parent]).enqueue(n=2) for _ in range(3)]
    shop.drained(shop.serve())
    assert [shop.job(job).state for job in [parent, *children]] == [State.COMPLETED] * 4
    assert [shop.job(job).attempt for job in [parent, *children]] == [1] * 4
    assert [item.value for item in shop.job(parent).outputs] == [[1]]
    assert work.options(key="k").enqueue(n=1).created


@few
def test_a_checkpoint_is_saved_with_the_effect_or_not_at_all(shop: Shop, kind: str) -> None:
    async def body(hand: Hand, ctx: Context, n: int) -> list[Any]:
        saved = ctx.resume()
        if saved is None:
            await insert(hand, ctx, 1)
            await hand.checkpoint(ctx, {"at": 1}, done=1, total=3)
            await hand.commit()
            raise RuntimeError("between two checkpoints")
        if ctx.attempt == 2:
            await insert(hand, ctx, 2)
            await hand.checkpoint(ctx, {"at": 2}, done=2, total=3)
            await hand.rollback()
            raise RuntimeError("rolled back")
        return [saved.position, saved.done, saved.total]

    work = shop.app.job(name="work", retry=SOON)(handler(kind, shop.app.url, body))
    job = work.enqueue(n=1)
    shop.drained(shop.serve())
    assert shop.job(job).result == [{"at": 1}, 1, 3]
    assert effects(shop) == [(1, 1)]
