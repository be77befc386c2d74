"""The builder: every part can be replaced, and two of them do not see each other."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.observe.lines import written
from tests.waiting import PATIENCE, eventually
from windlass.clock import ManualClock
from windlass.engine.one_job import Status
from windlass.errors import ConfigError
from windlass.features import open_store
from windlass.model import State

pytestmark = pytest.mark.timing


class Client:
    """Somebody's HTTP client."""

    def __init__(self, name: str) -> None:
        self.name = name


def make_app() -> windlass.App:
    app = windlass.App("sqlite:///not-used.db")

    @app.job
    def fetch(path: str, client: Client) -> str:
        return f"{client.name}{path}"

    @app.job(retry=windlass.retry.fixed(2, wait=5))
    def shaky(ctx: windlass.Context) -> int:
        if ctx.attempt == 1:
            raise ConnectionError("once")
        return ctx.attempt

    return app


def config(tmp_path: Path, name: str = "one", more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"database.url": f"sqlite:///{tmp_path}/{name}.db", **(more or {})}


def test_jobs_have_the_titles_of_their_kinds(tmp_path: Path) -> None:
    app = make_app()

    @app.job(title="invoice {number}")
    def invoice(number: int) -> None: ...

    with windlass.build(config(tmp_path), app=app) as bg:
        assert bg.app.jobs.get(bg.enqueue("invoice", number=7).id).title == "invoice 7"


def test_a_config_is_enough(tmp_path: Path) -> None:
    with windlass.build(config(tmp_path), app=make_app(), http=Client("http:")) as bg:
        job = bg.enqueue("fetch", path="/x")
        assert bg.process_request(job.id).job.result == "http:/x"
        second = bg.enqueue("fetch", path="/y")
        engine = bg.worker(scan_unheard=0.1)
        engine.start()
        eventually(lambda: bg.store.jobs.get(second.id).state.is_final)
        engine.stop()
        assert bg.store.jobs.get(second.id).result == "http:/y"
    assert not (tmp_path.parent / "not-used.db").exists()


def test_every_part_can_be_given(tmp_path: Path) -> None:
    clock = ManualClock()
    asked: list[str] = []
    slept: list[float] = []
    bounds: list[Any] = []
    store = open_store(f"sqlite:///{tmp_path}/mine.db", clock=clock)

    class Locks:
        @contextmanager
        def acquire(self, request_id: str) -> Iterator[bool]:
            asked.append(request_id)
            yield True

    class Bound:
        def __init__(self, limit: int) -> None:
            bounds.append(limit)

        def acquire(self, blocking: bool = True) -> bool:
            bounds.append("in")
            return True

        def release(self) -> None:
            bounds.append("out")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(timedelta(seconds=seconds))

    logger = logging.getLogger("mine")
    bg = windlass.build(
        {"runtime.max_concurrent_calls": 3}, app=make_app(), store=store, locks=Locks(), clock=clock, semaphore=Bound,
        sleep=sleep, logger=logger, http=Client("double:"),
    )  # fmt: skip
    job = bg.enqueue("shaky")
    answer = bg.process_request(job.id)
    assert (answer.status, answer.job.result, answer.attempts) == (Status.COMPLETED, 2, 2)
    assert asked == [job.id] and slept == [5.0] and bounds == [3, "in", "out"]
    assert bg.process_request(bg.enqueue("fetch", path="/z").id).job.result == "double:/z"
    bg.close()
    assert store.jobs.get(job.id).state is State.COMPLETED, "what was given stays open"
    store.close()


class Kept(logging.Handler):
    """A logger of an application's own, and what was written to it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.logger = logging.getLogger(name)
        self.logger.setLevel(logging.DEBUG)
        self.logger.propagate = False
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def told(self, event: str) -> list[str]:
        """The jobs of an event."""
        return [vars(one)["job_id"] for one in self.records if getattr(one, "event", "") == event]


def test_the_logger_that_was_given_gets_the_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of enqueues, requests and workers, from all their threads; each builder's own, and the package's loggers get none."""
    app = make_app()

    @app.job
    def plain() -> None: ...

    @app.job
    async def coroutine() -> None: ...

    @app.job(retry=windlass.retry.fixed(1))
    async def broken() -> None:
        raise ValueError("no")

    mine, other = Kept("mine"), Kept("other")
    caplog.set_level(logging.DEBUG, "windlass")
    with (
        windlass.build(config(tmp_path, "one"), app=app, http=Client("one:"), logger=mine.logger) as one,
        windlass.build(config(tmp_path, "two"), app=app, http=Client("two:"), logger=other.logger) as two,
    ):
        caplog.clear()
        assert one.logger is mine.logger
        jobs = [one.enqueue(kind).id for kind in ("plain", "coroutine", "broken")]
        request = one.enqueue("plain").id
        assert one.process_request(request).status is Status.COMPLETED
        engine = one.worker(scan=0.2)
        engine.start()
        eventually(lambda: all(one.store.jobs.get(job).state.is_final for job in jobs))
        engine.stop()
        elsewhere = two.enqueue("plain").id
        two.process_request(elsewhere)
    assert sorted(mine.told("job.enqueued")) == sorted([*jobs, request])
    assert set(mine.told("job.claimed")) == {*jobs, request} == set(mine.told("job.started"))
    assert set(mine.told("job.completed")) == {jobs[0], jobs[1], request} and mine.told("job.failed") == [
        jobs[2]
    ]
    events = {getattr(record, "event", "") for record in mine.records}
    assert {"instance.started", "instance.stopping", "instance.stopped"} <= events
    assert other.told("job.enqueued") == other.told("job.completed") == [elsewhere]
    assert elsewhere not in mine.told("job.enqueued") and not set(other.told("job.claimed")) & {
        *jobs,
        request,
    }
    assert not [record for record in caplog.records if getattr(record, "event", "").startswith("job.")]


