"""Time limits, cancels, lost leases and shutdown: how jobs are made to stop, and what becomes of them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine import process_handlers as handlers
from tests.engine.process_bench import begun as process_begun
from tests.engine.process_bench import is_alive
from tests.engine.shop import Shop
from windlass.engine.engine import Engine
from windlass.errors import StoreUnreachableError
from windlass.model import CancelAnswer, Enqueued, Flag, NewJob, Released, State
from windlass.retry import fixed
from windlass.store import open_store
from windlass.store.holder import CancelAsked, Holder
from windlass.work.context import Context


@dataclass
class Line:
    """Five jobs of one phase with one processor, all claimed: the first runs until the gate is opened, four wait in memory."""

    engine: Engine
    jobs: list[Enqueued]
    gate: threading.Event
    ran: list[tuple[int, int]]
    """Number and token of each run, in order."""

    @classmethod
    def in_memory(
        cls,
        shop: Shop,
        *,
        look: Callable[[Context], None] = lambda _: None,
        attempts: int = 3,
        **settings: Any,
    ) -> Line:
        """``look`` is called by each job when it begins."""
        ran: list[tuple[int, int]] = []
        gate = threading.Event()

        @shop.app.job(processors=1, retry=fixed(attempts))
        def work(n: int, ctx: Context) -> None:
            ran.append((n, ctx.lease.token))
            look(ctx)
            while not gate.wait(0.01):
                ctx.check_stop()

        gate.set()
        work.enqueue_many({"n": -1} for _ in range(30))  # fast at first, so that some are claimed ahead
        engine = shop.serve(prefetch=10.0, **settings)
        shop.drained(engine)
        gate.clear()
        ran.clear()
        jobs = [work.enqueue(n=n) for n in range(5)]
        shop.until(lambda: engine.report().phases["work"].waiting == 4)
        return cls(engine, jobs, gate, ran)


def break_beats(engine: Engine) -> Callable[[], None]:
    """Have every beat of an engine fail from now on; call what it answers to end that."""
    holder: Any = engine.holder
    real, away = holder.beat, threading.Event()
    away.set()

    def beat(**options: Any) -> Any:
        if away.is_set():
            raise StoreUnreachableError("away")
        return real(**options)

    holder.beat = beat
    return away.clear


def declare_dead(shop: Shop) -> None:
    """What another instance does with one that did not beat in time."""
    table = "windlass_instance" if shop.store.db.dialect == "sqlite" else "windlass.instance"
    now = "1" if shop.store.db.dialect == "sqlite" else "now() - interval '1 day'"
    shop.run(f"UPDATE {table} SET dead_at = {now}, heartbeat_at = {now}")


def test_an_async_job_that_outruns_its_limit_is_stopped_and_tried_again(shop: Shop) -> None:
    """C5, I-12."""
    cleaned: list[int] = []

    @shop.app.job(timeout=0.2, retry=fixed(2, wait=0.02))
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
    """C5: put in error, its job released with an attempt counted, the processor reset; where and how long it ran is kept."""
    release = threading.Event()
    ran: list[str] = []

    @shop.app.job(timeout=0.2, processors=1, retry=fixed(1))
    def stuck() -> None:
        release.wait(30)

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
    other.enqueue()
    shop.drained(engine)
    release.set()
    shop.until(lambda: engine.report().phases["stuck"].error == 0)
    assert shop.job(job).state is State.FAILED, "what it still did changed nothing"


@pytest.mark.parametrize(
    ("colour", "told"), [("plain", "hears so from ctx.should_stop"), ("async", "cancelled at its next await")]
)
def test_a_job_that_outruns_its_limit_is_named_at_once(
    shop: Shop, caplog: pytest.LogCaptureFixture, colour: str, told: str
) -> None:
    """A plain function may go on for long; nothing but a counter said that its limit was over."""

    def work() -> str:
        time.sleep(0.6)
        return "done"

    async def work_async() -> str:
        await asyncio.sleep(5)
        return "done"

    kind = shop.app.job(name="slow", timeout=0.2, retry=fixed(1))(work if colour == "plain" else work_async)
    job = kind.enqueue()
    with caplog.at_level(logging.WARNING, "windlass.engine"):
        shop.drained(shop.serve())
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "job.overdue"]
    assert vars(line)["job_id"] == job.id and vars(line)["limit_seconds"] == 0.2
    assert "outran its time limit of 0.2 s" in line.message and told in line.message


def test_signs_of_life_move_the_time_limit(shop: Shop) -> None:
    @shop.app.job(timeout=0.4, retry=fixed(1))
    def lively(ctx: Context) -> str:
        for _ in range(8):
            time.sleep(0.1)
            ctx.alive()
        return "done"

    job = lively.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).result == "done"


def test_a_checkpoint_in_a_transaction_is_a_sign_of_life(shop: Shop) -> None:
    @shop.app.job(timeout=0.5, retry=fixed(1))
    def lively(ctx: Context) -> str:
        for page in range(1, 7):
            time.sleep(0.15)
            with ctx.transaction() as tx:
                tx.checkpoint(page, done=page)
        return "done"

    job = lively.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).result == "done"


@pytest.mark.parametrize("colour", ["async", "plain"])
def test_a_running_job_that_is_cancelled_stops_and_cleans_up(shop: Shop, colour: str) -> None:
    """A5."""
    begun, cleaned = threading.Event(), threading.Event()

    if colour == "async":

        @shop.app.job(name="long")
        async def long() -> None:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.set()

    else:

        @shop.app.job(name="long")
        def long(ctx: Context) -> None:
            begun.set()
            try:
                ctx.sleep(60)
            finally:
                cleaned.set()

    job = long.enqueue()
    engine = shop.serve()
    assert begun.wait(10)
    assert shop.store.jobs.cancel(job.id, "not needed") is CancelAnswer.REQUESTED
    shop.drained(engine)
    assert cleaned.is_set() and shop.job(job).state is State.CANCELLED
    assert (shop.job(job).error or {})["message"] == "not needed"


def test_a_cancel_from_elsewhere_is_heard_long_before_the_next_heartbeat(shop: Shop) -> None:
    """A5. SQLite says that something was committed, and not what; it took until the next beat, 10 s."""
    begun = threading.Event()

    @shop.app.job
    def long(ctx: Context) -> None:
        begun.set()
        ctx.sleep(60)

    job = long.enqueue()
    engine = shop.serve(lease=60.0, heartbeat=30.0)
    assert begun.wait(10)
    with open_store(shop.app.url) as elsewhere:
        elsewhere.jobs.cancel(job.id)
    shop.until(lambda: shop.job(job).state is State.CANCELLED, timeout=5)
    shop.drained(engine)


def test_a_cancel_that_is_heard_late_does_not_stop_the_next_run(shop: Shop) -> None:
    """It was asked of a hold that ended meanwhile; the job was retried by hand, and runs again."""
    begun = threading.Event()

    @shop.app.job
    def brief(ctx: Context) -> int:
        begun.set()
        ctx.sleep(0.3)
        return 1

    job = brief.enqueue()
    engine = shop.serve()
    assert begun.wait(10)
    engine._board.cancel(CancelAsked(job.id, 0))
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED


def test_an_idle_instance_does_not_ask_for_cancels(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    engine = shop.serve(lease=60.0, heartbeat=30.0, phases=("work",))
    asked: list[float] = []

    def cancels() -> list[CancelAsked]:
        asked.append(time.monotonic())
        return []

    holder: Any = engine.holder
    holder.cancels = cancels
    for _ in range(20):
        shop.store.enqueue([NewJob(kind="elsewhere")])
        time.sleep(0.05)
    assert asked == []


def test_a_claimed_job_that_only_waits_is_cancelled_without_running(shop: Shop) -> None:
    gate, ran = threading.Event(), []

    @shop.app.job(processors=1)
    def queue_up(n: int) -> None:
        ran.append(n)
        gate.wait(10)

    for n in range(30):  # fast at first, so that some are claimed ahead
        queue_up.enqueue(n=-1 - n)
    gate.set()
    engine = shop.serve(prefetch=10.0)
    shop.drained(engine)
    gate.clear()
    jobs = [queue_up.enqueue(n=n) for n in range(3)]
    shop.until(lambda: engine.report().phases["queue_up"].waiting == 2)
    shop.store.jobs.cancel(jobs[2].id)
    shop.until(lambda: shop.job(jobs[2]).state is State.CANCELLED)
    gate.set()
    shop.drained(engine)
    assert 2 not in ran and 1 in ran


def test_stopping_gives_back_what_waits_and_lets_running_jobs_finish(shop: Shop) -> None:
    """C6: nothing lost, no attempt burnt."""
    begun, gate = threading.Event(), threading.Event()

    @shop.app.job(processors=1)
    def work(n: int) -> int:
        begun.set()
        gate.wait(10)
        return n

    jobs = [work.enqueue(n=n) for n in range(5)]
    engine = shop.serve()
    assert begun.wait(10)
    stopper = threading.Thread(target=engine.stop)
    stopper.start()
    shop.until(lambda: engine.state == "stopping")
    gate.set()
    stopper.join(10)
    states = [shop.job(job) for job in jobs]
    assert [job.state for job in states].count(State.COMPLETED) == 1
    assert all(
        (job.state, job.attempt) == (State.QUEUED, 0) for job in states if job.state is not State.COMPLETED
    )
    assert shop.store.instances.list() == [], "an instance that stopped in order is gone"


def test_after_the_grace_time_running_jobs_are_stopped_and_given_back(shop: Shop) -> None:
    begun, ends = threading.Event(), []

    @shop.app.job
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("cleaned")

    job = endless.enqueue()
    engine = shop.serve()
    assert begun.wait(10)
    began = time.monotonic()
    engine.stop(grace=0.2)
    assert time.monotonic() - began < 5 and ends == ["cleaned"]
    assert (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)


def test_a_second_call_to_stop_does_not_wait_for_the_grace_time(shop: Shop) -> None:
    begun = threading.Event()

    @shop.app.job
    def endless(ctx: Context) -> None:
        begun.set()
        ctx.sleep(60)

    job = endless.enqueue()
    engine = shop.serve()
    assert begun.wait(10)
    first = threading.Thread(target=engine.stop, kwargs={"grace": 50})
    first.start()
    shop.until(lambda: engine.state == "stopping")
    began = time.monotonic()
    engine.stop()
    first.join(10)
    assert time.monotonic() - began < 5 and shop.job(job).state is State.QUEUED


def test_a_blocked_loop_is_named_and_costs_no_lease(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """I-11: three lease lengths of time.sleep in a coroutine."""
    runs: list[float] = []

    @shop.app.job(timeout=None)
    async def blocking() -> None:
        runs.append(time.monotonic())
        time.sleep(3.2)  # noqa: ASYNC251  that is the point

    job = blocking.enqueue()
    first = shop.serve(lease=1.0, heartbeat=0.25, margin=0.25, blocked_after=0.3)
    shop.until(lambda: runs)
    second = shop.serve(lease=1.0, heartbeat=0.25, margin=0.25)
    with caplog.at_level(logging.WARNING):
        shop.until(lambda: any("blocks the event loop" in record.getMessage() for record in caplog.records))
    report = first.report()
    assert "loop: a handler blocks the event loop" in report.degraded and report.loop_limit == 0.3
    shop.drained(second)
    shop.drained(first)
    assert len(runs) == 1 and shop.job(job).state is State.COMPLETED and shop.job(job).crashes == 0
    assert [engine.stats.report().count("loop_blocked") for engine in (first, second)] == [1, 0]
    (warning,) = [record for record in caplog.records if getattr(record, "event", "") == "loop.blocked"]
    assert job.id in warning.getMessage() and "time.sleep" in str(getattr(warning, "stack", ""))


def test_an_instance_that_was_declared_dead_stops_its_jobs_and_begins_anew(shop: Shop) -> None:
    """B3, I-5."""
    begun, ends, ids = threading.Event(), [], []

    @shop.app.job
    async def hold(ctx: Context) -> str:
        ids.append(ctx.lease.token)
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
    assert begun.wait(10)
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
                ends.append(time.monotonic())
        return "again"

    job = hold.enqueue()
    engine = shop.serve(lease=1.5, heartbeat=0.3, margin=0.5)
    assert begun.wait(10)
    holder: Any = engine.holder
    frozen = threading.Event()
    real = holder.beat

    def freeze(**options: Any) -> Any:
        if not frozen.wait(6):
            raise AssertionError("nobody let go")
        return real(**options)

    at = time.monotonic()
    holder.beat = freeze
    shop.until(lambda: ends)
    assert 0.3 < ends[0] - at < 1.5 + 0.3, "before the lease was over"
    assert engine.stats.report().count("self_stops") == 1
    assert "lease: it could not be renewed in time; nothing is claimed" in engine.report().degraded
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
            let_go.wait(30)
        return "again"

    job = hold.enqueue()
    engine = shop.serve(lease=1.5, heartbeat=0.3, margin=0.5, recovery=60.0)
    assert begun.wait(10)
    holder: Any = engine.holder
    answers, real = threading.Event(), holder.beat
    holder.beat = lambda **options: real(**options) if answers.wait(20) else None
    shop.until(lambda: engine.report().phases["hold"].error == 1)
    answers.set()
    shop.until(lambda: shop.job(job).state is State.COMPLETED)
    assert engine.holder is holder, "the lease was renewed, not lost"
    let_go.set()
    shop.drained(engine)
    assert shop.job(job).result == "again" and runs == [1, 1], "it was not the job's fault"


def test_a_paused_phase_is_served_when_it_is_resumed(shop: Shop) -> None:
    @shop.app.job
    async def wait_for_it() -> None: ...

    shop.store.phases.pause("wait_for_it", "maintenance", lasts=timedelta(hours=1))
    job = wait_for_it.enqueue()
    engine = shop.serve(scan=0.2)
    time.sleep(0.6)
    assert shop.job(job).state is State.QUEUED
    shop.store.phases.resume("wait_for_it")
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED


def test_what_is_claimed_while_the_engine_stops_is_given_back_by_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step may be under way when a stop comes: its jobs were left to recovery, as if their instance had died."""

    @shop.app.job(processors=5)
    async def work(n: int) -> None: ...

    real = Holder.step
    claimed, answer = threading.Event(), threading.Event()

    def step(holder: Holder, outcomes: Any = (), want: Any = None) -> Any:
        done = real(holder, outcomes, want)
        if done.claimed:
            claimed.set()
            answer.wait(10)
        return done

    monkeypatch.setattr(Holder, "step", step)  # before the engine is there: not one step goes past it
    engine = shop.serve()
    jobs = work.enqueue_many({"n": n} for n in range(20))
    assert claimed.wait(10)
    stopper = threading.Thread(target=engine.stop)
    stopper.start()
    shop.until(lambda: engine.state == "stopping")
    time.sleep(0.2)
    answer.set()
    stopper.join(10)
    assert [shop.job(job).state for job in jobs] == [State.QUEUED] * 20
    leases = shop.store.join().claim(shop.job(jobs[0]).phase, 50)
    assert len(leases) == 20
    assert {lease.attempt for lease in leases} == {1}
    assert not any(lease.flags & Flag.SUSPECT for lease in leases), "nobody died"


