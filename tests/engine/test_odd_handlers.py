"""Handlers, policies and exceptions that do what nobody expects: the job ends with an error that says so, and its neighbours go on."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass import Context
from windlass.engine.executors.fault import Fault
from windlass.engine.executors.threads import ThreadExecutor
from windlass.engine.recorder import Recorder
from windlass.engine.stats import Stats
from windlass.errors import ConfigError, WindlassError
from windlass.model import CancelResult, Failed, JobError, State, Verdict
from windlass.model.retry import custom, fixed
from windlass.model.signals import Cancel, Fail, Retry

pytestmark = [pytest.mark.one_database, pytest.mark.timing]

SOON = fixed(attempts=2, wait=0.01)


class BottomlessError(Exception):
    def __getattr__(self, name: str) -> Any:
        raise RecursionError("as getattr(self._inner, name) does, where _inner was never set")


class NamelessType(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise LookupError("no name")


class NamelessError(Exception, metaclass=NamelessType):
    pass


class ExitingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Seconds:
    """A policy that is no subclass of anything, and answers a bare number."""

    attempts = 2

    def delay(self, attempt: int, error: BaseException | None = None) -> Any:
        return 0.02


def leave(attempt: int, error: BaseException | None) -> float:
    raise SystemExit("a policy that ends the program")


RAISED: dict[str, tuple[Any, Any, str]] = {
    "retry after a text": (lambda: Retry(after="5"), SOON, "Retry after = '5'"),  # type: ignore[arg-type]
    "retry before now": (lambda: Retry(after=-5), SOON, "Retry after = -5"),
    "retry with a number": (lambda: Retry(5), SOON, "write Retry(after=5)"),  # type: ignore[arg-type]
    "fail with a number": (lambda: Fail(404, "not found"), SOON, "not found"),  # type: ignore[arg-type]
    "fail with an exception": (lambda: Fail("gone", ValueError("x")), SOON, "ValueError: x"),  # type: ignore[arg-type]
    "bottomless": (BottomlessError, SOON, "BottomlessError, which cannot be described"),
    "nameless": (NamelessError, SOON, "an exception, which cannot be described"),
    "exiting": (ExitingError, SOON, "ExitingError"),
    "a policy of seconds": (lambda: ValueError("mine"), Seconds(), "mine"),
    "a policy that leaves": (lambda: ValueError("mine"), custom(2, leave), "mine"),
    "a policy of nonsense": (lambda: ValueError("mine"), custom(2, lambda *_: "soon"), "mine"),  # type: ignore[arg-type]
}


def handler_of(colour: str, make: Any) -> Any:
    """One that raises for its fourth job."""

    def end(n: int) -> int:
        if n == 3:
            raise make()
        return n

    async def end_async(n: int) -> int:
        return end(n)

    return end if colour == "plain" else end_async


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_one_odd_end_is_told_and_its_neighbours_are_recorded(
    shop: Shop, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such end kept the others of its batch from being written: they had run, and stayed `processing`."""
    monkeypatch.setattr("windlass.engine.attempt.STAND_IN", fixed(2, wait=0.01))
    odd, neighbours = {}, []
    for number, (make, policy, told) in enumerate(RAISED.values()):
        work = shop.app.job(name=f"work{number}", retry=policy, processors=20)(handler_of(colour, make))
        jobs = [work.enqueue(n=n) for n in range(6)]
        odd[jobs.pop(3).id] = told
        neighbours += jobs
    shop.drained(shop.serve())
    assert {shop.job(job).state for job in neighbours} == {State.COMPLETED}
    for job, told in odd.items():
        assert shop.job(job).state is State.FAILED and told in (shop.job(job).error or {})["message"]


def test_signals_say_what_they_want() -> None:
    for wrong in ("5", float("nan"), float("inf"), True, object(), -5, timedelta(seconds=-1)):
        with pytest.raises(ConfigError, match="Retry after"):
            Retry(after=wrong)  # type: ignore[arg-type]
    for seconds in (5, 0.5, timedelta(seconds=5)):
        with pytest.raises(ConfigError, match=re.escape(f"write Retry(after={seconds!r})")):
            Retry(seconds)  # type: ignore[arg-type]
    assert Retry(after=2).after == timedelta(seconds=2)
    assert Retry(after=0).after == timedelta(0)
    assert (Fail(404).code, Fail(404).message) == ("404", "404")  # type: ignore[arg-type]
    assert Cancel(ExitingError()).reason == "ExitingError"  # type: ignore[arg-type]


