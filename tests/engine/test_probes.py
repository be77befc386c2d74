"""A dead instance's job whose phase can be asked "is my output there?": done without running again, or run again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass.handlers.context import Context
from windlass.model import State
from windlass.model.retry import fixed

pytestmark = [pytest.mark.one_database, pytest.mark.timing]

BRIEF = timedelta(seconds=0.3)


def abandon(shop: Shop, phase: str, *, starting: int = 1) -> None:
    """Claim a job as an instance that is never heard of again."""
    assert len(shop.store.join(lease=BRIEF).claim(phase, 1, starting=starting)) == 1


def colours(answer: Any) -> list[Callable[..., Any]]:
    def plain(n: int) -> Any:
        return answer

    async def coroutine(n: int) -> Any:
        await asyncio.sleep(0)
        return answer

    return [plain, coroutine]


@pytest.mark.parametrize("colour", [0, 1], ids=["plain", "async"])
@pytest.mark.parametrize(("answer", "result"), [(7, 7), (True, None)], ids=["output", "yes"])
def test_a_job_whose_output_is_found_is_done_without_running_again(
    shop: Shop, colour: int, answer: Any, result: Any
) -> None:
    """An answer "True" fits no annotation, and need not: it says that the output is there, not what it is."""
    ran: list[int] = []

    @shop.app.job(probe=colours(answer)[colour])
    def square(n: int) -> int:
        ran.append(n)
        return n * n

    job = square.enqueue(n=3)
    abandon(shop, "square")
    engine = shop.serve()
    shop.drained(engine)
    done = shop.job(job)
    assert (done.state, done.result, done.crashes, ran) == (State.COMPLETED, result, 0, [])
    assert engine.stats.report().counts["recovered", "held"] == 1


@pytest.mark.parametrize("answer", [5, True], ids=["output", "yes"])
def test_a_phase_whose_output_is_found_is_passed(shop: Shop, answer: Any) -> None:
    ran: list[str] = []
    pipe = shop.app.pipeline("pipe")

    @pipe.phase("first", probe=colours(answer)[1])
    def first(n: int) -> int:
        ran.append("first")
        return n

    @pipe.phase("second")
    def second(n: int, ctx: Context) -> Any:
        ran.append("second")
        return ctx.output("first")

    job = pipe.enqueue(n=1)
    abandon(shop, "pipe:first")
    shop.drained(shop.serve())
    assert ran == ["second"] and shop.job(job).state is State.COMPLETED
    assert shop.job(job).result == (5 if answer == 5 else None)


def broken(n: int) -> Any:
    raise SystemExit("a probe that gives up")


@pytest.mark.parametrize(
    "probe", [*colours(None), colours(False)[0], broken], ids=["none", "async", "no", "broken"]
)
def test_a_job_whose_output_is_not_there_runs_again(shop: Shop, probe: Callable[..., Any]) -> None:
    ran: list[tuple[int, int, bool]] = []

    @shop.app.job(probe=probe)
    def square(ctx: Context, n: int) -> int:
        ran.append((ctx.attempt, ctx._lease.crashes, ctx._lease.is_suspect))
        return n * n

    job = square.enqueue(n=3)
    abandon(shop, "square")
    shop.drained(shop.serve())
    assert shop.job(job).result == 9 and ran == [(1, 0, False)], (
        "it runs like any other, with the attempt it had"
    )
    (lost,) = shop.store.jobs.attempts(job.id)
    assert lost.error is not None and lost.error["code"] == "instance_died"


def test_a_job_that_was_only_claimed_loses_nothing_when_its_probe_says_no(shop: Shop) -> None:
    """As the store decides for phases without a probe: attempt given back, and no death on its timeline."""
    ran: list[tuple[int, int, bool]] = []

    @shop.app.job(probe=colours(None)[0], retry=fixed(1))
    def square(ctx: Context, n: int) -> int:
        ran.append((ctx.attempt, ctx._lease.crashes, ctx._lease.is_suspect))
        return n * n

    job = square.enqueue(n=3)
    abandon(shop, "square", starting=0)
    shop.drained(shop.serve())
    assert shop.job(job).result == 9 and ran == [(1, 0, False)]
    assert shop.store.jobs.attempts(job.id) == []


def test_a_job_that_took_down_too_many_instances_fails_with_the_code_for_it(shop: Shop) -> None:
    asked: list[int] = []

    def probe(n: int) -> None:
        asked.append(n)

    @shop.app.job(probe=probe, retry=fixed(9))
    def deadly(n: int) -> None:
        raise AssertionError("it is not run here")

    job = deadly.enqueue(n=1)
    abandon(shop, "deadly")
    engine = shop.serve(death_cap=1)
    shop.until(lambda: shop.job(job).state is State.FAILED)
    assert asked == [1] and (shop.job(job).error or {})["code"] == "death_cap"
    shop.drained(engine)


def test_an_output_that_does_not_fit_is_a_failed_job(shop: Shop) -> None:
    @shop.app.job(probe=colours("many")[0])
    def square(n: int) -> int:
        return n * n

    job = square.enqueue(n=3)
    abandon(shop, "square")
    shop.drained(shop.serve())
    assert shop.job(job).state is State.FAILED and (shop.job(job).error or {})["code"] == "bad_result"
