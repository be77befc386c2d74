"""Retries by exception, on real databases: the end of a job, its timeline and its log line; and the settings of chunks."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.engine.process_store_handlers import chunk_limits
from tests.engine.shop import Shop
from windlass import App, Context, Retry
from windlass.engine.one_job import OneJobRunner
from windlass.model import State
from windlass.retry import custom, fixed
from windlass.testing import Sandbox

pytestmark = pytest.mark.timing


def test_a_job_ends_with_the_first_exception_that_is_not_retried(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []

    @shop.app.job(retry=fixed(9, wait=0.01, on=(ConnectionError, ValueError), give_up_on=UnicodeError))
    def charge(ctx: Context) -> None:
        tries.append(ctx.job_id)
        if ctx.attempt == 1:
            raise ConnectionResetError("lost")
        if ctx.attempt == 2:
            raise Retry("once more", after=0.01)
        b"\xff".decode("ascii")

    @shop.app.job(retry=custom(9, lambda attempt, error: None if attempt == 2 else 0.01))
    async def stop() -> None:
        raise KeyError("gone")

    jobs = charge.enqueue(), stop.enqueue()
    shop.drained(shop.serve())
    for job, type_, attempts, why in zip(
        jobs,
        ("UnicodeDecodeError", "KeyError"),
        (3, 2),
        ("UnicodeDecodeError is a UnicodeError, which is in give_up_on", "its retry policy returned None"),
        strict=True,
    ):
        found = shop.job(job)
        error = found.error or {}
        assert (found.state, found.attempt, error["type"]) == (State.FAILED, attempts, type_)
        assert error["details"] == {"retry": f"not retried: {why}"}
        last = shop.store.jobs.timeline(job.id)[-1]
        assert (last.error or {})["details"] == error["details"]
        (line,) = [
            line.__dict__
            for line in caplog.records
            if (getattr(line, "event", ""), getattr(line, "job_id", "")) == ("job.failed", job.id)
        ]
        assert (
            line["retry"] == f"not retried: {why}"
            and f"{line['retry']}; no further attempt" in line["message"]
        )
    assert len(tries) == 3


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_chunk_whose_policy_stops_is_the_attempts_failure(records: Shop, colour: str) -> None:
    """The policy of the job decides then, as after the last try of a chunk."""
    tries: list[tuple[int, int]] = []
    stops = custom(9, lambda attempt, error: None if attempt == 2 else 0.01, give_up_on=LookupError)

    def break_down(chunk: Any, ctx: Context) -> None:
        tries.append((ctx.attempt, chunk.attempt))
        raise KeyError("bad") if ctx.attempt == 2 else ValueError("bad")

    if colour == "plain":

        @records.app.job(name="job", retry=fixed(2, wait=0.01), chunk_retry=stops)
        def job(ctx: Context) -> None:
            for chunk in ctx.chunks(total=3, size=1):
                with chunk:
                    break_down(chunk, ctx)

    else:

        @records.app.job(name="job", retry=fixed(2, wait=0.01), chunk_retry=stops)
        async def job(ctx: Context) -> None:
            async for chunk in ctx.chunks(total=3, size=1):
                async with chunk:
                    break_down(chunk, ctx)

    enqueued = job.enqueue()
    records.drained(records.serve())
    assert tries == [(1, 1), (1, 2), (2, 1)]
    found = records.job(enqueued)
    assert (found.error or {})["type"] == "KeyError"
    assert "chunk 0 was not retried: KeyError is a LookupError, which is in give_up_on" in (
        found.traceback or ""
    )


def test_chunks_have_the_configured_size_and_tries_everywhere(shop: Shop) -> None:
    """In a worker's threads and children, and under process_request."""
    once = fixed(1)
    here = shop.app.job(name="here", retry=once)(chunk_limits)
    child = shop.app.job(name="child", retry=once, executor="process")(chunk_limits)
    settings = shop.app.settings.changed(chunk_size=2, chunk_attempts=1)
    jobs = [kind.enqueue(fails=fails) for kind in (here, child) for fails in (False, True)]
    engine = shop.serve(chunk_size=2, chunk_attempts=1)
    shop.drained(engine)
    engine.stop()
    asked = [here.enqueue(fails=fails) for fails in (False, True)]
    with OneJobRunner(shop.store, shop.app.parts.registry, settings=settings) as requests:
        for job in asked:
            requests.process(job.id)
    results = [shop.job(job).result for job in [*jobs, *asked]]
    pid = os.getpid()
    assert [result and result[1:] for result in results] == [[2, 2, 1], None] * 3
    assert [result[0] == pid for result in results if result] == [True, False, True]


def test_a_child_has_the_chunk_policy_of_its_phase(shop: Shop) -> None:
    from tests.engine.chunk_app import app, stubborn

    bound = App.of(app.parts.bound(config=shop.app.config, store=shop.store))
    job = bound.enqueue(stubborn.name)
    shop.drained(shop.serve_app(bound))
    assert shop.job(job).result == [1, 2, 3, 4]


def test_a_sandbox_has_the_chunks_of_its_app() -> None:
    app = App(config={"background.chunk.size": 2, "background.chunk.retry.attempts": 1})
    app.job(name="here", retry=fixed(1))(chunk_limits)
    with Sandbox(app) as box:
        for fails in (False, True):
            box.app.enqueue("here", fails=fails)
        box.drain()
        first, second = box.jobs("here")
    assert first.result[1:] == [2, 2, 1] and second.state is State.FAILED
