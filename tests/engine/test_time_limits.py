"""Time limits: a job that outruns its own is stopped, and signs of life move it."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from tests.engine import process_handlers as handlers
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.handlers.context import Context
from windlass.model import State
from windlass.model.retry import fixed
from windlass.observe import health

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


@pytest.mark.slow
def test_an_async_job_that_outruns_its_limit_is_stopped_and_tried_again(shop: Shop) -> None:
    """I-12."""
    cleaned: list[int] = []

    @shop.app.job(timeout=2.0, retry=fixed(2, wait=0.02))
    async def slow(ctx: Context) -> str:
        try:
            if ctx.attempt == 1:
                await asyncio.sleep(60)
        finally:
            cleaned.append(ctx.attempt)
        return "in time"

    job = slow.enqueue()
    engine = shop.serve()
    shop.drained(engine)
    assert shop.job(job).result == "in time" and cleaned == [1, 2]
    assert engine.stats.report().count("time_limits") == 1
    (first,) = shop.store.jobs.attempts(job.id)
    assert first.error is not None and first.error["code"] == "time_limit"


def test_a_thread_that_does_not_stop_loses_its_processor_and_holds_up_nobody(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """Put in error, its job released with an attempt counted, the processor reset; where and how long it ran is kept."""
    release = threading.Event()
    ran: list[str] = []

    @shop.app.job(timeout=0.2, processors=1, retry=fixed(1))
    def stuck() -> None:
        release.wait(PATIENCE)

    @shop.app.job(processors=1)
    def other() -> None:
        ran.append("other")

    job = stuck.enqueue()
    with caplog.at_level(logging.WARNING, "windlass.engine"):
        engine = shop.serve()
        shop.until(lambda: shop.job(job).state is State.FAILED)
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "processor.replaced"]
    assert (vars(line)["job_id"], vars(line)["processor"]) == (job.id, "stuck-processor-1")
    assert (shop.job(job).error or {})["code"] == "time_limit"
    (span,) = shop.store.jobs.timeline(job.id)
    assert span.processor == "stuck-processor-1" and span.ran is not None and span.ran.total_seconds() >= 0.2
    assert engine.report().phases["stuck"].error == 1 and engine.report().phases["stuck"].idle == 1
    listed = [(name, state, held) for name, state, held, _ in engine.processors() if name.startswith("stuck")]
    assert listed == [("stuck-processor-1", "idle", None), ("stuck-processor-1", "error", job.id)]
    assert health.unwell(engine.report())["pools"] == "processors in error: stuck-processor-1"
    other.enqueue()
    shop.drained(engine)
    release.set()
    shop.until(lambda: engine.report().phases["stuck"].error == 0)
    assert [state for name, state, *_ in engine.processors() if name.startswith("stuck")] == ["idle"]
    assert shop.job(job).state is State.FAILED, "what it still did changed nothing"


def test_a_coroutine_that_outran_its_limit_puts_its_processor_in_error(shop: Shop) -> None:
    """Until it has stopped, which may take it a while; then the processor is idle again."""
    stopping, may_end = threading.Event(), threading.Event()

    @shop.app.job(timeout=0.2, processors=1, retry=fixed(1))
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopping.set()
            await asyncio.to_thread(may_end.wait, PATIENCE)

    job = slow.enqueue()
    engine = shop.serve(cancel_grace=60.0)
    assert stopping.wait(PATIENCE)
    ((name, state, held, _),) = engine.processors()
    assert (name, state, held) == ("slow-processor-1", "error", job.id)
    assert health.unwell(engine.report())["pools"] == "processors in error: slow-processor-1"
    may_end.set()
    shop.drained(engine)
    ((_, state, held, _),) = engine.processors()
    assert (state, held) == ("idle", None) and "pools" not in health.unwell(engine.report())


@pytest.mark.parametrize(
    ("colour", "told"), [("plain", "ctx.should_stop is set"), ("async", "cancelled at its next await")]
)
def test_a_job_that_outruns_its_limit_is_named_at_once(
    shop: Shop, caplog: pytest.LogCaptureFixture, colour: str, told: str
) -> None:
    """A plain function may go on for long; nothing but a counter said that its limit was over."""

    def work(ctx: Context) -> str:
        ctx.sleep(60)
        return "done"

    async def work_async() -> str:
        await asyncio.sleep(60)
        return "done"

    kind = shop.app.job(name="slow", timeout=0.2, retry=fixed(1))(work if colour == "plain" else work_async)
    job = kind.enqueue()
    with caplog.at_level(logging.WARNING, "windlass.engine"):
        shop.drained(shop.serve())
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "job.overdue"]
    assert vars(line)["job_id"] == job.id and vars(line)["limit_seconds"] == 0.2
    assert "exceeded its time limit of 0.2 s" in line.message and told in line.message


@pytest.mark.parametrize("sign", ["alive", "checkpoint"])
def test_signs_of_life_move_the_time_limit(shop: Shop, sign: str) -> None:
    """A checkpoint in a transaction is one. Each time so much of the limit goes by that two times without a sign would exceed it."""
    passed, shown = threading.Semaphore(0), threading.Semaphore(0)

    @shop.app.job(timeout=600.0, retry=fixed(1))
    def lively(ctx: Context) -> str:
        for page in range(1, 4):
            assert passed.acquire(timeout=PATIENCE)
            if sign == "alive":
                ctx.alive()
            else:
                with ctx.transaction() as tx:
                    tx.checkpoint(page, done=page)
            shown.release()
        return "done"

    job = lively.enqueue()
    engine = shop.serve()
    shop.until(lambda: any(running.begun for running in engine._workload.running()))
    (running,) = engine._workload.running()
    for _ in range(3):
        running.processor.progress_at -= 400.0
        engine._watchdog._check()
        assert running.stop is None
        passed.release()
        assert shown.acquire(timeout=PATIENCE)
    shop.drained(engine)
    assert shop.job(job).result == "done"


@pytest.mark.slow
@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)  # it is no matter of the database
def test_the_start_of_a_process_does_not_count_against_the_time_limit(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has not begun, and importing an application may take longer than the job: the job is given back, its attempt not spent."""
    go = tmp_path / "go"
    (tmp_path / "slow_to_import.py").write_text(
        f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.01)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WINDLASS_CHILD_PRELOAD", "slow_to_import")
    job = shop.app.job(executor="process", timeout=600.0, retry=fixed(1))(handlers.echo).enqueue(
        value="in time"
    )
    engine = shop.serve()
    first = shop.until(lambda: [running.lease.token for running in engine._workload.running()])[0]

    def is_given_back() -> bool:
        for running in engine._workload.running():
            if running.lease.token == first:  # not of its next claim, which may begin
                running.processor.progress_at -= 1200.0  # the limit goes by, and it has not begun
        echo = engine.stats.report().phases.get("echo")
        return echo is not None and bool(echo.outcomes.get("released"))

    shop.until(is_given_back)
    assert engine.stats.report().count("time_limits") == 0
    go.touch()
    shop.drained(engine)
    assert (shop.job(job).result, shop.job(job).attempt, shop.job(job).crashes) == ("in time", 1, 0)