def test_what_waits_is_given_back_at_once_when_the_engine_stops(shop: Shop) -> None:
    """C6: others need not wait for the job that runs here, nor for the grace time."""
    line = Line.in_memory(shop)
    other = shop.store.join(lease=timedelta(seconds=60))
    stopper = threading.Thread(target=line.engine.stop, kwargs={"grace": 30})
    stopper.start()
    claimed: list[Any] = []

    def have_all() -> bool:
        claimed.extend(other.claim("work", 5))
        return len(claimed) == 4

    shop.until(have_all, timeout=10)
    assert stopper.is_alive() and not line.gate.is_set()
    assert {lease.id for lease in claimed} == {job.id for job in line.jobs[1:]}
    assert {lease.attempt for lease in claimed} == {1}, "none was spent"
    line.gate.set()
    stopper.join(10)
    assert shop.job(line.jobs[0]).state is State.COMPLETED and [n for n, _ in line.ran] == [0]


def test_a_lease_that_ends_unrenewed_gives_back_what_waits(shop: Shop) -> None:
    """Steps may still work where beats do not: what has not begun is others' at once, and does not begin here."""
    line = Line.in_memory(shop, lease=3.0, heartbeat=0.3, margin=2.2, recovery=60.0)
    break_beats(line.engine)
    shop.until(lambda: all(shop.job(job).state is State.QUEUED for job in line.jobs), timeout=10)
    assert {shop.job(job).attempt for job in line.jobs} == {0}
    assert [n for n, _ in line.ran] == [0]


