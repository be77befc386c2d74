"""run_with_backoff: one call of a handler is repeated, and stops with its job."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, assert_type

import pytest

from tests.engine.leases import lease
from tests.engine.shop import Shop
from tests.waiting import eventually
from windlass import Cancel, Context, Fail, LeaseLost, Retry, Stopped
from windlass.engine.one_job import OneJobRunner, Status
from windlass.engine.running_attempt import Processor, RunningAttempt, Stop
from windlass.errors import ConfigError
from windlass.handlers.attempt_context import AttemptContext
from windlass.handlers.registry import Registry
from windlass.model import State
from windlass.observe.current_job import current_job
from windlass.retry import RetryPolicy, custom, fixed, run_with_backoff, run_with_backoff_async
from windlass.testing import Sandbox

pytestmark = pytest.mark.timing

SOON = fixed(3, wait=0.01)
LATE = fixed(3, wait=3600)


class Shaky:
    """Raises the given exceptions, one a call, and returns how often it was called after the last."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls

    async def call_async(self) -> int:
        return self()


def repeat(colour: str, call: Shaky, policy: RetryPolicy = SOON, **options: Any) -> int:
    if colour == "plain":
        return run_with_backoff(call, policy=policy, **options)
    return asyncio.run(run_with_backoff_async(call.call_async, policy=policy, **options))


both = pytest.mark.parametrize("colour", ["plain", "async"])


async def typed() -> None:
    """Read by the type checker."""
    assert_type(run_with_backoff(lambda: "text"), str)
    assert_type(run_with_backoff(Shaky()), int)
    assert_type(await run_with_backoff_async(Shaky().call_async), int)


@both
def test_a_call_is_repeated_until_it_returns(colour: str) -> None:
    assert repeat(colour, Shaky(ConnectionError("a"), ConnectionError("b"))) == 3


@both
def test_the_last_exception_says_how_often_it_was_tried(colour: str) -> None:
    call = Shaky(*(ConnectionError(text) for text in "abcd"))
    with pytest.raises(ConnectionError, match="c") as raised:
        repeat(colour, call)
    assert call.calls == 3
    assert raised.value.__notes__ == ["run_with_backoff gave up after 3 tries: its policy allows 3"]


@both
@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (fixed(3, give_up_on=ValueError), "not retried: ValueError is in give_up_on"),
        (custom(3, lambda *_: None), "not retried: its retry policy returned None"),
    ],
)
def test_a_policy_that_stops_is_obeyed(colour: str, policy: RetryPolicy, why: str) -> None:
    call = Shaky(ValueError("x"))
    with pytest.raises(ValueError, match="x") as raised:
        repeat(colour, call, policy)
    assert call.calls == 1 and raised.value.__notes__ == [f"run_with_backoff gave up after 1 try: {why}"]


@both
@pytest.mark.parametrize("signal", [Fail("bad"), Cancel(), Stopped(), LeaseLost("x"), KeyboardInterrupt()])
def test_other_signals_pass_through(colour: str, signal: BaseException) -> None:
    call = Shaky(signal)
    with pytest.raises(type(signal)) as raised:
        repeat(colour, call)
    assert call.calls == 1 and not hasattr(raised.value, "__notes__")


@both
def test_retry_sets_the_wait_and_may_be_free(colour: str) -> None:
    """With the policy's own waits of an hour this test would not end."""
    assert repeat(colour, Shaky(Retry(after=0.01), Retry(after=0)), LATE) == 3
    free = Shaky(*(Retry(after=0.01, counted=False) for _ in range(5)))
    assert repeat(colour, free, fixed(2, wait=3600)) == 6


@both
def test_a_wait_that_is_too_long_is_left_to_the_job(colour: str) -> None:
    with pytest.raises(Retry, match="busy") as raised:
        repeat(colour, Shaky(Retry("busy", after=120)), longest_wait=60)
    assert "a wait of 120 s exceeds longest_wait (60 s)" in raised.value.__notes__[0]
    with pytest.raises(ConnectionError):
        repeat(colour, Shaky(ConnectionError()), LATE, longest_wait=60)


