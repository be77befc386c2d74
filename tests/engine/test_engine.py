"""The engine on real databases: jobs of every colour, and what comes of them."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.engine.drain import Drain
from windlass.engine.running_attempt import RunningAttempt
from windlass.engine.workload import Workload
from windlass.errors import ConfigError
from windlass.handlers.context import Context
from windlass.model import NewJob, State
from windlass.model.retry import fixed
from windlass.model.signals import Cancel, Fail, Retry

pytestmark = pytest.mark.timing


def test_async_and_plain_handlers_run_and_their_results_are_kept(shop: Shop) -> None:

    @shop.app.job
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return n * 2

    @shop.app.job
    def shout(text: str) -> str:
        return text.upper()

    jobs = [double.enqueue(n=n) for n in range(20)] + [shout.enqueue(text=f"t{n}") for n in range(20)]
    engine = shop.serve()
    shop.drained(engine)
    assert [shop.job(job).result for job in jobs] == [n * 2 for n in range(20)] + [f"T{n}" for n in range(20)]
    assert shop.store.phases.counts()["double"].completed == 20


def test_a_job_that_comes_while_the_engine_sleeps_is_found_without_a_scan(shop: Shop) -> None:
    """Woken by a notification; the scan is ten minutes away."""
    seen = threading.Event()

    @shop.app.job
    async def ring() -> None:
        seen.set()

    engine = shop.serve(scan=600.0)
    shop.until(lambda: engine.report().listening)
    time.sleep(0.3)
    ring.enqueue()
    assert seen.wait(PATIENCE)


def test_a_job_that_is_due_later_runs_then(shop: Shop) -> None:
    """Woken by time."""
    ran_at: list[float] = []

    @shop.app.job
    def later() -> None:
        ran_at.append(time.time())

    engine = shop.serve(recovery=60.0)
    shop.until(lambda: engine.report().listening)
    due = time.time() + 0.7
    later.options(delay=0.7).enqueue()
    shop.until(lambda: ran_at)
    assert 0 <= ran_at[0] - due < 50
    shop.until(
        lambda: engine.stats.report().count("promoted") == 1
    )  # another thread may run it before it is counted


def test_a_drain_waits_for_what_is_due_within_its_horizon(shop: Shop) -> None:
    """A job whose retry is due in a second is not done; one that is due tomorrow holds nobody up."""

    @shop.app.job
    def later() -> None: ...

    engine = shop.serve()
    later.options(delay=30).enqueue()
    assert engine.is_idle and not Drain(engine, shop.store).is_over()
    assert Drain(engine, shop.store, horizon=5.0).is_over()


def test_a_failed_attempt_is_tried_again_after_its_delay_and_every_error_is_kept(shop: Shop) -> None:
    tries: list[int] = []

    @shop.app.job(retry=fixed(3, wait=0.05))
    async def shaky(ctx: Context) -> str:
        tries.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ConnectionError(f"no line, try {ctx.attempt}")
        return "through"

    job = shaky.options(correlation_id="order-7").enqueue()
    shop.drained(shop.serve())
    done = shop.job(job)
    assert tries == [1, 2, 3] and done.state is State.COMPLETED and done.result == "through"
    attempts = shop.store.jobs.attempts(job.id)
    assert [item.outcome for item in attempts] == ["retried", "retried"]
    error = attempts[0].error
    assert error is not None
    assert (error["type"], error["phase"], error["attempt"]) == ("ConnectionError", "shaky", 1)
    assert error["correlation_id"] == "order-7" and "no line, try 1" in error["message"]
    assert "shaky" in (attempts[0].traceback or "") and "traceback" not in error


def test_out_of_attempts_a_job_fails_with_its_last_error(shop: Shop) -> None:
    @shop.app.job(retry=fixed(2, wait=0.02))
    def hopeless() -> None:
        raise ValueError("never")

    job = hopeless.enqueue()
    shop.drained(shop.serve())
    done = shop.job(job)
    assert done.state is State.FAILED and done.attempt == 2 and done.error is not None
    assert done.error["message"] == "ValueError: never" and done.traceback is not None


@pytest.mark.parametrize("colour", ["async", "plain"])
def test_what_a_handler_raises_to_steer(shop: Shop, colour: str) -> None:
    signals: dict[str, Any] = {
        "fail": Fail("bad_county", "no such county"),
        "cancel": Cancel("not wanted"),
        "retry": Retry("busy", after=0.02, counted=False),
    }
    rounds: list[str] = []

    def act(what: str) -> str:
        rounds.append(what)
        if rounds.count(what) == 1:
            raise signals[what]
        return "again"

    if colour == "async":

        @shop.app.job(name="steer")
        async def steer(what: str) -> str:
            return act(what)

    else:

        @shop.app.job(name="steer")
        def steer(what: str) -> str:
            return act(what)

    jobs = {what: steer.enqueue(what=what) for what in signals}
    shop.drained(shop.serve())
    failed, cancelled, retried = (shop.job(jobs[what]) for what in signals)
    assert failed.state is State.FAILED and failed.error is not None and failed.error["code"] == "bad_county"
    assert cancelled.state is State.CANCELLED and cancelled.error is not None
    assert cancelled.error["message"] == "not wanted"
    assert retried.state is State.COMPLETED and retried.attempt == 1, (
        "a retry that does not count gives it back"
    )


def test_a_retry_at_a_given_time_that_is_not_counted_spends_no_attempt(shop: Shop) -> None:
    """A job with one attempt may wait for somebody else as often as it has to."""
    attempts: list[int] = []

    @shop.app.job(retry=fixed(1))
    async def wait_for_them(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise Retry("not yet", after=0.02, counted=False)
        return "there"

    job = wait_for_them.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).result == "there" and attempts == [1, 1, 1]


def test_bad_rows_end_with_a_code_and_those_behind_them_are_served(shop: Shop) -> None:
    """I-16, I-17."""

    @shop.app.job
    async def strict(n: int) -> int:
        return n

    @shop.app.job
    def odd() -> Any:
        return object()

    bad = shop.store.enqueue(
        [
            NewJob(kind="vanished", phase="strict", args={"n": 1}),
            NewJob(kind="strict", args={"m": 1}),
            NewJob(kind="strict", args={"n": "many"}),
            NewJob(kind="odd"),
        ]
    )
    good = strict.enqueue(n=5)
    shop.drained(shop.serve())
    codes = [(shop.job(item).error or {}).get("code") for item in bad]
    assert codes == ["unknown_kind", "bad_arguments", "bad_arguments", "bad_result"]
    assert all(shop.job(item).state is State.FAILED for item in bad)
    assert shop.job(good).result == 5


def test_a_pipeline_goes_through_its_phases_with_their_outputs(shop: Shop) -> None:
    pipe = shop.app.pipeline("site")

    @pipe.phase("fetch", processors=2)
    async def fetch(url: str) -> dict[str, int]:
        return {"length": len(url)}

    @pipe.phase("judge")
    def judge(url: str, ctx: Context) -> str:
        info = ctx.output("fetch", dict[str, int])
        return f"{url}: {info['length']}"

    jobs = [pipe.enqueue(url="x" * n) for n in range(1, 11)]
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == [f"{'x' * n}: {n}" for n in range(1, 11)]
    spans = shop.store.jobs.timeline(jobs[0].id)
    assert [(span.phase, span.outcome) for span in spans] == [
        ("site:fetch", "advanced"),
        ("site:judge", "completed"),
    ]
    assert spans[0].processor is not None and spans[0].processor.startswith("site:fetch-processor-")


def test_a_handler_that_exits_does_not_take_the_engine_with_it(shop: Shop) -> None:
    @shop.app.job(retry=fixed(1))
    async def leave() -> None:
        raise SystemExit(3)

    @shop.app.job(retry=fixed(1))
    def leave_too() -> None:
        raise KeyboardInterrupt

    @shop.app.job
    async def stay() -> str:
        return "here"

    gone, gone_too = leave.enqueue(), leave_too.enqueue()
    engine = shop.serve()
    shop.drained(engine)
    stays = stay.enqueue()
    shop.drained(engine)
    assert shop.job(stays).result == "here"
    assert [(shop.job(job).error or {})["type"] for job in (gone, gone_too)] == [
        "SystemExit",
        "KeyboardInterrupt",
    ]


def test_never_more_at_once_than_pool_and_instance_allow(shop: Shop) -> None:
    lock, now, most = threading.Lock(), {"a": 0, "b": 0}, {"a": 0, "b": 0, "all": 0}
    full = threading.Event()

    def work(phase: str) -> None:
        with lock:
            now[phase] += 1
            most[phase] = max(most[phase], now[phase])
            most["all"] = max(most["all"], sum(now.values()))
            if most["all"] == 5:
                full.set()
        full.wait(PATIENCE)
        time.sleep(0.01)
        with lock:
            now[phase] -= 1

    @shop.app.job(processors=4)
    def a() -> None:
        work("a")

    @shop.app.job(processors=4)
    def b() -> None:
        work("b")

    for _ in range(30):
        a.enqueue()
        b.enqueue()
    shop.drained(shop.serve(max_concurrent_calls=5))
    assert most["a"] <= 4 and most["b"] <= 4 and most["all"] == 5


def test_what_waits_is_given_to_idle_processors_by_the_clock_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer under completions. The one moment at which this job would have been assigned is missed here."""

    @shop.app.job
    def late() -> int:
        return 1

    assign, calls = Workload.assign, [0]

    def missed(workload: Workload) -> list[RunningAttempt]:
        calls[0] += 1
        return assign(workload) if calls[0] > 1 else []

    monkeypatch.setattr(Workload, "assign", missed)
    job = late.enqueue()
    shop.serve(cycle=0.1, scan=600.0)
    shop.until(lambda: shop.job(job).state is State.COMPLETED)


