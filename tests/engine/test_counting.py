"""Rare things are counted where they happen, and told with the ids of their job. (Time limits are in
test_time_limits.py, self-stops and blocked loops in test_lost_leases.py, promotions in test_engine.py.)"""

from __future__ import annotations

import copy
import threading
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.engine import process_handlers as handlers
from tests.engine import process_store_handlers as store_handlers
from tests.engine.shop import Shop
from tests.observe.lines import written
from tests.waiting import PATIENCE
from windlass.engine.engine import Engine
from windlass.errors import StoreUnreachableError
from windlass.handlers.context import Context
from windlass.model import State
from windlass.model.retry import fixed
from windlass.observe.metrics import Metrics
from windlass.observe.report import BOUNDS_MS
from windlass.submit.handle import JobHandle

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


def count(engine: Engine, name: str) -> int:
    return engine.stats.report().count(name)


def test_the_time_in_the_queue_is_measured_by_the_databases_clock(shop: Shop) -> None:
    """For as long as a job was ready before it was claimed, whenever its caller made it."""

    @shop.app.job
    def work() -> None: ...

    work.enqueue_many([{}, {}])
    is_sqlite = shop.store.db.dialect == "sqlite"
    earlier = "ready_at - 90000000" if is_sqlite else "ready_at - interval '90 seconds'"
    shop.run(f"UPDATE {'windlass_job' if is_sqlite else 'windlass.job'} SET ready_at = {earlier}")
    engine = shop.serve()
    shop.drained(engine)
    stood = engine.stats.report().phases["work"].queue
    assert stood.count == sum(stood.counts[BOUNDS_MS.index(60_000) + 1 :]) == 2
    assert stood.sum_ms >= 180_000
    assert (
        b'windlass_queue_wait_seconds_count{phase="work"} 2.0'
        in Metrics(engine.stats.report, engine.report).render()
    )


def test_a_child_that_dies_under_its_job_is_a_crash(shop: Shop) -> None:
    job: JobHandle[Any] = shop.app.job(executor="process", retry=fixed(1))(handlers.end_process).enqueue(
        code=7
    )
    engine = shop.serve()
    shop.drained(engine)
    assert shop.job(job).state is State.FAILED and count(engine, "crashes") == 1
    assert shop.job(job).crashes == 1, "the one that spent the last attempt, too"


@pytest.mark.parametrize("cap", [1, 2])
def test_a_job_in_a_process_fails_at_the_crash_cap_of_the_settings(shop: Shop, cap: int) -> None:
    """I-14: crash_cap."""
    job: JobHandle[Any] = shop.app.job(executor="process", retry=fixed(5))(handlers.end_process).enqueue(
        code=7
    )
    engine = shop.serve(crash_cap=cap)
    shop.drained(engine)
    ended = shop.job(job)
    error = ended.error or {}
    assert ended.state is State.FAILED and error["code"] == "crash_cap"
    assert ended.crashes == error["details"]["crashes"] == count(engine, "crashes") == cap


@pytest.mark.parametrize("is_probed", [False, True], ids=["plain", "probed"])
@pytest.mark.parametrize(("starting", "crashes"), [(1, 1), (0, 0)], ids=["started", "claimed"])
def test_an_instance_that_died_is_a_crash_of_the_jobs_it_had_started(
    shop: Shop, is_probed: bool, starting: int, crashes: int
) -> None:
    @shop.app.job(probe=(lambda: False) if is_probed else None)
    def work() -> None: ...

    job = work.enqueue()
    shop.store.join(lease=timedelta(seconds=0.3)).claim("work", 1, starting=starting)
    engine = shop.serve()
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED
    assert len(shop.store.jobs.attempts(job.id)) == count(engine, "crashes") == crashes


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_outputs_that_were_there_are_counted_wherever_they_are_put(shop: Shop, executor: str) -> None:
    """Beside and inside a transaction, here and in a child."""
    job = shop.app.job(executor=executor)(store_handlers.put_twice).options(correlation_id="req-1").enqueue()
    with written() as lines:
        engine = shop.serve()
        shop.drained(engine)
    assert shop.job(job).result == [True, False, True, False]
    assert count(engine, "duplicates_prevented") == 2
    told = [line for line in lines.objects if line["event"] == "duplicate.prevented"]
    assert [
        (line["job_id"], line["correlation_id"], line["phase"], line["attempt"], line["fields"])
        for line in told
    ] == [(job.id, "req-1", "put_twice", 1, {"output": "page"})] * 2


def test_a_job_that_is_claimed_again_while_it_runs_is_refused(shop: Shop) -> None:
    begun, let_go = threading.Event(), threading.Event()

    @shop.app.job
    def hold(ctx: Context) -> None:
        begun.set()
        let_go.wait(PATIENCE)

    job = hold.options(correlation_id="req-1").enqueue()
    with written() as lines:
        engine = shop.serve()
        try:
            assert begun.wait(PATIENCE)
            (running,) = engine._workload.running()
            engine.holder.release(running.lease)
            shop.until(lambda: engine.stats.report().counts.get(("refused", "being processed")))
            shop.until(lambda: "job.refused" in [line["event"] for line in lines.objects])
        finally:
            let_go.set()
    line = next(line for line in lines.objects if line["event"] == "job.refused")
    assert (line["job_id"], line["correlation_id"]) == (job.id, "req-1")


def test_a_claim_whose_reply_was_lost_is_counted_when_it_is_found(shop: Shop) -> None:
    @shop.app.job
    def served() -> None: ...

    @shop.app.job
    def lost() -> None: ...

    job = lost.enqueue()
    engine = shop.serve(phases=("served",), heartbeat=0.1)
    holder: Any = engine.holder
    twin = copy.copy(holder)  # claims in the same name, and the engine never hears of it
    twin._left, twin._emptied = {}, []
    assert twin.claim("lost", 1)
    holder.beat = partial(holder.beat, unknown_grace=timedelta(0))
    shop.until(lambda: engine.stats.report().counts.get(("recovered", "unknown claim")))
    assert count(engine, "recovered") == 1 and shop.job(job).state is State.QUEUED


@pytest.mark.parametrize(
    "error", [StoreUnreachableError("away"), RuntimeError("a bug")], ids=["away", "unknown"]
)
def test_beats_that_failed_are_counted(shop: Shop, error: Exception) -> None:
    @shop.app.job
    def work() -> None: ...

    def beat() -> Any:
        raise error

    engine = shop.serve(heartbeat=0.1)
    assert count(engine, "beat_errors") == 0
    holder: Any = engine.holder
    holder.beat = beat
    shop.until(lambda: count(engine, "beat_errors"))
