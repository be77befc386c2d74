"""Leases that end, or nearly: what an instance stops, gives back and leaves alone."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from tests.engine.line import Line, break_beats, declare_dead, run_out
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.errors import StoreUnreachableError
from windlass.handlers.context import Context
from windlass.model import Flag, State

pytestmark = pytest.mark.timing


def test_a_blocked_loop_is_named_and_costs_no_lease(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """I-11: while a coroutine is in time.sleep the lease is renewed, again and again."""
    runs: list[float] = []
    renewals = 10

    @shop.app.job(timeout=None)
    async def blocking() -> None:
        runs.append(time.monotonic())
        seen = first._heartbeat._good_until
        for _ in range(renewals):
            while first._heartbeat._good_until == seen:
                time.sleep(0.1)  # noqa: ASYNC251  that is the point
            seen = first._heartbeat._good_until
        while not is_told.is_set():
            time.sleep(0.1)  # noqa: ASYNC251

    def warnings() -> list[logging.LogRecord]:
        """Of this job: on a busy machine a loop that nobody blocks may answer late, too."""
        records = [record for record in caplog.records if getattr(record, "event", "") == "loop.blocked"]
        return [record for record in records if job.id in record.getMessage()]

    is_told = threading.Event()
    first = shop.serve(lease=60.0, heartbeat=0.25, blocked_after=0.3)
    job = blocking.enqueue()
    shop.until(lambda: runs)
    second = shop.serve(lease=60.0, heartbeat=0.25, blocked_after=600.0)
    with caplog.at_level(logging.WARNING):
        shop.until(warnings)
    report = first.report()
    assert "loop: a handler blocks the event loop" in report.degraded and report.loop_limit == 0.3
    is_told.set()
    shop.drained(second)
    shop.drained(first)
    assert len(runs) == 1 and shop.job(job).state is State.COMPLETED and shop.job(job).crashes == 0
    assert first.stats.report().count("loop_blocked") >= 1 and not second.stats.report().count("loop_blocked")
    assert [engine.stats.report().count("self_stops") for engine in (first, second)] == [0, 0]
    (warning,) = warnings()
    assert "time.sleep" in str(getattr(warning, "stack", ""))


def test_an_instance_that_was_declared_dead_stops_its_jobs_and_begins_anew(shop: Shop) -> None:
    """I-5."""
    begun, ends, ids = threading.Event(), [], []

    @shop.app.job
    async def hold(ctx: Context) -> str:
        ids.append(ctx._lease.token)
        if len(ids) == 1:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ends.append("stopped")
        return "second"

    job = hold.enqueue()
    engine = shop.serve(heartbeat=0.5)
    before = engine.id
    assert begun.wait(PATIENCE)
    declare_dead(shop)
    shop.until(lambda: ends)
    shop.drained(engine)
    assert engine.id != before and shop.job(job).result == "second" and len(set(ids)) == 2


def test_a_lease_that_cannot_be_renewed_ends_by_our_own_clock(shop: Shop) -> None:
    """Self-stop before the lease ends, and back to work when the database answers again."""
    begun, ends, runs = threading.Event(), [], []

    @shop.app.job
    async def hold() -> str:
        runs.append(1)
        if len(runs) == 1:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ends.append(engine._heartbeat.left)
        return "again"

    job = hold.enqueue()
    engine = shop.serve(lease=60.0, heartbeat=0.3, margin=30.0)
    assert begun.wait(PATIENCE)
    holder: Any = engine.holder
    is_frozen, frozen = threading.Event(), threading.Event()
    real = holder.beat

    def freeze(**options: Any) -> Any:
        is_frozen.set()
        if not frozen.wait(PATIENCE):
            raise AssertionError("nobody let go")
        return real(**options)

    holder.beat = freeze
    assert is_frozen.wait(PATIENCE)
    run_out(engine)
    shop.until(lambda: ends)
    assert 0 < ends[0] <= 30.0, "before the lease was over"
    assert engine.stats.report().count("self_stops") == 1
    assert "lease: not renewed in time; no jobs are claimed" in engine.report().degraded
    frozen.set()
    shop.drained(engine)
    assert shop.job(job).result == "again"
    assert not any(line.startswith("lease") for line in engine.report().degraded)


def test_a_thread_that_outlives_the_lease_gives_its_job_back_when_the_lease_is_good_again(shop: Shop) -> None:
    """The instance was never declared dead: nobody else recovers what it holds."""
    begun, let_go, runs = threading.Event(), threading.Event(), []

    @shop.app.job
    def hold(ctx: Context) -> str:
        runs.append(ctx.attempt)
        if len(runs) == 1:
            begun.set()
            let_go.wait(PATIENCE)
        return "again"

    job = hold.enqueue()
    engine = shop.serve(lease=60.0, heartbeat=0.3, margin=30.0, recovery=600.0)
    assert begun.wait(PATIENCE)
    holder: Any = engine.holder
    is_held_up, answers, real = threading.Event(), threading.Event(), holder.beat

    def beat(**options: Any) -> Any:
        is_held_up.set()
        return real(**options) if answers.wait(PATIENCE) else None

    holder.beat = beat
    assert is_held_up.wait(PATIENCE)
    run_out(engine)
    shop.until(lambda: engine.report().phases["hold"].error == 1)
    answers.set()
    shop.until(lambda: shop.job(job).state is State.COMPLETED)
    assert engine.holder is holder, "the lease was renewed, not lost"
    let_go.set()
    shop.drained(engine)
    assert shop.job(job).result == "again" and runs == [1, 1], "it was not the job's fault"


def test_a_lease_that_ends_unrenewed_gives_back_what_waits(shop: Shop) -> None:
    """Steps may still work where beats do not: what has not begun is others' at once, and does not begin here."""
    line = Line.in_memory(shop, lease=60.0, heartbeat=0.3, margin=30.0, recovery=600.0)
    break_beats(line.engine)
    run_out(line.engine)
    first, *waiting = line.jobs
    shop.until(lambda: all(shop.job(job).state is State.QUEUED for job in waiting))
    assert {shop.job(job).attempt for job in waiting} == {0}
    shop.until(lambda: shop.job(first).attempt == 0 and shop.job(first).reason == "retry")
    assert [n for n, _ in line.ran] == [0]


