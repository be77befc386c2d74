"""What a handler does after its job has ended, why a job was cancelled, what an exception was: all of it is in the log."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from typing import Any

import pytest

from tests.engine import process_handlers as handlers
from tests.engine import process_store_handlers as store_handlers
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.handlers.context import Context
from windlass.model import State
from windlass.model.retry import fixed
from windlass.observe import logs

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Any:
    """The records of an event."""
    caplog.set_level(logging.INFO, "windlass.engine")
    return lambda event: [record for record in caplog.records if getattr(record, "event", "") == event]


@pytest.mark.parametrize("colour", ["async", "plain", "process"])
def test_an_exception_after_the_end_is_logged_and_changes_nothing(
    shop: Shop, records: Any, colour: str
) -> None:
    @shop.app.job(name="async", retry=fixed(1))
    async def coroutine(ctx: Context) -> str:
        async with ctx.transaction() as tx:
            tx.complete("x")
        raise ValueError("too late")

    @shop.app.job(name="plain", retry=fixed(1))
    def plain(ctx: Context) -> str:
        with ctx.transaction() as tx:
            tx.complete("x")
        raise ValueError("too late")

    process = shop.app.job(name="process", executor="process", retry=fixed(1))(store_handlers.raise_after_end)
    kinds: dict[str, Any] = {"async": coroutine, "plain": plain, "process": process}
    job = kinds[colour].enqueue()
    shop.drained(shop.serve())
    ended = shop.job(job)
    assert (ended.state, ended.result) == (State.COMPLETED, "x")
    (record,) = records("job.raised_after_end")
    assert record.levelno == logging.WARNING and record.job_id == job.id
    assert (
        "ValueError: too late" in record.getMessage() and "ValueError: too late" in record.error["traceback"]
    )
    assert record.exc_info is not None and "too late" in str(record.exc_info[1])


def test_an_exception_inside_the_block_is_the_jobs_own(shop: Shop, records: Any) -> None:
    @shop.app.job(retry=fixed(1))
    async def breaks(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            tx.complete("x")
            raise ValueError("in time")

    job = breaks.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).state is State.FAILED
    assert not records("job.raised_after_end")


def test_a_job_that_is_stopped_after_its_end_is_no_news(shop: Shop, records: Any) -> None:
    ended = threading.Event()

    @shop.app.job
    async def lingers(ctx: Context) -> None:
        async with ctx.transaction():
            pass
        ended.set()
        await asyncio.sleep(60)

    job = lingers.enqueue()
    engine = shop.serve()
    assert ended.wait(PATIENCE)
    engine.stop(grace=0)
    assert shop.job(job).state is State.COMPLETED
    assert not records("job.raised_after_end")


@pytest.mark.parametrize("colour", ["async", "process"])
def test_a_returned_value_that_is_not_stored_is_named(shop: Shop, records: Any, colour: str) -> None:
    """The block ended the job, with None as its result."""

    @shop.app.job(name="async")
    async def coroutine(ctx: Context) -> str:
        async with ctx.transaction():
            pass
        return "value"

    process = shop.app.job(name="process", executor="process")(store_handlers.return_after_end)
    kinds: dict[str, Any] = {"async": coroutine, "process": process}
    job = kinds[colour].enqueue()
    shop.drained(shop.serve())
    assert (shop.job(job).state, shop.job(job).result) == (State.COMPLETED, None)
    (record,) = records("job.result_dropped")
    assert record.job_id == job.id and "tx.complete(value)" in record.getMessage()


def test_a_returned_value_that_is_stored_is_no_news(shop: Shop, records: Any) -> None:
    @shop.app.job
    async def says_it_twice(ctx: Context) -> list[int]:
        async with ctx.transaction() as tx:
            tx.complete([1, 2])
        return [1, 2]

    @shop.app.job
    async def goes_on(ctx: Context) -> str:
        async with ctx.transaction(ends=False):
            pass
        return "value"

    jobs = [says_it_twice.enqueue(), goes_on.enqueue()]
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == [[1, 2], "value"]
    assert not records("job.result_dropped")


@pytest.mark.parametrize("colour", ["async", "plain"])
def test_the_reason_of_a_cancel_is_in_its_line(shop: Shop, records: Any, colour: str) -> None:
    begun = threading.Event()

    @shop.app.job(name="async")
    async def coroutine() -> None:
        begun.set()
        await asyncio.sleep(60)

    @shop.app.job(name="plain")
    def plain(ctx: Context) -> None:
        begun.set()
        ctx.sleep(60)

    job = (coroutine if colour == "async" else plain).enqueue()
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    shop.store.jobs.cancel(job.id, reason="the customer left")
    shop.drained(engine)
    (record,) = records("job.cancelled")
    assert record.reason == "the customer left"
    assert record.getMessage() == f"{record.kind} {job.id}, attempt 1/3: the customer left"


@pytest.mark.parametrize("style", ["console", "json"])
def test_the_traceback_of_a_failed_attempt_is_in_the_log(shop: Shop, style: str) -> None:
    """With the password of the database hidden, as everywhere."""

    @shop.app.job(retry=fixed(2, wait=0.01))
    async def breaks() -> None:
        raise ValueError("cannot reach postgresql://me:s3cret-word@host/db")

    breaks.enqueue()
    stream = io.StringIO()
    with logs.configure("info", style, stream):
        shop.drained(shop.serve())
    text = stream.getvalue()
    assert "s3cret-word" not in text
    if style == "console":
        lines = text.splitlines()
        for event in ("job.retried", "job.failed"):
            (at,) = [number for number, line in enumerate(lines) if f" {event} " in line]
            below = lines[at + 1 :]
            assert below[0].startswith("    | Traceback") and any(
                "test_silent_ends.py" in line for line in below
            )
            assert lines[at].count("ValueError") == 1, "the line says it once"
    else:
        said = [json.loads(line) for line in text.splitlines()]
        for event in ("job.retried", "job.failed"):
            (line,) = [one for one in said if one["event"] == event]
            assert (
                line["error"]["code"] == "exception" and "test_silent_ends.py" in line["error"]["traceback"]
            )


@pytest.mark.parametrize("colour", ["async", "process"])
def test_records_of_failed_attempts_have_the_exception(shop: Shop, records: Any, colour: str) -> None:
    """For handlers of the application's own: a reporter of errors looks at ``exc_info``."""

    @shop.app.job(name="async", retry=fixed(1))
    async def coroutine() -> None:
        raise ValueError("broken")

    process = shop.app.job(name="process", executor="process", retry=fixed(1))(handlers.break_down)
    (coroutine if colour == "async" else process).enqueue()
    shop.drained(shop.serve())
    (record,) = records("job.failed")
    text = logging.Formatter().formatException(record.exc_info)
    assert "Traceback (most recent call last)" in text and "ValueError: broken" in text


def test_a_long_message_is_cut_with_a_sign(shop: Shop) -> None:
    @shop.app.job(retry=fixed(1))
    async def long() -> None:
        raise ValueError("a" * 1500)

    @shop.app.job(retry=fixed(1))
    async def lines() -> None:
        raise ValueError("first\nsecond")

    one, other = long.enqueue(), lines.enqueue()
    shop.drained(shop.serve())
    assert (shop.job(one).error or {})["message"] == f"ValueError: {'a' * 1000}… (500 more characters)"
    assert (shop.job(other).error or {})["message"] == "ValueError: first… (7 more characters)"
