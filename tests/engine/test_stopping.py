"""Stopping an engine: what runs is finished or given back, what waits is given back at once, and it ends in time."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine import process_handlers as handlers
from tests.engine.line import Line, endless
from tests.engine.process_bench import begun as process_begun
from tests.engine.process_bench import is_alive
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.handlers.context import Context
from windlass.model import Flag, Released, State
from windlass.model.retry import fixed
from windlass.store.jobs.holder import Holder

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


@pytest.mark.usefixtures("patient_stop")
def test_stopping_gives_back_what_waits_and_lets_running_jobs_finish(shop: Shop) -> None:
    """Nothing lost, no attempt burnt."""
    begun, gate = threading.Event(), threading.Event()

    @shop.app.job(processors=1)
    def work(n: int) -> int:
        begun.set()
        gate.wait(PATIENCE)
        return n

    jobs = [work.enqueue(n=n) for n in range(5)]
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    stopper = threading.Thread(target=engine.stop, kwargs={"grace": PATIENCE})
    stopper.start()
    shop.until(lambda: engine.state == "stopping")
    gate.set()
    stopper.join(PATIENCE)
    states = [shop.job(job) for job in jobs]
    assert [job.state for job in states].count(State.COMPLETED) == 1
    assert all(
        (job.state, job.attempt) == (State.QUEUED, 0) for job in states if job.state is not State.COMPLETED
    )
    assert shop.store.instances.list() == [], "an instance that stopped in order is gone"


@pytest.mark.usefixtures("patient_stop")
def test_after_the_grace_time_running_jobs_are_stopped_and_given_back(shop: Shop) -> None:
    begun, ends = threading.Event(), []

    @shop.app.job
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("cleaned")

    job = endless.enqueue()
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    began = time.monotonic()
    engine.stop(grace=0.2)
    assert time.monotonic() - began < 30 and ends == ["cleaned"], "it would have slept for a minute"
    assert (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["coroutine", "thread", "stubborn", "process", "deaf process"])
def test_a_job_of_one_attempt_that_had_begun_is_not_run_twice(shop: Shop, tmp_path: Path, how: str) -> None:
    """I-14: it fails, and can be retried by hand; one of its kind that had not begun is given back."""
    begun, gate = tmp_path / "begun", threading.Event()

    async def coroutine(path: str) -> None:
        handlers.note(path)
        await asyncio.sleep(600)

    def thread(path: str, ctx: Context) -> None:
        Path(path).touch()
        ctx.sleep(600)

    def stubborn(path: str) -> None:
        Path(path).touch()
        gate.wait(PATIENCE)

    handler: Any = {
        "coroutine": coroutine,
        "thread": thread,
        "stubborn": stubborn,
        "process": handlers.look_at_stop,
        "deaf process": handlers.sleep,
    }[how]
    where = "process" if "process" in how else None
    work = shop.app.job(name="once", processors=1, executor=where, retry=fixed(1))(handler)
    first = work.enqueue(path=str(begun))
    engine = shop.serve(prefetch=10.0)
    shop.until(begun.exists)
    second = work.enqueue(path=str(tmp_path / "other"))
    engine.stop(grace=0)
    gate.set()
    ended = shop.job(first)
    assert (ended.state, ended.attempt) == (State.FAILED, 1) and ended.error is not None
    assert ended.error["code"] == "interrupted" and "app.handle(id).retry()" in ended.error["message"]
    assert (shop.job(second).state, shop.job(second).attempt) == (State.QUEUED, 0)
    shop.store.jobs.retry(first.id)
    assert shop.job(first).state is State.QUEUED


@pytest.mark.usefixtures("patient_stop")
def test_a_second_call_to_stop_does_not_wait_for_the_grace_time(shop: Shop) -> None:
    job, engine = endless(shop)
    first = threading.Thread(target=engine.stop, kwargs={"grace": 50})
    first.start()
    shop.until(lambda: engine.state == "stopping")
    began = time.monotonic()
    engine.stop()
    first.join(PATIENCE)
    assert time.monotonic() - began < 25 and shop.job(job).state is State.QUEUED


@pytest.mark.usefixtures("patient_stop")
def test_what_is_claimed_while_the_engine_stops_is_given_back_by_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step may be under way when a stop comes: its jobs were left to recovery, as if their instance had died."""

    @shop.app.job(processors=5)
    async def work(n: int) -> None: ...

    real = Holder.step
    claimed, answer = threading.Event(), threading.Event()

    def step(holder: Holder, outcomes: Any = (), *wants: Any) -> Any:
        done = real(holder, outcomes, *wants)
        if done.claimed:
            claimed.set()
            answer.wait(PATIENCE)
        return done

    monkeypatch.setattr(Holder, "step", step)  # before the engine is there: not one step goes past it
    engine = shop.serve()
    jobs = work.enqueue_many({"n": n} for n in range(20))
    assert claimed.wait(PATIENCE)
    stopper = threading.Thread(target=engine.stop)
    stopper.start()
    shop.until(lambda: engine.state == "stopping")
    time.sleep(0.2)
    answer.set()
    stopper.join(PATIENCE)
    assert [shop.job(job).state for job in jobs] == [State.QUEUED] * 20
    leases = shop.store.join().claim(shop.job(jobs[0]).phase, 50)
    assert len(leases) == 20
    assert {lease.attempt for lease in leases} == {1}
    assert not any(lease.flags & Flag.SUSPECT for lease in leases), "nobody died"