def test_without_a_logger_the_lines_go_where_they_went(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "windlass")
    with windlass.build(config(tmp_path, "plain"), app=make_app(), http=Client("")) as bg:
        bg.process_request(bg.enqueue("fetch", path="/").id)
    assert "job.completed" in {getattr(record, "event", "") for record in caplog.records}


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_the_semaphore_bounds_workers_and_requests_together(tmp_path: Path, colour: str) -> None:
    app, lock, gate = windlass.App("sqlite:///unused.db"), threading.Lock(), threading.Event()
    now, most, begun = [0], [0], threading.Semaphore(0)

    def enter() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        begun.release()

    def leave() -> None:
        with lock:
            now[0] -= 1

    @app.job(name="plain")
    def plain() -> None:
        enter()
        gate.wait(PATIENCE)
        leave()

    @app.job(name="async")
    async def coroutine() -> None:
        enter()
        await asyncio.to_thread(gate.wait, PATIENCE)
        leave()

    made: list[threading.BoundedSemaphore] = []

    def factory(limit: int) -> threading.BoundedSemaphore:
        made.append(threading.BoundedSemaphore(limit))
        return made[-1]

    settings = config(tmp_path, "bounded", more={"runtime.max_concurrent_calls": 2})
    with windlass.build(settings, app=app, semaphore=factory) as bg:
        request = bg.enqueue(colour)
        requester = threading.Thread(target=bg.process_request, args=(request.id,))
        requester.start()
        assert begun.acquire(timeout=PATIENCE), "the request has one of two places"
        jobs = [bg.enqueue(colour) for _ in range(5)]
        engine = bg.worker(scan=0.2, cycle=0.1)
        engine.start()
        assert begun.acquire(timeout=PATIENCE), "and a job of the worker the other"
        eventually(lambda: engine.report().phases[colour].waiting > 0)
        (semaphore,) = made
        assert not semaphore.acquire(blocking=False) and now[0] == 2
        gate.set()
        requester.join(PATIENCE)
        eventually(lambda: all(bg.store.jobs.get(job.id).state is State.COMPLETED for job in jobs))
        engine.stop()
        assert most[0] == 2
        assert semaphore.acquire(blocking=False) and semaphore.acquire(blocking=False), "all were given back"


def test_a_semaphore_that_cannot_bound_workers_is_refused(tmp_path: Path) -> None:
    settings = config(tmp_path, "bounded", more={"runtime.max_concurrent_calls": 2})
    with pytest.raises(ConfigError, match="semaphore"):
        windlass.build(settings, app=make_app(), semaphore=lambda limit: object(), http=Client(""))


def test_two_builders_do_not_see_each_other(tmp_path: Path) -> None:
    app = make_app()
    with (
        windlass.build(config(tmp_path, "one"), app=app, http=Client("one:")) as one,
        windlass.build(config(tmp_path, "two"), app=app, http=Client("two:")) as two,
    ):
        jobs = [bg.enqueue("fetch", path="/") for bg in (one, two)]
        assert two.process_request(jobs[1].id).job.result == "two:/"
        assert one.process_request(jobs[0].id).job.result == "one:/"
        with pytest.raises(windlass.WindlassError):
            one.store.jobs.get(jobs[1].id)


