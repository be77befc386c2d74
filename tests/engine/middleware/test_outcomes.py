"""What middleware sees of the end of an attempt, and what it can and cannot change about it."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest

from tests.engine.middleware.seen import Seen
from tests.engine.shop import Shop
from windlass import App, Context, CurrentAttempt
from windlass.model import CancelResult, NewJob, State
from windlass.model.retry import fixed
from windlass.model.signals import Cancel, Fail, Retry
from windlass.testing import Sandbox


def _raise(error: BaseException) -> Callable[[], None]:
    def handler() -> None:
        raise error

    return handler


@pytest.mark.parametrize(
    ("error", "attempts", "told"),
    [
        (ValueError("x"), 2, ["m in", "m ValueError", ("m", "retried", "exception")]),
        (ValueError("x"), 1, ["m in", "m ValueError", ("m", "failed", "exception")]),
        (Fail("bad_order", "x"), 2, ["m in", "m Fail", ("m", "failed", "bad_order")]),
        (Retry("x", after=5), 2, ["m in", "m Retry", ("m", "retried", "retry")]),
        (Cancel("x"), 2, ["m in", "m Cancel", ("m", "cancelled", None)]),
    ],
    ids=repr,
)
def test_the_outcome_is_seen_and_the_error_is_raised_inside(
    app: App, box: Sandbox, seen: Seen, error: Any, attempts: int, told: Any
) -> None:
    app.job(name="work", retry=fixed(attempts))(_raise(error))
    box.run_one(box.app.enqueue("work"))
    assert seen == told


def test_a_middleware_cannot_hide_an_error(app: App, box: Sandbox) -> None:
    @app.middleware
    @contextmanager
    def hiding(attempt: CurrentAttempt) -> Iterator[None]:
        with suppress(ValueError):
            yield

    app.job(name="work", retry=fixed(1))(_raise(ValueError("seen")))
    job = box.run_one(box.app.enqueue("work"))
    assert job.state is State.FAILED and job.error is not None and job.error["message"] == "ValueError: seen"


def test_what_is_wrong_with_arguments_and_results_is_seen(app: App, box: Sandbox, seen: Seen) -> None:
    @app.job(name="typed")
    def typed(number: int) -> int:
        return "no number"  # type: ignore[return-value]

    (job,) = box.store.enqueue([NewJob(kind="typed", args={"number": "many"})])
    assert box.run_one(job.id).state is State.FAILED
    assert box.run_one(box.app.enqueue("typed", number=1)).state is State.FAILED
    raised = ["m in", "m HandlerError"]
    assert seen == [*raised, ("m", "failed", "bad_arguments"), *raised, ("m", "failed", "bad_result")]


@pytest.mark.parametrize(
    ("error", "state", "told"),
    [
        (ValueError("before"), State.SCHEDULED, ("m", "retried", "exception")),
        (Fail("closed", "x"), State.FAILED, ("m", "failed", "closed")),
        (Cancel("not today"), State.CANCELLED, ("m", "cancelled", None)),
    ],
    ids=repr,
)
def test_an_error_before_the_handler_is_the_attempts(
    app: App, box: Sandbox, seen: Seen, error: Any, state: State, told: Any
) -> None:
    @app.middleware
    @contextmanager
    def refusing(attempt: CurrentAttempt) -> Iterator[None]:
        if attempt.kind == "work":
            raise error
        yield

    app.job(name="work")(_raise(AssertionError("not called")))
    assert box.run_one(box.app.enqueue("work")).state is state
    assert seen[-1] == told


def _spoiling(app: App) -> None:
    @app.middleware
    @contextmanager
    def spoiling(attempt: CurrentAttempt) -> Iterator[None]:
        try:
            yield
        finally:
            raise RuntimeError(f"after it was {attempt.outcome}")


def test_an_error_after_the_handler_fails_a_success_that_is_not_recorded(
    app: App, box: Sandbox, seen: Seen
) -> None:
    """A middleware that commits for its handlers must not lose their effects."""
    _spoiling(app)
    app.job(name="work", retry=fixed(1))(lambda: None)
    job = box.run_one(box.app.enqueue("work"))
    assert job.state is State.FAILED and job.error is not None
    assert job.error["message"] == "RuntimeError: after it was completed"
    assert seen == ["m in", "m RuntimeError", ("m", "failed", "exception")]


def test_an_error_after_a_failure_is_logged_and_the_first_stays(
    app: App, box: Sandbox, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    _spoiling(app)
    app.job(name="work", retry=fixed(1))(_raise(ValueError("first")))
    job = box.run_one(box.app.enqueue("work"))
    assert job.error is not None and job.error["message"] == "ValueError: first"
    assert seen == ["m in", "m ValueError", ("m", "failed", "exception")]
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "middleware.failed"]
    assert "spoiling raised after the attempt was failed" in line.message and line.levelno == logging.WARNING
    assert getattr(line, "job_id", "") == job.id


@pytest.mark.parametrize("after", ["nothing", "handler", "middleware"])
def test_an_end_in_the_handlers_transaction_is_what_was_recorded(
    app: App, box: Sandbox, seen: Seen, after: str, caplog: pytest.LogCaptureFixture
) -> None:
    if after == "middleware":
        _spoiling(app)
    pipe = app.pipeline("pipe")

    @pipe.phase("a")
    def first(ctx: Context) -> None:
        with ctx.transaction():
            pass
        if after == "handler":
            raise ValueError("too late")

    @pipe.phase("b")
    def second(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.complete()

    job = box.app.enqueue("pipe")
    assert box.drain() == 2 and box.store.jobs.get(job.id).state is State.COMPLETED
    assert [item for item in seen if isinstance(item, tuple)] == [
        ("m", "advanced", None),
        ("m", "completed", None),
    ]
    assert ("m ValueError" in seen) == (after == "handler")
    told = [record for record in caplog.records if getattr(record, "event", "") == "middleware.failed"]
    assert len(told) == (2 if after == "middleware" else 0)


def test_a_cancel_that_came_before_the_commit_is_seen(app: App, box: Sandbox, seen: Seen) -> None:
    pipe = app.pipeline("pipe")

    @pipe.phase("a")
    def first(ctx: Context) -> None:
        assert box.store.jobs.cancel(ctx.job_id) is CancelResult.REQUESTED
        with ctx.transaction():
            pass

    pipe.phase("b")(_raise(AssertionError("not reached")))
    job = box.app.enqueue("pipe")
    assert box.drain() == 1 and box.store.jobs.get(job.id).state is State.CANCELLED
    assert seen == ["m in", ("m", "cancelled", None)]


@pytest.mark.parametrize("commits", [True, False])
def test_an_end_in_a_transaction_that_the_handler_commits_is_read_back(shop: Shop, commits: bool) -> None:
    seen = Seen()
    seen.watch(shop.app)
    _spoiling(shop.app)
    is_sqlite = shop.store.db.dialect == "sqlite"

    def connect() -> Any:
        return (
            sqlite3.connect(shop.app.url.removeprefix("sqlite:///"))
            if is_sqlite
            else psycopg.connect(shop.app.url)
        )

    @shop.app.job(name="sync", retry=fixed(1))
    def end(ctx: Context) -> Any:
        with closing(connect()) as connection:
            if is_sqlite:
                connection.execute("BEGIN IMMEDIATE")
            ctx.complete_in(connection, "done")
            if commits:
                connection.commit()

    @shop.app.job(name="async", retry=fixed(1))
    async def end_async(ctx: Context) -> Any:
        await asyncio.to_thread(end, ctx)

    jobs = [end.enqueue(), end_async.enqueue()]
    shop.drained(shop.serve())
    state = State.COMPLETED if commits else State.FAILED
    assert [shop.job(job).state for job in jobs] == [state, state]
    told = ("m", "completed", None) if commits else ("m", "failed", "not_committed")
    assert [item for item in seen if isinstance(item, tuple)] == [told, told]
