"""The step thread when steps fail: outcomes are kept, found guilty one by one, and never lost."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.engine.engine import Engine
from windlass.errors import (
    SchemaError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreNotAllowedError,
    StoreReadOnlyError,
    StoreUnreachableError,
)
from windlass.model import State
from windlass.submit.handle import JobHandle

pytestmark = pytest.mark.timing


def break_step(engine: Any, raise_for: Any) -> list[int]:
    """Have the holder's steps raise what ``raise_for(outcomes, number of call)`` answers; the sizes of all calls."""
    holder = engine.holder
    real, calls = holder.step, []

    def step(outcomes: Any = (), *wants: Any) -> Any:
        calls.append(len(outcomes))
        error = raise_for(outcomes, len(calls))
        if error is not None:
            raise error
        return real(outcomes, *wants)

    holder.step = step
    return calls


def pile_up(
    shop: Shop, count: int, raise_for: Callable[[Any, int], Exception | None] = lambda *_: None
) -> tuple[Engine, Sequence[JobHandle[Any]], list[int], threading.Event]:
    """An engine whose step thread is held up in a step while ``count`` jobs end: the engine, the jobs, the sizes of its calls, and
    the event that lets it go on. Calls after the one that is held up raise what ``raise_for`` answers."""
    begun, gate = threading.Semaphore(0), threading.Event()
    held, go_on = threading.Event(), threading.Event()

    @shop.app.job(processors=count + 1)
    async def work(n: int) -> int:
        begun.release()
        while not gate.is_set():  # noqa: ASYNC110  another thread opens it
            await asyncio.sleep(0.005)
        return n

    engine = shop.serve(lease=60.0, heartbeat=20.0)
    jobs = work.enqueue_many({"n": n} for n in range(count))
    for _ in jobs:
        assert begun.acquire(timeout=PATIENCE)

    def hold_up(outcomes: Any, number: int) -> Exception | None:
        if number > 1:
            return raise_for(outcomes, number)
        held.set()
        go_on.wait(PATIENCE)
        return None

    def knock() -> bool:
        engine._stepper.hint("work")
        return held.is_set()

    calls = break_step(engine, hold_up)
    shop.until(knock)
    gate.set()
    shop.until(lambda: len(engine._recorder) == count)
    return engine, jobs, calls, go_on


def counted(engine: Engine) -> dict[str, int]:
    """How the jobs of phase ``work`` ended, by the counters."""
    return {name: n for name, n in engine.stats.report().phases["work"].outcomes.items() if n}


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), StoreError("refused"), StoreUnreachableError("away")]
)
def test_what_jobs_came_to_survives_a_failed_step(shop: Shop, error: Exception) -> None:
    @shop.app.job(processors=5)
    async def work(n: int) -> int:
        return n

    engine = shop.serve()
    failed: list[int] = []

    def once(outcomes: Any, number: int) -> Exception | None:
        if outcomes and not failed:
            failed.append(number)
            return error
        return None

    break_step(engine, once)
    jobs = [work.enqueue(n=n) for n in range(20)]
    shop.drained(engine)
    assert failed and [shop.job(job).result for job in jobs] == list(range(20))
    assert all(shop.job(job).attempt == 1 for job in jobs), "none ran twice"


def test_one_outcome_that_the_database_refuses_does_not_hold_up_the_others(shop: Shop) -> None:
    begun, gate = threading.Semaphore(0), threading.Event()

    @shop.app.job(processors=10)
    def work(n: int) -> int:
        begun.release()
        gate.wait(PATIENCE)
        return n

    engine = shop.serve()
    jobs = [work.enqueue(n=n) for n in range(10)]
    for _ in jobs:
        assert begun.acquire(timeout=PATIENCE)

    def guilty(outcomes: Any, _number: int) -> Exception | None:
        is_guilty = any(
            item.lease.id == jobs[3].id and type(item).__name__ == "Completed" for item in outcomes
        )
        return StoreError("the database will not have it") if is_guilty else None

    break_step(engine, guilty)
    gate.set()
    shop.drained(engine)
    states = [shop.job(job).state for job in jobs]
    assert states.count(State.COMPLETED) == 9 and states[3] is State.FAILED
    assert (shop.job(jobs[3]).error or {})["code"] == "unrecordable"


def test_nothing_is_claimed_while_the_database_does_not_answer(shop: Shop) -> None:
    @shop.app.job
    async def work() -> None: ...

    engine = shop.serve(scan=0.05)
    away = threading.Event()
    away.set()
    calls = break_step(engine, lambda *_: StoreUnreachableError("away") if away.is_set() else None)
    job = work.enqueue()
    shop.until(lambda: len(calls) >= 3)
    assert not engine.report().store_reachable and any("store" in part for part in engine.report().degraded)
    before = len(calls)
    time.sleep(1.0)
    assert len(calls) - before < 10, "with growing pauses"
    away.clear()
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED and engine.report().store_reachable


def forty_running(shop: Shop) -> tuple[Engine, Sequence[JobHandle[Any]], threading.Event]:
    """An engine with batches of ten and forty jobs that run until the gate is opened."""
    begun, gate = threading.Semaphore(0), threading.Event()

    @shop.app.job(processors=40)
    def work(n: int) -> int:
        begun.release()
        gate.wait(PATIENCE)
        return n

    engine = shop.serve(page=10)
    jobs = work.enqueue_many({"n": n} for n in range(40))
    for _ in jobs:
        assert begun.acquire(timeout=PATIENCE)
    return engine, jobs, gate


