"""What a step claims: no more than there is room for, and nothing while the engine stops."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.engine.workload import Refusal
from windlass.errors import (
    StoreError,
    StoreUnreachableError,
)
from windlass.model import State
from windlass.store.jobs.holder import Holder

pytestmark = pytest.mark.timing


def test_steps_claim_no_more_than_there_is_room_for(shop: Shop) -> None:
    @shop.app.job(processors=20)
    async def work(n: int) -> int:
        return n

    jobs = work.enqueue_many({"n": n} for n in range(3000))
    engine = shop.serve(page=50, capacity=100)
    shop.drained(engine)
    refused = {name: n for name, n in engine.stats.report().counts.items() if name[0] == "refused"}
    assert not refused, "each refusal is a job claimed in vain"
    assert sum(shop.job(job).attempt for job in jobs[::50]) == 60


def test_what_was_claimed_is_served_although_counting_failed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of that step are written, and whatever was claimed with them must not be forgotten."""

    @shop.app.job(processors=5)
    async def work(n: int) -> int:
        return n

    engine = shop.serve(page=5)
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
    workload, stepper = engine._workload, engine._stepper
    real, entered, go_on = workload.offer, threading.Event(), threading.Event()

    def offer(leases: Any) -> Any:
        entered.set()
        go_on.wait(PATIENCE)
        return real(leases)

    monkeypatch.setattr(workload, "offer", offer)
    monkeypatch.setattr("windlass.engine.step.ACCEPT_WAIT", PATIENCE)
    work.enqueue()
    assert entered.wait(PATIENCE)
    stopping = threading.Thread(target=stepper.stop_claiming)
    stopping.start()
    stopping.join(0.3)
    assert stopping.is_alive()
    go_on.set()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()


def test_a_careful_start_that_fails_is_tried_again_soon(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else happens meanwhile that would wake the thread."""
    monkeypatch.setattr("windlass.engine.step.needs_start", lambda lease: True)

    @shop.app.job(processors=1)
    def work() -> int:
        return 1

    engine = shop.serve(scan=600.0)
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


def test_a_job_that_there_is_no_room_for_is_given_back_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another instance may have it, its attempt not spent. Kept, it would be held until this instance ends."""
    monkeypatch.setattr("windlass.engine.step.REFUSED_PAUSE", 600.0)

    @shop.app.job
    async def work() -> str:
        return "done"

    first = shop.serve()
    refused: list[Any] = []

    def offer(leases: Any) -> Any:
        refused.extend(leases)
        return [(lease, Refusal.FULL) for lease in leases]

    monkeypatch.setattr(first._workload, "offer", offer)
    job = work.enqueue()
    shop.until(lambda: refused and shop.job(job).state is State.QUEUED)
    assert shop.job(job).attempt == 0 and shop.job(job).crashes == 0
    shop.drained(shop.serve())
    assert (shop.job(job).result, shop.job(job).attempt) == ("done", 1)
    assert [lease.id for lease in refused] == [job.id]


def test_after_a_refusal_a_phase_is_left_alone_although_hints_come(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Giving a job back is a hint itself: claims and refusals chased each other as fast as the database could."""
    monkeypatch.setattr("windlass.engine.step.REFUSED_PAUSE", 600.0)

    @shop.app.job
    async def work() -> None: ...

    engine = shop.serve()
    offers: list[Any] = []

    def offer(leases: Any) -> Any:
        offers.append(leases)
        return [(lease, Refusal.FULL) for lease in leases]

    monkeypatch.setattr(engine._workload, "offer", offer)
    work.enqueue()
    shop.until(lambda: offers)
    for _ in range(10):
        work.enqueue()
        time.sleep(0.05)
    assert len(offers) <= 2


@pytest.mark.parametrize("error", [StoreUnreachableError("the line broke"), RuntimeError("a bug")])
def test_a_claim_that_was_made_but_not_heard_of_is_made_again_soon(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Its jobs are held by this instance, which does not know them: a beat finds them, and the regular one is a minute away."""
    grace = timedelta(seconds=0.3)
    monkeypatch.setattr("windlass.engine.heartbeat.UNKNOWN_GRACE", grace)
    monkeypatch.setattr(Holder.beat, "__kwdefaults__", {"unknown_grace": grace})
    ran: list[int] = []

    @shop.app.job(processors=5)
    async def work(n: int) -> None:
        ran.append(n)

    real = Holder.step
    lost: list[Any] = []

    def step(holder: Holder, outcomes: Any = (), *wants: Any) -> Any:
        done = real(holder, outcomes, *wants)
        if done.claimed and not lost:
            lost.extend(done.claimed)
            holder._give_up(done.claimed)
            raise error
        return done

    monkeypatch.setattr(Holder, "step", step)  # before the engine is there: not one step goes past it
    shop.serve(lease=1000.0, heartbeat=300.0, recovery=300.0)
    jobs = work.enqueue_many({"n": n} for n in range(3))
    shop.until(lambda: all(shop.job(job).state is State.COMPLETED for job in jobs))
    assert lost and sorted(ran) == [0, 1, 2]
    assert {(shop.job(job).attempt, shop.job(job).crashes) for job in jobs} == {(1, 0)}
