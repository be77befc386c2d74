"""The total time limit: an attempt that runs longer is stopped, however lively it is."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.engine import process_handlers as handlers
from tests.engine.shop import Shop
from windlass.app.app import App
from windlass.engine.one_job import OneJobRunner, Status
from windlass.engine.running_attempt import Processor, RunningAttempt, Stop
from windlass.engine.watchdog import Watchdog
from windlass.errors import ConfigError
from windlass.handlers.context import Context
from windlass.handlers.phase_defaults import FixedDefaults
from windlass.handlers.registry import Phase, Registry
from windlass.model import State
from windlass.model.retry import fixed
from windlass.settings import Settings

pytestmark = pytest.mark.timing


def lively(ctx: Context) -> None:
    while True:
        ctx.alive()
        ctx.sleep(0.005)


def idle() -> None: ...


async def lively_async(ctx: Context) -> None:
    while True:
        ctx.alive()
        await asyncio.sleep(0.005)


@pytest.mark.one_database
@pytest.mark.parametrize("where", ["loop", "thread", pytest.param("process", marks=pytest.mark.slow)])
def test_an_attempt_that_runs_too_long_is_stopped_whatever_progress_it_makes(
    shop: Shop, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    handler: Any = {"loop": lively_async, "thread": lively, "process": handlers.lively}[where]
    executor = "process" if where == "process" else None
    kind = shop.app.job(
        name="slow", timeout=60, total_timeout=0.3, retry=fixed(2, wait=0.01), executor=executor
    )(handler)
    job = kind.enqueue()
    with caplog.at_level(logging.WARNING, "windlass.engine"):
        engine = shop.serve()
        shop.until(lambda: shop.job(job).state.is_final)
    ended = shop.job(job)
    assert ended.state is State.FAILED and ended.attempt == 2, "it was tried again as by its policy"
    assert ended.error is not None and (ended.error["type"], ended.error["code"]) == (
        "TotalTimeLimit",
        "total_time_limit",
    )
    assert "total time limit of 0.3 s" in ended.error["message"]
    (first,) = shop.store.jobs.attempts(job.id)
    assert first.error is not None and first.error["code"] == "total_time_limit"
    assert engine.stats.report().count("time_limits") == 2
    lines = [record for record in caplog.records if getattr(record, "event", "") == "job.overdue"]
    assert [vars(line)["is_total"] for line in lines] == [True, True]
    assert "exceeded its total time limit of 0.3 s" in lines[0].message


@pytest.mark.one_database
def test_the_silence_limit_counts_beside_it(shop: Shop) -> None:
    @shop.app.job(timeout=0.2, total_timeout=3600, retry=fixed(1))
    async def silent() -> None:
        await asyncio.sleep(3600)

    job = silent.enqueue()
    shop.serve()
    shop.until(lambda: shop.job(job).state is State.FAILED)
    assert (shop.job(job).error or {})["code"] == "time_limit"


@pytest.mark.one_database
def test_process_request_has_it_too(shop: Shop) -> None:
    kind = shop.app.job(name="slow", timeout=None, total_timeout=0.2, retry=fixed(1))(lively)
    silent = shop.app.job(name="silent", timeout=60, total_timeout=60, retry=fixed(1))(handlers.echo)
    job, quick = kind.enqueue(), silent.enqueue(value=1)
    with OneJobRunner(shop.store, shop.app.parts.registry) as runner:
        found = runner.process(job.id)
        assert found.status is Status.FAILED and (found.job.error or {})["code"] == "total_time_limit"
        assert runner.process(quick.id).status is Status.COMPLETED


def test_by_a_held_clock_it_ends_a_job_of_either_database_when_it_is_over_and_not_before(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ahead = time.monotonic(), [0.0]

    class Held:
        """The clock of the watchdog: it moves only when the test says so."""

        @staticmethod
        def monotonic() -> float:
            return began + ahead[0]

    @shop.app.job(timeout=None, total_timeout=100, retry=fixed(1))
    def work(ctx: Context) -> None:
        lively(ctx)

    job = work.enqueue()
    engine = shop.serve(cancel_grace=3000.0)
    shop.until(lambda: any(running.begun for running in engine._workload.running()))
    (running,) = engine._workload.running()
    running.counts_from = began
    monkeypatch.setattr("windlass.engine.watchdog.time", Held)
    ahead[0] = 99.9
    engine._watchdog._check()
    stops = [running.stop]
    assert shop.job(job).state is State.PROCESSING
    ahead[0] = 100.1
    engine._watchdog._check()
    assert [*stops, running.stop] == [None, Stop.TOTAL_TIME_LIMIT]
    shop.until(lambda: shop.job(job).state.is_final)
    assert (shop.job(job).error or {})["code"] == "total_time_limit"


def test_it_is_an_option_of_a_kind_and_of_a_phase_with_a_default_from_the_settings() -> None:
    app = App(config={"background.total_timeout_ms": 1500})

    @app.job
    def usual() -> None: ...

    @app.job(total_timeout=None)
    def endless() -> None: ...

    pipe = app.pipeline("pipe")

    @pipe.phase("a", total_timeout=7)
    def first() -> None: ...

    limits = {name: phase.total_timeout for name, phase in app.parts.registry.phases.items()}
    assert limits == {"usual": 1.5, "endless": None, "pipe:a": 7}
    assert FixedDefaults().total_timeout is None
    for wrong in (0, -1, "soon", True, float("nan"), timedelta(seconds=1)):
        with pytest.raises(ConfigError) as caught:
            app.job(name="wrong", total_timeout=wrong)(first)  # type: ignore[arg-type]
        assert caught.value.key == "total_timeout"


def test_the_time_before_a_job_begins_does_not_count() -> None:
    """The loop is blocked, or its process starts; from the moment it begins on, nothing moves the limit."""
    registry = Registry()
    phase = registry.define("work", idle, total_timeout=10)
    watchdog = Watchdog(registry.phases, Settings(), *[None] * 5)  # type: ignore[arg-type]
    running = _running(phase)
    assert watchdog._exceeded_total(running, 150.0) is None
    running.begun = True
    running.processor.touch(159.0)
    assert watchdog._exceeded_total(running, 160.0) is None
    assert watchdog._exceeded_total(running, 160.1) == 10


def test_a_phase_without_one_is_not_checked() -> None:
    registry = Registry()
    phase = registry.define("work", idle)
    watchdog = Watchdog(registry.phases, Settings(), *[None] * 5)  # type: ignore[arg-type]
    running = _running(phase)
    running.begun = True
    assert not watchdog._totals and watchdog._exceeded_total(running, 1e9) is None
    assert running.stop is not Stop.TOTAL_TIME_LIMIT


def _running(phase: Phase) -> RunningAttempt:
    class Lease:
        phase = "work"

    return RunningAttempt(Lease(), phase, Processor("work", 1), 100.0, 100.0, False)  # type: ignore[arg-type]