def test_a_job_that_was_touched_just_now_is_left_alone_for_the_quiet_time(shop: Shop) -> None:
    """The setting quiet. By the database's clock on both sides."""

    @shop.app.job
    async def fresh() -> None: ...

    engine = shop.serve(quiet=0.5, scan=0.05, scan_unheard=0.05)
    job = fresh.enqueue()
    shop.drained(engine)
    (span,) = shop.store.jobs.timeline(job.id)
    assert timedelta(seconds=0.5) <= span.claimed_at - shop.job(job).created_at


def test_only_the_phases_asked_for_are_served(shop: Shop) -> None:
    @shop.app.job
    async def wanted() -> None: ...

    @shop.app.job
    async def unwanted() -> None: ...

    jobs = [wanted.enqueue(), unwanted.enqueue()]
    engine = shop.serve(phases=("wanted",))
    shop.drained(engine)
    assert [shop.job(job).state for job in jobs] == [State.COMPLETED, State.QUEUED]
    with pytest.raises(ConfigError, match=r"wanted, unwanted|unwanted, wanted"):
        shop.app.worker(phases=("nothing",))


def test_priorities_are_served_high_to_low(shop: Shop) -> None:
    order: list[int] = []

    @shop.app.job(processors=1)
    def note(n: int) -> None:
        order.append(n)

    for n in (1, 5, 9, 0, 7):
        note.options(priority=n).enqueue(n=n)
    shop.drained(shop.serve())
    assert order == [9, 7, 5, 1, 0]
