"""The builder: every part can be replaced, and two of them do not see each other."""

from __future__ import annotations

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
from windlass.errors import ConfigError
from windlass.model import State
from windlass.requests import Status
from windlass.store import open_store

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

    @app.job(retry=windlass.fixed(2, wait=5))
    def shaky(ctx: windlass.Context) -> int:
        if ctx.attempt == 1:
            raise ConnectionError("once")
        return ctx.attempt

    return app


def config(tmp_path: Path, name: str = "one", more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"database.url": f"sqlite:///{tmp_path}/{name}.db", **(more or {})}


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

        def __enter__(self) -> None:
            bounds.append("in")

        def __exit__(self, *_: object) -> None:
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
    assert asked == [job.id] and slept == [5.0] and bounds == [3, "in", "out"] and bg.logger is logger
    assert bg.process_request(bg.enqueue("fetch", path="/z").id).job.result == "double:/z"
    bg.close()
    assert store.jobs.get(job.id).state is State.COMPLETED, "what was given stays open"
    store.close()


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
    assert threading.active_count() == before, "nothing is left behind"


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
        (hold,) = (reference() for reference in locks._holds.values())
        hold.renew()
        return str(two.process_request(ctx.job_id).status)

    settings = config(tmp_path, more={"redis.url": valkey_url})
    with (
        windlass.build(settings, app=app) as one,
        windlass.build(settings, app=app) as two,
        redis.Redis.from_url(valkey_url) as redis_client,
        written() as lines,
    ):
        job = one.enqueue("losing", correlation_id="req-1")
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
        job = bg.enqueue("twice", correlation_id="req-1")
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