@pytest.mark.usefixtures("patient_stop")
def test_what_waits_is_given_back_at_once_when_the_engine_stops(shop: Shop) -> None:
    """Others need not wait for the job that runs here, nor for the grace time."""
    line = Line.in_memory(shop)
    other = shop.store.join(lease=timedelta(seconds=60))
    stopper = threading.Thread(target=line.engine.stop, kwargs={"grace": 2 * PATIENCE})
    stopper.start()
    claimed: list[Any] = []

    def have_all() -> bool:
        claimed.extend(other.claim("work", 5))
        return len(claimed) == 4

    shop.until(have_all)
    assert stopper.is_alive() and not line.gate.is_set()
    assert {lease.id for lease in claimed} == {job.id for job in line.jobs[1:]}
    assert {lease.attempt for lease in claimed} == {1}, "none was spent"
    line.gate.set()
    stopper.join(PATIENCE)
    assert shop.job(line.jobs[0]).state is State.COMPLETED and [n for n, _ in line.ran] == [0]


def test_a_process_is_gone_before_its_job_is_given_back(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another instance may begin with it in that very moment."""
    monkeypatch.setattr("windlass.engine.engine.STOP_WAIT", 0.1)
    job = shop.app.job(executor="process")(handlers.sleep).enqueue(path=str(tmp_path / "begun"))
    engine = shop.serve(cancel_grace=60.0)
    pid = process_begun(tmp_path / "begun")
    holder: Any = engine.holder
    real, alive = holder.step, []

    def step(outcomes: Any = (), *wants: Any) -> Any:
        if any(isinstance(outcome, Released) for outcome in outcomes):
            alive.append(is_alive(pid))
        return real(outcomes, *wants)

    holder.step = step
    engine.stop(grace=0)
    assert alive == [False] and (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)


@pytest.mark.parametrize("hangs", ["the minute's counts", "leaving"])
def test_a_stop_ends_in_time_although_the_database_hangs_at_its_very_end(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    """Everything is given back by then; others forget this instance by themselves."""
    monkeypatch.setattr("windlass.engine.engine.LAST_WRITES_WAIT", 1.0)
    reached, answer = threading.Event(), threading.Event()

    def hang() -> None:
        reached.set()
        answer.wait(PATIENCE)

    @shop.app.job
    async def work() -> None: ...

    engine = shop.serve()
    if hangs == "leaving":
        monkeypatch.setattr(engine.holder, "leave", hang)
    else:
        monkeypatch.setattr(engine._duties.rollups, "run", hang)
    began = time.monotonic()
    engine.stop(grace=0)
    took = time.monotonic() - began
    answer.set()
    assert reached.is_set() and took < PATIENCE / 2 and engine.state == "stopped"


@pytest.mark.parametrize("where", ["_await_idle", "_end"])
@pytest.mark.usefixtures("patient_stop")
def test_a_stop_that_was_interrupted_is_completed_by_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Ctrl-C while it waited: whoever called it again was told at once that all was done, and nothing was."""
    job, engine = endless(shop)

    def interrupt(*_args: Any, **_options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(engine, where, interrupt)
        engine.stop(grace=0)
    assert engine.state == "stopping" and not engine.wait(0)
    engine.stop(grace=0)
    assert engine.state == "stopped" and engine.wait(0)
    assert (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)
    assert shop.store.instances.list() == []