def test_the_last_attempt_keeps_the_error_of_its_handler(shop: Shop) -> None:
    """A policy with a list of two delays for three attempts: the third has none, and needs none."""
    delays = [0.01, 0.01]

    @shop.app.job(retry=custom(3, lambda attempt, error: delays[attempt - 1]))
    def charge() -> None:
        raise ConnectionError("card service says no")

    job = charge.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).attempt == 3 and "card service" in (shop.job(job).error or {})["message"]
    assert "IndexError" not in str(shop.job(job))


def test_a_log_that_cannot_tell_an_end_does_not_undo_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.engine.leases import lease

    def broken(*_: Any) -> None:
        raise RuntimeError("no log today")

    monkeypatch.setattr("windlass.observe.events.ended", broken)
    failed = [Failed(lease(), JobError(type="E", code="e", message="m")) for _ in range(3)]
    ended = Recorder(Stats()).recorded(failed, [Verdict.RECORDED] * 3)
    assert sum(ended.values()) == 3 and "could not be logged" in caplog.text


def test_a_lost_lease_of_another_job_is_an_error_like_others(shop: Shop) -> None:
    """A context that was kept from an earlier job: the later one stayed `processing` as long as its instance lived."""
    kept: list[Context] = []

    @shop.app.job
    def first(ctx: Context) -> None:
        kept.append(ctx)

    @shop.app.job(retry=SOON)
    def second() -> None:
        with kept[0].transaction():
            pass

    engine = shop.serve()
    first.enqueue()
    shop.drained(engine)
    job = second.enqueue()
    shop.drained(engine)
    assert shop.job(job).state is State.FAILED and (shop.job(job).error or {})["code"] == "lease_lost"


# ---------------------------------------------------------------------- time


@pytest.mark.slow
def test_a_blocked_loop_burns_no_attempt_of_those_behind(shop: Shop) -> None:
    @shop.app.job(timeout=None)
    async def blocker() -> None:
        time.sleep(2.5)  # noqa: ASYNC251  on purpose

    @shop.app.job(timeout=1.5, retry=fixed(attempts=1, wait=0.1), processors=5)
    async def innocent(n: int) -> int:
        return n

    engine = shop.serve()
    stuck = blocker.enqueue()
    shop.until(lambda: shop.job(stuck).state is State.PROCESSING)
    time.sleep(0.1)
    jobs = [innocent.enqueue(n=n) for n in range(12)]
    shop.drained(engine)
    assert {(shop.job(job).state, shop.job(job).attempt) for job in jobs} == {(State.COMPLETED, 1)}


def test_a_cancelled_job_that_hangs_holds_up_nobody(shop: Shop) -> None:
    over = threading.Event()

    @shop.app.job(timeout=600.0, processors=1)
    def hang(n: int) -> int:
        if n == 0:
            over.wait(PATIENCE)
        return n

    engine = shop.serve()
    first, behind = hang.enqueue(n=0), hang.enqueue(n=1)
    shop.until(lambda: any(running.begun for running in engine._workload.running()))
    assert shop.store.jobs.cancel(first.id) is CancelResult.REQUESTED
    (running,) = engine._workload.running()
    running.processor.progress_at -= 600.0  # its time is over
    shop.drained(engine)
    over.set()
    assert shop.job(first).state is State.CANCELLED and shop.job(behind).state is State.COMPLETED


# ---------------------------------------------------------------------- threads and the engine itself


