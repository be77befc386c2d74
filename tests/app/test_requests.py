"""process_request: one job, now, here, under the same rules as in a worker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.observe.lines import written
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE, Time
from windlass.engine.one_job import OneJobRunner, Status
from windlass.errors import ConfigError, JobNotFoundError
from windlass.handlers.context import Context
from windlass.model import NewJob, State
from windlass.model.retry import fixed
from windlass.model.signals import Cancel, Fail

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, sqlite_path: Path) -> Iterator[Shop]:
    made = Shop(f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres())
    yield made
    made.close()


@pytest.fixture
def requests(shop: Shop) -> Iterator[OneJobRunner]:
    with OneJobRunner(shop.store, shop.app.parts.registry, settings=shop.app.settings) as made:
        yield made


def test_a_job_runs_here_and_now(shop: Shop, requests: OneJobRunner) -> None:
    @shop.app.job
    def add(a: int, b: int) -> int:
        return a + b

    @shop.app.job
    async def later(n: int) -> int:
        await asyncio.sleep(0)
        return n

    first = add.enqueue(a=1, b=2)
    done = requests.process(first.id)
    assert (done.status, done.job.result, done.attempts) == (Status.COMPLETED, 3, 1)
    assert requests.process(first.id).status is Status.ALREADY_DONE
    second = later.options(delay=3600).enqueue(n=5)
    assert requests.process(second.id).job.result == 5, "one that is due later is run now"


def test_a_job_that_ends_in_its_own_transaction_has_its_running_time(
    shop: Shop, requests: OneJobRunner
) -> None:
    """It had none, and no processor, in its timeline; a worker's had both."""

    @shop.app.job
    def work(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.complete()

    job = work.enqueue()
    assert requests.process(job.id).status is Status.COMPLETED
    span = shop.store.jobs.timeline(job.id)[-1]
    assert span.ran is not None and span.processor == "work-processor-1"


@pytest.mark.parametrize("request_id", ["00000000-0000-7000-8000-000000000000", "no id at all"])
def test_a_request_that_does_not_exist_is_a_line_in_the_log(requests: OneJobRunner, request_id: str) -> None:
    with written() as lines:
        answer = requests.process(request_id, correlation_id="req-7")
    assert (answer.status, answer.found, answer.attempts) == (Status.UNKNOWN, None, 0)
    (line,) = [line for line in lines.objects if line["event"] == "request.unknown"]
    assert (line["job_id"], line["correlation_id"], line["level"]) == (request_id, "req-7", "info")
    with pytest.raises(JobNotFoundError, match=request_id):
        _ = answer.job


def test_the_callers_correlation_id_becomes_the_jobs(shop: Shop, requests: OneJobRunner) -> None:
    """On the job, its errors, its children, and as its handler sees it."""
    seen: list[str] = []

    @shop.app.job
    def child() -> None: ...

    @shop.app.job
    def parent(ctx: Context) -> None:
        seen.append(ctx.correlation_id)
        seen.append(shop.job(ctx.enqueue(NewJob(kind="child"))).correlation_id)

    job = parent.options(correlation_id="submitted").enqueue()
    done = requests.process(job.id, correlation_id="request-9")
    assert done.job.correlation_id == "request-9" and seen == ["request-9"] * 2
    kept = parent.options(correlation_id="submitted").enqueue()
    assert requests.process(kept.id).job.correlation_id == "submitted", "none was given"
    with pytest.raises(ConfigError, match="correlation_id"):
        requests.process(parent.enqueue().id, correlation_id="two\nlines")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_phase_whose_probe_finds_its_output_is_not_run(
    shop: Shop, requests: OneJobRunner, is_async: bool
) -> None:
    asked: list[int] = []
    ran: list[int] = []

    def look(n: int) -> int | None:
        asked.append(n)
        return 10 * n if n < 3 else None

    async def look_async(n: int) -> int | None:
        return look(n)

    @shop.app.job(probe=look_async if is_async else look)
    def work(n: int) -> int:
        ran.append(n)
        return n

    there, missing = work.enqueue(n=2), work.enqueue(n=3)
    with written() as lines:
        done = requests.process(there.id)
    assert (done.status, done.job.result, done.attempts) == (Status.ALREADY_DONE, 20, 0)
    assert [line["event"] for line in lines.objects if line["event"] == "duplicate.prevented"]
    assert requests.process(missing.id).status is Status.COMPLETED
    assert (asked, ran) == ([2, 3], [3])


def test_a_probe_that_raises_says_that_it_does_not_know(shop: Shop, requests: OneJobRunner) -> None:
    def look() -> bool:
        raise OSError("no share")

    @shop.app.job(probe=look)
    def work() -> str:
        return "done"

    assert requests.process(work.enqueue().id).job.result == "done"


def test_a_probe_is_asked_in_every_phase_of_a_pipeline(shop: Shop, requests: OneJobRunner) -> None:
    pipe, ran = shop.app.pipeline("probed"), []

    @pipe.phase("one", probe=lambda: "found")
    def one() -> str:
        ran.append("one")
        return "made"

    @pipe.phase("two")
    def two(ctx: Context) -> str:
        ran.append("two")
        return f"{ctx.output('one')} and more"

    done = requests.process(pipe.enqueue().id)
    assert (done.status, done.job.result, ran) == (Status.COMPLETED, "found and more", ["two"])


def test_every_phase_of_a_pipeline(shop: Shop, requests: OneJobRunner) -> None:
    pipe = shop.app.pipeline("pipe")

    @pipe.phase("one")
    def one(n: int) -> int:
        return n + 1

    @pipe.phase("two", retry=fixed(3, wait=0.01))
    async def two(n: int, ctx: Context) -> str:
        if ctx.attempt < 2:
            raise TimeoutError("slow")
        return f"{ctx.output('one')} after {n}"

    done = requests.process(pipe.enqueue(n=7).id)
    assert (done.status, done.job.result, done.attempts) == (Status.COMPLETED, "8 after 7", 3)
    assert [span.outcome for span in shop.store.jobs.timeline(done.job.id)] == [
        "advanced",
        "retried",
        "completed",
    ]


def test_failures_are_structured_and_under_the_callers_correlation_id(
    shop: Shop, requests: OneJobRunner
) -> None:
    @shop.app.job(retry=fixed(2, wait=0.01))
    def bad() -> None:
        raise ValueError("no")

    @shop.app.job
    def fatal() -> None:
        raise Fail("bad_county", "no such county")

    @shop.app.job
    def unwanted() -> None:
        raise Cancel("never mind")

    failed = requests.process(bad.enqueue().id, correlation_id="request-9")
    assert (failed.status, failed.attempts) == (Status.FAILED, 2) and failed.job.error is not None
    assert failed.job.error["correlation_id"] == "request-9" and failed.job.error["type"] == "ValueError"
    assert requests.process(fatal.enqueue().id).job.error["code"] == "bad_county"  # type: ignore[index]
    assert requests.process(unwanted.enqueue().id).status is Status.CANCELLED


def test_a_job_that_is_cancelled_meanwhile_stops(shop: Shop, requests: OneJobRunner) -> None:
    begun = threading.Event()

    @shop.app.job
    def long(ctx: Context) -> None:
        begun.set()
        ctx.sleep(2 * PATIENCE)

    job = long.enqueue()

    def cancel() -> None:
        if begun.wait(PATIENCE):
            shop.store.jobs.cancel(job.id)

    threading.Thread(target=cancel).start()
    assert requests.process(job.id).status is Status.CANCELLED


def test_a_job_somebody_else_holds_is_left_to_them(shop: Shop, requests: OneJobRunner) -> None:
    gate, begun = threading.Event(), threading.Event()

    @shop.app.job
    def slow() -> str:
        begun.set()
        gate.wait(PATIENCE)
        return "worker"

    job = slow.enqueue()
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    assert requests.process(job.id).status is Status.HELD
    gate.set()
    shop.drained(engine)
    assert shop.job(job).result == "worker"


def test_ten_callers_at_once_run_it_once(shop: Shop, requests: OneJobRunner) -> None:
    runs: list[int] = []

    @shop.app.job
    def once() -> None:
        runs.append(1)
        time.sleep(0.1)

    job = once.enqueue()
    answers: list[Status] = []
    threads = [
        threading.Thread(target=lambda: answers.append(requests.process(job.id).status)) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(runs) == 1 and answers.count(Status.COMPLETED) == 1
    assert set(answers) <= {Status.COMPLETED, Status.HELD, Status.ALREADY_DONE}


def test_a_lock_that_another_holds_means_no_work_and_no_change(shop: Shop) -> None:
    class Taken:
        @contextmanager
        def acquire(self, request_id: str) -> Iterator[bool]:
            yield False

    @shop.app.job
    def work() -> None: ...

    job = work.enqueue()
    with OneJobRunner(shop.store, shop.app.parts.registry, locks=Taken()) as requests:
        answer = requests.process(job.id)
        assert answer.status is Status.LOCK_HELD
    assert (shop.job(job).state, shop.job(job).attempt) == (State.QUEUED, 0)


def test_the_time_limit_holds_and_signs_of_life_move_it(
    shop: Shop, requests: OneJobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, has_looked = Time(), threading.Event()

    def now() -> float:
        """The time of the second job: a machine that stalls is no silence of the job."""
        if threading.current_thread() is threading.main_thread():
            has_looked.set()
        return clock.now

    @shop.app.job(timeout=0.3, retry=fixed(1))
    def stuck(ctx: Context) -> None:
        ctx.sleep(2 * PATIENCE)

    @shop.app.job(timeout=0.3, retry=fixed(1))
    def lively(ctx: Context) -> str:
        for _ in range(5):
            clock.now += 0.2
            ctx.alive()
            has_looked.clear()
            assert has_looked.wait(PATIENCE)  # at the limit
        return "done"

    late = requests.process(stuck.enqueue().id)
    assert (
        late.status is Status.FAILED and late.job.error is not None and late.job.error["code"] == "time_limit"
    )
    for module in ("one_job", "attempt"):
        monkeypatch.setattr(f"windlass.engine.{module}.time", SimpleNamespace(monotonic=now))
    assert requests.process(lively.enqueue().id).job.result == "done"


def test_no_more_at_once_than_allowed_by_a_semaphore_of_the_callers(shop: Shop) -> None:
    """The semaphore factory is a part that can be replaced."""
    made: list[Any] = []
    are_two = threading.Event()

    class Counting:
        def __init__(self, limit: int) -> None:
            self.inner, self.most, self.now = threading.BoundedSemaphore(limit), 0, 0
            made.append(self)

        def acquire(self, blocking: bool = True) -> bool:
            self.inner.acquire(blocking)
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == 2:
                are_two.set()
            return True

        def release(self) -> None:
            self.now -= 1
            self.inner.release()

    @shop.app.job
    def work() -> None:
        assert are_two.wait(PATIENCE)

    jobs = [work.enqueue() for _ in range(6)]
    settings = shop.app.settings.changed(max_concurrent_calls=2)
    with OneJobRunner(shop.store, shop.app.parts.registry, settings=settings, semaphore=Counting) as requests:
        threads = [threading.Thread(target=requests.process, args=(job.id,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert made[0].most == 2 and all(shop.job(job).state is State.COMPLETED for job in jobs)


def test_what_waits_for_others_is_not_ready(shop: Shop, requests: OneJobRunner) -> None:
    @shop.app.job
    def work() -> None: ...

    parent = work.enqueue()
    child = work.options(after=[parent]).enqueue()
    assert requests.process(child.id).status is Status.NOT_READY
    shop.store.phases.pause("work", "maintenance", lasts=timedelta(hours=1))
    assert requests.process(parent.id).status is Status.NOT_READY