def test_an_instance_that_was_declared_dead_begins_nothing_that_waited(shop: Shop) -> None:
    """B3: the jobs in its memory are others' now; under their old tokens they would run twice."""
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

    engine = shop.serve(lease=3.0, heartbeat=0.2, margin=2.5, recovery=60.0)
    mend = break_beats(engine)
    shop.until(lambda: any("lease" in part for part in engine.report().degraded))
    job = work.enqueue()
    time.sleep(0.4)
    assert (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)
    mend()
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


def test_a_process_is_gone_before_its_job_is_given_back(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6: another instance may begin with it in that very moment."""
    monkeypatch.setattr("windlass.engine.engine.STOP_WAIT", 0.1)
    job = shop.app.job(executor="process")(handlers.sleep).enqueue(path=str(tmp_path / "begun"))
    engine = shop.serve(cancel_grace=60.0)
    pid = process_begun(tmp_path / "begun")
    holder: Any = engine.holder
    real, alive = holder.step, []

    def step(outcomes: Any = (), want: Any = None) -> Any:
        if any(isinstance(outcome, Released) for outcome in outcomes):
            alive.append(is_alive(pid))
        return real(outcomes, want)

    holder.step = step
    engine.stop(grace=0)
    assert alive == [False] and (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)


def test_a_process_that_does_not_stop_has_the_grace_time_of_the_settings(shop: Shop, tmp_path: Path) -> None:
    """A5: cancel_grace."""
    job = shop.app.job(executor="process")(handlers.sleep).enqueue(path=str(tmp_path / "begun"))
    engine = shop.serve(cancel_grace=0.2)
    pid = process_begun(tmp_path / "begun")
    asked = time.monotonic()
    shop.store.jobs.cancel(job.id)
    shop.until(lambda: shop.job(job).state is State.CANCELLED)
    assert 0.2 <= time.monotonic() - asked < 4 and not is_alive(pid)
    shop.drained(engine)


def test_the_start_of_a_process_does_not_count_against_the_time_limit(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C5: the job has not begun, and importing an application may take longer than the job."""
    (tmp_path / "slow_to_import.py").write_text(
        "import time\nimport tests.engine.process_handlers\ntime.sleep(0.8)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WINDLASS_CHILD_PRELOAD", "slow_to_import")
    job = shop.app.job(executor="process", timeout=0.5, retry=fixed(1))(handlers.echo).enqueue(
        value="in time"
    )
    shop.drained(shop.serve())
    assert shop.job(job).result == "in time"


@pytest.mark.parametrize("hangs", ["the minute's counts", "leaving"])
def test_a_stop_ends_in_time_although_the_database_hangs_at_its_very_end(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    """Everything is given back by then; others forget this instance by themselves."""
    monkeypatch.setattr("windlass.engine.engine.LAST_WORDS", 1.0)
    reached, answer = threading.Event(), threading.Event()

    def hang() -> None:
        reached.set()
        answer.wait(15)

    @shop.app.job
    async def work() -> None: ...

    engine = shop.serve()
    if hangs == "leaving":
        monkeypatch.setattr(engine.holder, "leave", hang)
    else:
        monkeypatch.setattr(engine._duties.rollups, "run", hang)
    began = time.monotonic()
    engine.stop(grace=0)
    took = time.monotonic() - began
    answer.set()
    assert reached.is_set() and took < 5 and engine.state == "stopped"


@pytest.mark.parametrize("where", ["_await_idle", "_end"])
def test_a_stop_that_was_interrupted_is_completed_by_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Ctrl-C while it waited: whoever called it again was told at once that all was done, and nothing was."""
    begun = threading.Event()

    @shop.app.job
    def endless(ctx: Context) -> None:
        begun.set()
        ctx.sleep(60)

    job = endless.enqueue()
    engine = shop.serve()
    assert begun.wait(10)

    def interrupt(*_args: Any, **_options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(engine, where, interrupt)
        engine.stop(grace=0)
    assert engine.state == "stopping" and not engine.wait(0)
    engine.stop(grace=0)
    assert engine.state == "stopped" and engine.wait(0)
    assert (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)
    assert shop.store.instances.list() == []