@pytest.mark.usefixtures("patient_stop")
def test_a_stop_waits_for_every_step(shop: Shop) -> None:
    """There are four batches to write, and the database takes its time over one of them."""
    engine, jobs, gate = forty_running(shop)
    answer = threading.Event()
    late: list[int] = []

    def second_waits(outcomes: Any, number: int) -> None:
        if outcomes:
            late.append(number)
            if len(late) == 2:
                answer.wait(0.5)

    break_step(engine, second_waits)
    gate.set()
    engine.stop(grace=PATIENCE)
    assert len(late) >= 4
    assert [shop.job(job).state for job in jobs] == [State.COMPLETED] * 40


def test_outcomes_that_pile_up_are_written_together(shop: Shop) -> None:
    """While the database takes its time, batches form by themselves."""
    engine, jobs, calls, go_on = pile_up(shop, 200)
    go_on.set()
    shop.drained(engine)
    written = [size for size in calls if size]
    assert sum(written) == 200 and len(written) <= 3
    assert {shop.job(job).state for job in jobs[::20]} == {State.COMPLETED}


def test_an_outage_amid_a_refused_batch_drops_nothing_and_keeps_the_order(shop: Shop) -> None:
    """They are written one by one, the database goes away before the third: those left wait together, and nobody knocks for each."""
    seen: list[tuple[list[str], bool]] = []

    def away(outcomes: Any, _number: int) -> Exception | None:
        if outcomes:
            seen.append(([item.lease.id for item in outcomes], engine._stepper.is_reachable))
        if outcomes and len(seen) == 1:
            return StoreError("refused")
        return StoreUnreachableError("away") if outcomes and len(seen) == 4 else None

    engine, jobs, _, go_on = pile_up(shop, 6, away)
    go_on.set()
    shop.drained(engine)
    order = seen[0][0]
    assert [ids for ids, _ in seen] == [order, order[:1], order[1:2], order[2:3], order[2:]]
    assert [is_reachable for _, is_reachable in seen] == [True, True, True, True, False]
    done = [shop.job(job) for job in jobs]
    assert {(job.state, job.attempt) for job in done} == {(State.COMPLETED, 1)}
    assert engine.report().store_reachable


@pytest.mark.parametrize(
    "fault",
    [
        StoreFullError("full"),
        StoreReadOnlyError("read-only"),
        StoreDamagedError("damaged"),
        StoreNotAllowedError("forbidden"),
        SchemaError("older", found=1, expected=2),
    ],
    ids=lambda fault: fault.code,
)
def test_no_job_is_blamed_for_a_fault_of_the_database(shop: Shop, fault: Exception) -> None:
    """Written one by one, the small row of a failure may fit where a result does not: completed jobs ended as failed."""
    seen: list[tuple[int, bool]] = []

    def takes_nothing(outcomes: Any, _number: int) -> Exception | None:
        if outcomes:
            seen.append((len(outcomes), engine._stepper.is_reachable))
        return fault if len(seen) <= 2 else None

    engine, jobs, _, go_on = pile_up(shop, 5, takes_nothing)
    go_on.set()
    shop.drained(engine)
    assert seen == [(5, True), (5, False), (5, False)], (
        "all of them again, after a pause, and not ready meanwhile"
    )
    assert [shop.job(job).result for job in jobs] == list(range(5))
    assert counted(engine) == {"completed": 5}


def test_a_full_file_ends_no_job_as_failed(fresh_sqlite: Callable[[], str]) -> None:
    """SQLite's own limit on pages gives the very error of a full disk, on any machine."""
    begun, gate = threading.Semaphore(0), threading.Event()
    with closing(Shop(fresh_sqlite())) as shop:

        @shop.app.job(processors=3)
        def work(n: int) -> str:
            begun.release()
            gate.wait(PATIENCE)
            return "x" * 100_000 * n

        engine = shop.serve(lease=60.0, heartbeat=20.0, rollup=60.0)
        jobs = [work.enqueue(n=n) for n in range(1, 4)]
        for _ in jobs:
            assert begun.acquire(timeout=PATIENCE)
        db: Any = shop.store.db
        with db._in_turn(10):
            (pages,) = db._connections.writer.execute("PRAGMA page_count").fetchone()
            db._connections.writer.execute(f"PRAGMA max_page_count = {pages + 4}")
        gate.set()
        shop.until(lambda: not engine.report().store_reachable)
        time.sleep(0.2)  # time enough to try them one by one
        assert any("refuses writes" in part for part in engine.report().degraded)
        assert {shop.job(job).state for job in jobs} == {State.PROCESSING}
        with db._in_turn(10):
            db._connections.writer.execute("PRAGMA max_page_count = 1000000")
        shop.drained(engine)
        done = [shop.job(job) for job in jobs]
        assert {(job.state, job.attempt) for job in done} == {(State.COMPLETED, 1)}
        assert engine.report().store_reachable


def test_a_job_whose_outcome_cannot_be_recorded_is_counted_and_told_as_failed(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """Its row says failed; the counters and the log said completed."""

    def guilty(outcomes: Any, _number: int) -> Exception | None:
        is_guilty = any(
            item.lease.id == jobs[1].id and type(item).__name__ == "Completed" for item in outcomes
        )
        return StoreError("the database will not have it") if is_guilty else None

    engine, jobs, _, go_on = pile_up(shop, 3, guilty)
    with caplog.at_level(logging.ERROR, "windlass.engine"):
        go_on.set()
        shop.drained(engine)
    assert counted(engine) == {"completed": 2, "failed": 1}
    (told,) = [record for record in caplog.records if getattr(record, "event", "") == "job.failed"]
    assert vars(told)["job_id"] == jobs[1].id and shop.job(jobs[1]).state is State.FAILED
