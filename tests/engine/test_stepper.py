"""The step thread when steps fail: outcomes are kept, found guilty one by one, and never lost."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass.engine.engine import Engine
from windlass.errors import StoreError, StoreUnreachableError
from windlass.model import Enqueued, State


def break_step(engine: Any, raise_for: Any) -> list[int]:
    """Have the holder's steps raise what ``raise_for(outcomes, number of call)`` answers; the sizes of all calls."""
    holder = engine.holder
    real, calls = holder.step, []

    def step(outcomes: Any = (), want: Any = None) -> Any:
        calls.append(len(outcomes))
        error = raise_for(outcomes, len(calls))
        if error is not None:
            raise error
        return real(outcomes, want)

    holder.step = step
    return calls


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
        gate.wait(10)
        return n

    engine = shop.serve()
    jobs = [work.enqueue(n=n) for n in range(10)]
    for _ in jobs:
        assert begun.acquire(timeout=10)

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


def forty_running(shop: Shop) -> tuple[Engine, list[Enqueued], threading.Event]:
    """An engine with batches of ten and forty jobs that run until the gate is opened."""
    begun, gate = threading.Semaphore(0), threading.Event()

    @shop.app.job(processors=40)
    def work(n: int) -> int:
        begun.release()
        gate.wait(10)
        return n

    engine = shop.serve(batch=10)
    jobs = work.enqueue_many({"n": n} for n in range(40))
    for _ in jobs:
        assert begun.acquire(timeout=10)
    return engine, jobs, gate


def test_steps_claim_no_more_than_there_is_room_for(shop: Shop) -> None:
    @shop.app.job(processors=20)
    async def work(n: int) -> int:
        return n

    jobs = work.enqueue_many({"n": n} for n in range(3000))
    engine = shop.serve(batch=50, capacity=100)
    shop.drained(engine)
    refused = {name: n for name, n in engine.stats.report().counts.items() if name[0] == "refused"}
    assert not refused, "each refusal is a job claimed in vain"
    assert sum(shop.job(job).attempt for job in jobs[::50]) == 60


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
    engine.stop()
    assert len(late) >= 4
    assert [shop.job(job).state for job in jobs] == [State.COMPLETED] * 40


def test_what_was_claimed_is_served_although_counting_failed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of that step are written, and whatever was claimed with them must not be forgotten."""

    @shop.app.job(processors=5)
    async def work(n: int) -> int:
        return n

    engine = shop.serve(batch=5)
    real = engine._recorder.recorded
    broken: list[int] = []

    def recorded(*args: Any) -> Any:
        if not broken:
            broken.append(1)
            raise RuntimeError("a bug")
        return real(*args)

    monkeypatch.setattr(engine._recorder, "recorded", recorded)
    jobs = work.enqueue_many({"n": n} for n in range(40))
    shop.until(lambda: all(shop.job(job).state is State.COMPLETED for job in jobs))
    assert broken and {shop.job(job).attempt for job in jobs} == {1}


def test_to_stop_claiming_waits_for_what_is_being_taken_in(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards nothing comes in any more: what waits in memory is given back by who stops the engine."""

    @shop.app.job
    async def work() -> None: ...

    engine = shop.serve()
    floor, stepper = engine._floor, engine._stepper
    real, entered, go_on = floor.offer, threading.Event(), threading.Event()

    def offer(leases: Any) -> Any:
        entered.set()
        go_on.wait(10)
        return real(leases)

    monkeypatch.setattr(floor, "offer", offer)
    work.enqueue()
    assert entered.wait(10)
    stopping = threading.Thread(target=stepper.stop_claiming)
    stopping.start()
    stopping.join(0.3)
    assert stopping.is_alive()
    go_on.set()
    stopping.join(0.5)
    assert not stopping.is_alive()


def test_a_careful_start_that_fails_is_tried_again_soon(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else happens meanwhile that would wake the thread."""
    monkeypatch.setattr("windlass.engine.stepper.needs_start", lambda lease: True)

    @shop.app.job(processors=1)
    def work() -> int:
        return 1

    engine = shop.serve(scan=60.0)
    holder = engine.holder
    real = holder.start
    failed: list[int] = []

    def start(leases: Any) -> Any:
        if len(failed) < 2:
            failed.append(1)
            raise StoreError("not now") if len(failed) == 1 else RuntimeError("a bug")
        return real(leases)

    monkeypatch.setattr(holder, "start", start)
    jobs = [work.enqueue() for _ in range(3)]
    shop.until(lambda: all(shop.job(job).state is State.COMPLETED for job in jobs))