def test_wrong_arguments_are_refused() -> None:
    async def coroutine() -> None: ...

    wrong: tuple[Any, ...] = (coroutine, 7)
    for call in wrong:
        with pytest.raises(ConfigError, match=r"^call = "):
            run_with_backoff(call)
    options: dict[str, Any]
    for options in ({"policy": 3}, {"longest_wait": -1}, {"longest_wait": "1"}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            run_with_backoff(lambda: None, **options)


class Dozing(AttemptContext):
    """Notes its pauses instead of sleeping."""

    pauses: list[float]

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.pauses.append(seconds)


@both
@pytest.mark.parametrize(("timeout", "pauses"), [(300, [100] * 9 + [20]), (3000, [920]), (None, [920])])
def test_a_wait_shows_signs_of_life(colour: str, timeout: float | None, pauses: list[float]) -> None:
    """Three within each time limit, and one before the next try: a wait is no silence."""
    registry, no_store, touches = Registry(), None, []
    phase = registry.define("work", lambda: None, timeout=timeout)
    context = Dozing(lease("work"), phase, no_store, touch=lambda: touches.append(len(context.pauses)))  # type: ignore[arg-type]
    context.pauses = []
    assert repeat(colour, Shaky(ConnectionError()), fixed(2, wait=920), ctx=context) == 2
    assert context.pauses == pauses
    assert touches == list(range(len(pauses) + 1))


def test_threads_of_one_handler_share_the_context_that_is_made_for_it() -> None:
    phase = Registry().define("work", lambda: None)
    running = RunningAttempt(lease("work"), phase, Processor("work", 1), 0.0, 0.0, False)
    assert running.ensure_context() is running.ensure_context() is running.context
    stopped = RunningAttempt(lease("work"), phase, Processor("work", 1), 0.0, 0.0, False)
    stopped.stop = Stop.CANCELLED
    assert stopped.ensure_context().should_stop


# ---------------------------------------------------------------------- in a handler


def in_vain(shop: Shop, colour: str, begun: threading.Event, ends: list[BaseException]) -> Any:
    """A job without a context whose call never works, and waits an hour after each failure."""

    def call() -> None:
        begun.set()
        raise ConnectionError("no")

    async def call_async() -> None:
        call()

    if colour == "plain":

        @shop.app.job(name="work", retry=fixed(1))
        def work() -> None:
            try:
                run_with_backoff(call, policy=LATE)
            except BaseException as error:
                ends.append(error)
                raise

        return work

    @shop.app.job(name="work", retry=fixed(1))
    async def work_async() -> None:
        try:
            await run_with_backoff_async(call_async, policy=LATE)
        except BaseException as error:
            ends.append(error)
            raise

    return work_async


@both
def test_a_cancel_ends_the_wait(shop: Shop, colour: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "windlass")
    begun, ends = threading.Event(), []  # type: ignore[var-annotated]
    job = in_vain(shop, colour, begun, ends).enqueue()
    shop.serve(cancel_grace=3600, heartbeat=0.2)
    eventually(begun.is_set)
    shop.store.jobs.cancel(job.id)
    shop.until(lambda: shop.job(job).state.is_final)
    assert shop.job(job).state is State.CANCELLED
    assert isinstance(ends[0], (Stopped, asyncio.CancelledError))
    (line,) = [line.__dict__ for line in caplog.records if getattr(line, "event", "") == "call.retried"]
    assert (line["job_id"], line["kind"], line["levelname"]) == (job.id, "work", "INFO")
    assert line["delay_seconds"] == 3600 and "ConnectionError: no; try 1 of 3" in line["message"]


@both
@pytest.mark.usefixtures("patient_stop")
def test_a_shutdown_ends_the_wait_and_gives_the_job_back(shop: Shop, colour: str) -> None:
    begun, ends = threading.Event(), []  # type: ignore[var-annotated]
    made = in_vain(shop, colour, begun, ends).options(max_attempts=3).enqueue()
    engine = shop.serve(cancel_grace=3600)
    eventually(begun.is_set)
    engine.stop(grace=0.05)
    assert eventually(lambda: ends) and isinstance(ends[0], (Stopped, asyncio.CancelledError))
    assert shop.job(made).state is State.QUEUED


@pytest.mark.parametrize("colour", ["plain", "async", "chunks"])
def test_a_time_limit_under_process_request_ends_the_wait(shop: Shop, colour: str) -> None:
    """The thread that ran the handler is free again. Its silence is the call's: the call itself takes longer than the limit."""
    ends: list[BaseException] = []
    is_late = threading.Event()

    def call() -> None:
        is_late.wait(60)
        raise ConnectionError("too late")

    async def call_async() -> None:
        await asyncio.to_thread(call)

    @shop.app.job(name="plain", retry=fixed(1), timeout=0.05)
    def work() -> None:
        try:
            run_with_backoff(call, policy=LATE)
        except Stopped as error:
            ends.append(error)
            raise

    @shop.app.job(name="async", retry=fixed(1), timeout=0.05)
    async def work_async() -> None:
        try:
            await run_with_backoff_async(call_async, policy=LATE)
        except Stopped as error:
            ends.append(error)
            raise

    @shop.app.job(name="chunks", retry=fixed(1), chunk_retry=LATE, timeout=0.05)
    async def work_in_chunks(ctx: Context) -> None:
        try:
            async for chunk in ctx.chunks(total=1):
                async with chunk:
                    await call_async()
        except Stopped as error:
            ends.append(error)
            raise

    job = shop.app.enqueue(colour)
    with OneJobRunner(shop.store, shop.app.parts.registry, settings=shop.app.settings) as requests:
        done = requests.process(job.id)
        assert done.status is Status.FAILED and (done.job.error or {})["code"] == "time_limit"
        is_late.set()
        eventually(lambda: ends)


def test_a_sleeping_coroutine_wakes_when_its_job_should_stop() -> None:
    """Also where nothing cancels the coroutine."""
    phase, no_store = Registry().define("work", lambda: None), None
    context = AttemptContext(lease("work"), phase, no_store)  # type: ignore[arg-type]

    async def sleep() -> None:
        threading.Timer(0.05, context.ask_to_stop).start()
        with pytest.raises(Stopped):
            await context.sleep_async(3600)
        with pytest.raises(Stopped):
            await context.sleep_async(0)

    asyncio.run(sleep())


def test_the_sync_form_is_refused_in_a_coroutine(shop: Shop) -> None:
    @shop.app.job(retry=fixed(1))
    async def work() -> None:
        run_with_backoff(lambda: None)

    job = work.enqueue()
    shop.drained(shop.serve())
    assert "run_with_backoff_async" in (shop.job(job).error or {})["message"]


def test_a_sandbox_runs_it_as_a_worker_does() -> None:
    from windlass import App

    app = App()
    seen: list[Any] = []

    @app.job
    def other() -> None: ...

    @app.job
    def work() -> int:
        seen.append(current_job.get())
        other.enqueue()
        return run_with_backoff(Shaky(ConnectionError()), policy=SOON)

    with Sandbox(app) as box:
        job = box.app.enqueue("work")
        box.drain()
        assert box.store.jobs.get(job.id).result == 2
        assert box.only("other").correlation_id == job.id
    assert seen[0].lease.id == job.id and current_job.get() is None


def test_outside_of_jobs_it_only_sleeps() -> None:
    began = time.monotonic()
    assert run_with_backoff(Shaky(ConnectionError()), policy=fixed(2, wait=0.05)) == 2
    assert time.monotonic() - began >= 0.05
