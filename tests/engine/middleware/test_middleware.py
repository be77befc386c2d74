"""Middleware around attempts: its order, what it is shown, and what is refused."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from tests.engine.middleware.seen import Seen
from tests.engine.shop import Shop
from windlass import App, Context, CurrentAttempt
from windlass.engine.one_job import OneJobRunner
from windlass.errors import ConfigError, WindlassError
from windlass.model import NewJob, State
from windlass.model.retry import fixed
from windlass.testing import Sandbox
from windlass.testing.faults import Killed

tenant = contextvars.ContextVar("tenant", default="nobody")


@pytest.mark.timing
@pytest.mark.parametrize("where", ["loop", "thread", "request", "request async", "sandbox", "sandbox async"])
@pytest.mark.one_database
def test_the_first_is_outermost_and_its_context_is_the_handlers(shop: Shop, where: str) -> None:
    app, seen = shop.app, Seen()

    @app.middleware
    @contextmanager
    def outer(attempt: CurrentAttempt) -> Iterator[None]:
        tenant.set(f"{attempt.kind} {attempt.attempt}/{attempt.max_attempts} {attempt.correlation_id}")
        seen.append("outer in")
        yield
        seen.append(("outer", attempt.outcome, attempt.is_final, attempt.generation))

    seen.watch(app, "inner")

    @app.job(name="work")
    def work() -> str:
        seen.append("handler")
        return tenant.get()

    @app.job(name="work_async")
    async def work_async() -> str:
        await asyncio.sleep(0)
        seen.append("handler")
        return tenant.get()

    kind = work_async if where == "loop" or where.endswith("async") else work
    if where.startswith("sandbox"):
        with Sandbox(app) as box:
            job = box.run_one(box.store.enqueue([NewJob(kind=kind.name, correlation_id="c-7")])[0])
    elif where.startswith("request"):
        with OneJobRunner(shop.store, app.parts.registry, settings=app.settings) as requests:
            job = requests.process(kind.options(correlation_id="c-7").enqueue().id).job
    else:
        engine = shop.serve()
        made = kind.options(correlation_id="c-7").enqueue()
        shop.drained(engine)
        job = shop.job(made)
    assert (job.state, job.result) == (State.COMPLETED, f"{kind.name} 1/3 c-7")
    assert seen == [
        "outer in", "inner in", "handler", ("inner", "completed", None), ("outer", "completed", True, 1),
    ]  # fmt: skip
    assert tenant.get() == "nobody"


def test_async_middleware_surrounds_async_handlers(app: App) -> None:
    seen: list[Any] = []

    @app.middleware
    @asynccontextmanager
    async def waiting(attempt: CurrentAttempt) -> AsyncIterator[None]:
        tenant.set("async")
        await asyncio.sleep(0)
        try:
            yield
        except ValueError:
            seen.append("thrown in")
            raise
        finally:
            await asyncio.sleep(0)
            seen.append((attempt.outcome, await attempt.principal_async()))

    @app.middleware  # without a decorator of its own, too
    async def bare(attempt: CurrentAttempt) -> AsyncIterator[None]:
        yield
        seen.append("bare")

    @app.job(retry=fixed(1))
    async def work(is_good: bool) -> str:
        if not is_good:
            raise ValueError("bad")
        return tenant.get()

    with Sandbox(app) as box:
        assert box.run_one(box.app.enqueue("work", is_good=True)).result == "async"
        assert box.run_one(box.app.enqueue("work", is_good=False)).state is State.FAILED
    assert seen == ["bare", ("completed", None), "thrown in", ("failed", None)]


def test_async_middleware_around_a_plain_handler_is_refused(app: App) -> None:
    @app.middleware
    @asynccontextmanager
    async def waiting(attempt: CurrentAttempt) -> AsyncIterator[None]:
        yield

    @app.job(retry=fixed(3))
    def work() -> None:
        raise AssertionError("not called")

    with pytest.raises(ConfigError, match=r"work, middleware .*waiting: it is async.*@contextmanager"):
        app.worker()
    with Sandbox(app) as box:
        job = box.run_one(box.app.enqueue("work"))
    assert job.state is State.FAILED and job.error is not None and "it is async" in job.error["message"]


@pytest.mark.parametrize("bad", [None, 7, asyncio.sleep], ids=["None", "7", "coroutine"])
def test_what_is_no_middleware_is_refused(app: App, bad: Any) -> None:
    with pytest.raises(ConfigError, match="middleware"):
        app.middleware(bad)


@pytest.mark.one_database
def test_middleware_that_comes_after_an_engine_is_not_left_out_silently(shop: Shop) -> None:
    engine = shop.app.worker()
    Seen().watch(shop.app)
    with pytest.raises(WindlassError, match=r"call app\.middleware before"):
        engine.start()


def test_a_class_of_context_managers_is_a_middleware(app: App) -> None:
    ended: list[Any] = []

    class Timed:
        def __init__(self, attempt: CurrentAttempt) -> None:
            self.attempt = attempt

        def __enter__(self) -> None: ...

        def __exit__(self, *how: Any) -> bool:
            ended.append((self.attempt.outcome, how[0]))
            return True  # hides nothing

    assert app.middleware(Timed) is Timed

    @app.job(retry=fixed(1))
    def work() -> None:
        raise ValueError("bad")

    with Sandbox(app) as box:
        assert box.run_one(box.app.enqueue("work")).state is State.FAILED
    assert ended == [("failed", ValueError)]


@pytest.mark.timing
@pytest.mark.one_database
def test_an_attempt_that_was_given_up_is_lost(shop: Shop) -> None:
    """Its outcome was recorded without it: the middleware must not be told that it completed."""
    seen, may_end = Seen(), threading.Event()
    seen.watch(shop.app)

    @shop.app.job(timeout=0.2, retry=fixed(1))
    def stuck() -> None:
        may_end.wait()

    job = stuck.enqueue()
    shop.serve()
    shop.until(lambda: shop.job(job).state is State.FAILED)
    may_end.set()
    shop.until(lambda: len(seen) == 2)
    assert seen[-1] == ("m", "lost", None)


def test_a_killed_process_has_no_after(app: App, box: Sandbox, seen: Seen) -> None:
    @app.job
    def work(ctx: Context) -> None:
        if not ctx.is_recovered:
            raise Killed

    job = box.app.enqueue("work")
    box.drain()
    assert box.store.jobs.get(job.id).state is State.COMPLETED
    assert [item[1] for item in seen if isinstance(item, tuple) and item[1]] == ["completed"]


def test_arguments_are_shown_only_when_they_are_asked_for(app: App, box: Sandbox) -> None:
    shown: list[Any] = []

    @app.middleware
    @contextmanager
    def looking(attempt: CurrentAttempt) -> Iterator[None]:
        shown.extend([repr(attempt), attempt.read_args(), attempt.headers, attempt.principal])
        yield
        shown.append(repr(attempt))

    @app.job
    def work(password: str) -> None: ...

    job = box.app.enqueue("work", password="hunter2")
    box.run_one(job)
    assert shown == [
        f"<attempt 1 of work job {job.id}: running>", {"password": "hunter2"}, {}, None,
        f"<attempt 1 of work job {job.id}: completed>",
    ]  # fmt: skip


def test_a_middleware_that_is_no_context_manager_is_named(shop: Shop) -> None:
    @shop.app.middleware
    def forgetful(attempt: CurrentAttempt) -> None: ...

    @shop.app.job(retry=fixed(1))
    def work() -> None: ...

    job = work.enqueue()
    shop.drained(shop.serve())
    message = str((shop.job(job).error or {})["message"])
    assert "forgetful" in message and "it returned NoneType and no context manager" in message