def test_a_bad_config_makes_nothing(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(ConfigError, match="attempts"):
        windlass.build(config(tmp_path, more={"background.retry.attempts": 0}))
    with pytest.raises(ConfigError, match="required"):
        windlass.build(config(tmp_path, more={"background.redis_lock_required": True}))
    assert threading.active_count() <= before, "nothing is left behind"


def test_with_a_real_redis_the_lock_is_there_while_the_job_runs(tmp_path: Path, valkey_url: str) -> None:
    import redis

    app = windlass.App("sqlite:///unused.db")
    begun, gate = threading.Event(), threading.Event()

    @app.job
    def slow() -> str:
        begun.set()
        gate.wait(PATIENCE)
        return "done"

    settings = config(tmp_path, more={"redis.url": valkey_url})
    with (
        windlass.build(settings, app=app) as one,
        windlass.build(settings, app=app) as two,
        redis.Redis.from_url(valkey_url) as client,
    ):
        job = one.enqueue("slow")
        answers: list[Any] = []
        runner = threading.Thread(target=lambda: answers.append(one.process_request(job.id)))
        runner.start()
        assert begun.wait(PATIENCE)
        assert client.pttl(f"bg:req:{job.id}") > 200_000
        assert two.process_request(job.id).status is Status.LOCK_HELD
        assert two.requests.stats.report().counts["lock_held", ""] == 1
        gate.set()
        runner.join(PATIENCE)
        assert answers[0].status is Status.COMPLETED and client.get(f"bg:req:{job.id}") is None
        assert two.process_request(job.id).status is Status.ALREADY_DONE


def test_lines_about_a_lock_have_the_ids_of_its_job(tmp_path: Path, valkey_url: str) -> None:
    """A job that runs here is known from its lease, any other from the database."""
    import redis

    app = windlass.App("sqlite:///unused.db")
    names = ("job_id", "correlation_id", "kind", "phase", "attempt")

    @app.job
    def losing(ctx: windlass.Context) -> str:
        redis_client.delete(f"bg:req:{ctx.job_id}")
        locks: Any = one.locks
        (hold,) = (reference() for reference in locks._held.values())
        hold.renew()
        return str(two.process_request(ctx.job_id).status)

    settings = config(tmp_path, more={"redis.url": valkey_url})
    with (
        windlass.build(settings, app=app) as one,
        windlass.build(settings, app=app) as two,
        redis.Redis.from_url(valkey_url) as redis_client,
        written() as lines,
    ):
        job = one.app.kind("losing").options(correlation_id="req-1").enqueue()
        with two.locks.acquire(job.id):
            assert one.process_request(job.id).status is Status.LOCK_HELD
        answer = one.process_request(job.id, correlation_id="req-2")
    told = {line["event"]: [line.get(name) for name in names] for line in lines.objects}
    assert answer.job.result == "held by another instance", "its lock was gone, the claim was not"
    assert told["lock.held"] == [job.id, "req-1", "losing", "losing", 0]
    assert told["lock.lost"] == [job.id, "req-2", "losing", "losing", 1]


def test_outputs_that_were_there_are_counted_and_told(tmp_path: Path) -> None:
    """As a worker does it; here nobody heard of them."""
    app = windlass.App("sqlite:///unused.db")

    @app.job
    def twice(ctx: windlass.Context) -> list[bool]:
        return [ctx.put_output("page", n).created for n in range(2)]

    with windlass.build(config(tmp_path), app=app) as bg, written() as lines:
        job = bg.app.kind("twice").options(correlation_id="req-1").enqueue()
        assert bg.process_request(job.id).job.result == [True, False]
        assert bg.requests.stats.report().count("duplicates_prevented") == 1
    (line,) = [line for line in lines.objects if line["event"] == "duplicate.prevented"]
    assert (line["job_id"], line["correlation_id"], line["attempt"]) == (job.id, "req-1", 1)


def test_what_handlers_enqueue_is_a_job_of_the_database_they_run_for(tmp_path: Path) -> None:
    """Also through the app they were defined in, whose own database is another one, or none."""
    app = windlass.App(f"sqlite:///{tmp_path}/original.db")

    @app.job
    def child(ctx: windlass.Context) -> str:
        return ctx.principal.subject if ctx.principal else "nobody"

    @app.job
    def plain() -> None:
        child.enqueue()
        app.enqueue("child")

    @app.job
    async def coloured() -> None:
        await child.enqueue_async()
        await child.enqueue_many_async([{}])

    with windlass.build(config(tmp_path), app=app) as one, windlass.build(config(tmp_path, "two"), app=app):
        for kind in ("plain", "coloured"):
            with app.as_principal(windlass.Principal("u-7")):
                job = one.enqueue(kind)
            assert one.process_request(job.id).status is Status.COMPLETED
        children = [job for job in one.store.jobs.list().jobs if job.kind == "child"]
        assert [one.process_request(job.id).job.result for job in children] == ["u-7"] * 4
    assert not (tmp_path / "original.db").exists()
    child.enqueue()
    assert [job.kind for job in app.store.jobs.list().jobs] == ["child"], (
        "outside of jobs it is the app's own"
    )
    app.close()