def test_threads_that_cannot_be_started_are_started_later(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The phase was dead for good, and the engine could not be stopped."""
    real, is_full = threading.Thread.start, threading.Event()
    is_full.set()

    def start(thread: threading.Thread) -> None:
        if is_full.is_set() and thread.name.startswith("windlass-thread"):
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)

    @shop.app.job(processors=5, timeout=None)
    def work(n: int) -> int:
        return n

    jobs = [work.enqueue(n=n) for n in range(10)]
    engine = shop.serve()
    shop.until(lambda: "can't start new thread" in caplog.text)
    assert caplog.text.count("can't start new thread") < 3, "it is told now and then, not at every look"
    is_full.clear()
    shop.drained(engine)
    assert [shop.job(job).attempt for job in jobs] == [1] * 10
    engine.stop()
    assert engine.state == "stopped"


def test_a_pool_without_a_thread_is_closed_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = ThreadExecutor(None, lambda ended: None, Fault("threads"))  # type: ignore[arg-type]
    monkeypatch.setattr(threading.Thread, "start", start)
    pool.run(lambda: None)
    pool.close()


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_job_that_stops_its_own_engine_is_told_why_not(shop: Shop, colour: str) -> None:
    def stop() -> None:
        engine.stop()

    async def stop_async() -> None:
        await asyncio.to_thread(engine.stop)

    work = shop.app.job(retry=fixed(1, wait=0.1))(stop if colour == "plain" else stop_async)
    engine = shop.serve()
    job = work.enqueue()
    shop.drained(engine)
    assert "called stop() of the engine that runs it" in (shop.job(job).error or {})["message"]
    assert engine.state == "running"


@pytest.mark.parametrize("grace", ["x", -1, float("nan"), float("inf"), True])
def test_a_grace_that_is_none_is_refused_before_anything_stops(shop: Shop, grace: Any) -> None:
    engine = shop.serve()
    with pytest.raises(ConfigError, match="grace"):
        engine.stop(grace)
    assert engine.state == "running"
    engine.stop(0)
    with pytest.raises(WindlassError, match="stopped"):
        engine.start()


def test_a_step_that_fails_for_an_unknown_reason_is_not_tried_at_full_speed(shop: Shop, caplog: Any) -> None:
    @shop.app.job
    def work() -> None: ...

    engine = shop.serve()
    calls: list[float] = []

    def step(outcomes: Any = (), *wants: Any) -> Any:
        calls.append(time.monotonic())
        raise OverflowError("nobody expected this")

    caplog.set_level(logging.CRITICAL)
    engine.holder.step = step  # type: ignore[method-assign]
    work.enqueue()
    shop.until(lambda: calls)
    time.sleep(1.0)
    del engine.holder.step
    shop.drained(engine)
    assert len(calls) < 50, "with pauses that grow"


@pytest.mark.slow
def test_a_stopped_engine_has_no_thread_that_tries_for_ever(shop: Shop, caplog: Any) -> None:
    @shop.app.job
    def work() -> None: ...

    def step(outcomes: Any = (), *wants: Any) -> Any:
        if outcomes:
            raise OverflowError("nobody expected this")
        return real(outcomes, *wants)

    engine = shop.serve()
    real = engine.holder.step
    caplog.set_level(logging.CRITICAL)
    engine.holder.step = step  # type: ignore[method-assign]
    work.enqueue()
    shop.until(lambda: not engine.is_idle)
    engine.stop(0)
    shop.until(lambda: not [one for one in threading.enumerate() if one.name == "windlass-step"])


def test_an_end_that_cannot_be_written_for_an_unknown_reason_is_written_later(
    shop: Shop, caplog: Any
) -> None:
    """It was given up, while the heartbeat kept its claim: the job stayed `processing` as long as its instance lived."""

    @shop.app.job
    def work() -> int:
        return 7

    engine = shop.serve()
    real = engine.holder.step
    refused: list[int] = []

    def step(outcomes: Any = (), *wants: Any) -> Any:
        if outcomes and len(refused) < 6:
            refused.append(len(outcomes))
            raise OverflowError("nobody expected this")
        return real(outcomes, *wants)

    caplog.set_level(logging.CRITICAL)
    engine.holder.step = step  # type: ignore[method-assign]
    job = work.enqueue()
    shop.drained(engine)
    assert len(refused) == 6 and (shop.job(job).result, shop.job(job).attempt) == (7, 1)


@pytest.mark.slow
def test_a_stop_waits_for_no_database_that_hangs(fresh_sqlite: Callable[[], str]) -> None:
    """A stop waits for no write: the other session holds the file's lock until the stop has returned, and the store would wait longer for
    it than this test may take."""
    over = threading.Event()
    with closing(Shop(url := fresh_sqlite(), busy_timeout=2 * PATIENCE)) as shop:

        @shop.app.job(processors=3, timeout=None)
        def hang() -> None:
            over.wait(PATIENCE)

        engine = shop.serve(lease=30.0, heartbeat=0.2)
        jobs = [hang.enqueue() for _ in range(6)]
        shop.until(lambda: shop.job(jobs[0]).state is State.PROCESSING)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(0.5)  # until the heartbeat and the step wait for it
            engine.stop(0)
            assert engine.state == "stopped"
            other.execute("ROLLBACK")
        over.set()