def test_an_instance_that_was_declared_dead_begins_nothing_that_waited(shop: Shop) -> None:
    """The jobs in its memory are others' now; under their old tokens they would run twice."""
    line = Line.in_memory(shop, heartbeat=0.3)
    holder: Any = line.engine.holder
    old = set(holder._left)
    declare_dead(shop)
    shop.until(lambda: line.engine.holder is not holder)
    line.gate.set()
    shop.drained(line.engine)
    assert [n for n, token in line.ran if token in old] == [0]
    assert {shop.job(job).state for job in line.jobs} == {State.COMPLETED}


def test_nothing_is_claimed_under_a_lease_that_could_not_be_renewed(shop: Shop) -> None:
    """What is begun under it would have to be stopped at once, or run beside another run of it."""

    @shop.app.job
    async def work() -> None: ...

    engine = shop.serve(lease=60.0, heartbeat=0.2, margin=30.0, recovery=600.0)
    mend = break_beats(engine)
    run_out(engine)
    shop.until(lambda: any("lease" in part for part in engine.report().degraded))
    job = work.enqueue()
    seen = engine.stats.report().count("beat_errors")
    shop.until(
        lambda: engine.stats.report().count("beat_errors") >= seen + 3
    )  # it goes on, and would have claimed
    assert (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)
    mend()
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED


def test_a_beat_that_comes_back_when_its_lease_is_about_to_end_lets_nothing_be_claimed(shop: Shop) -> None:
    """The lease counts from when the beat was sent."""
    sent: list[float] = []
    comes_back, is_mended = threading.Event(), threading.Event()

    @shop.app.job
    async def work() -> None: ...

    least = 1.5  # seconds that a renewed lease is good for
    engine = shop.serve(lease=60.0, heartbeat=0.2, margin=60.0 - least, recovery=600.0)
    holder: Any = engine.holder
    real = holder.beat

    def beat(**options: Any) -> Any:
        if comes_back.is_set() and not is_mended.is_set():
            raise StoreUnreachableError("away")
        answer = real(**options)
        sent.append(time.monotonic())
        assert comes_back.wait(PATIENCE)
        return answer

    holder.beat = beat
    # The lease that it renewed has less than the margin left, too. No other beat ends meanwhile.
    shop.until(lambda: sent and time.monotonic() > sent[0] + least)
    shop.until(lambda: any("lease" in part for part in engine.report().degraded))
    job = work.enqueue()
    stops = engine.stats.report().count("self_stops")
    seen = engine.stats.report().count("beat_errors")
    comes_back.set()
    shop.until(lambda: engine.stats.report().count("beat_errors") >= seen + 3)
    assert (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)
    assert engine.stats.report().count("self_stops") == stops
    is_mended.set()
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED


def test_the_start_of_a_last_attempt_is_durable_before_it_runs(shop: Shop) -> None:
    """I-14: a job that waited in memory is not known to have begun. Where it takes its instance down, it has no attempt left, and would be
    given back as one that had not."""
    dialect = shop.store.db.dialect
    flags: list[int] = []

    def look(ctx: Context) -> None:
        table = "windlass_job" if dialect == "sqlite" else "windlass.job"
        ((found,),) = shop.run(f"SELECT flags FROM {table} WHERE id = '{ctx.job_id}'")
        flags.append(found)

    line = Line.in_memory(shop, look=look, attempts=1)
    flags.clear()
    line.gate.set()
    shop.drained(line.engine)
    assert len(flags) == 4 and all(found & Flag.STARTED for found in flags)
