"""A worker whose configuration requires locks runs no job without one, and its health says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.cli.bench import Bench, heard
from tests.engine.shop import QUICK
from tests.locks.conftest import Opener
from tests.locks.server import OwnValkey
from tests.waiting import PATIENCE, eventually
from windlass.app.app import App
from windlass.engine import duties
from windlass.engine.engine import Engine
from windlass.errors import ConfigError
from windlass.locks import fallback
from windlass.model import State
from windlass.observe import health

pytestmark = pytest.mark.timing


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "PROBE_EVERY", 0.1)
    monkeypatch.setattr(duties, "CHECK_EVERY", 0.1)


@pytest.fixture
def app(store_url: str, own_valkey: OwnValkey) -> Iterator[App]:
    config = {"redis.url": own_valkey.url, "background.redis_lock_required": True}
    with App(store_url, config=config, settings=QUICK) as made:
        yield made


@pytest.fixture
def serve(app: App) -> Iterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def start(**changes: Any) -> Engine:
        made.append(app.worker(**changes))
        made[-1].start()
        return made[-1]

    yield start
    for engine in made:
        engine.stop(grace=0)


def keys(server: OwnValkey) -> list[str]:
    with server.client() as client:
        return [key for key in client.keys("bg:req:*") if "instance:" not in key and "probe:" not in key]


def test_with_redis_away_no_job_runs_and_health_says_so(
    app: App, serve: Callable[..., Engine], own_valkey: OwnValkey
) -> None:
    ran: list[int] = []

    @app.job
    def pay(n: int) -> None:
        ran.append(n)

    own_valkey.kill()
    jobs = [pay.enqueue(n=n) for n in range(3)]
    engine = serve()
    eventually(lambda: not health.ready(engine.report()))
    found = health.detailed(engine.report())
    part = found["parts"]["redis lock"]
    assert found["status"] == part["state"] == "down" and "no job runs" in part["seen"]
    assert "redis_lock_required" in part["advice"] and not found["ready"] and found["live"]
    # What was claimed before the fault was known is given back, and from then on there is work that is left.
    eventually(lambda: {app.store.jobs.get(job.id).state for job in jobs} == {State.QUEUED})
    eventually(lambda: engine.is_idle and engine._stepper._discovery.due())
    assert not ran and {app.store.jobs.get(job.id).state for job in jobs} == {State.QUEUED}
    assert all(app.store.jobs.get(job.id).attempt == 0 for job in jobs)
    own_valkey.start()
    eventually(lambda: sorted(ran) == [0, 1, 2])
    eventually(lambda: health.ready(engine.report()) and health.status(engine.report()) == "ok")
    eventually(lambda: not keys(own_valkey))


@pytest.mark.slow
def test_the_command_obeys_the_setting(
    own_valkey: OwnValkey, sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKGROUND_REDIS_LOCK_REQUIRED", "true")
    monkeypatch.setenv("WINDLASS_REDIS_URL", own_valkey.url)
    own_valkey.kill()
    bench = Bench(f"sqlite:///{sqlite_path}")
    try:
        bench.app().hello.enqueue(name="x")
        worker = bench.worker("--drain", "--set", "health=0.1")
        told = heard(worker, '"down"')
        assert "locks are required, so no job runs" in told and "lock.degraded" in told
        bench.until(lambda: bench.store.phases.counts()["hello"].queued == 1)
        own_valkey.start()
        bench.until(lambda: bench.store.phases.counts()["hello"].completed == 1)
        assert worker.wait(PATIENCE) == 0
    finally:
        bench.close()


def test_when_redis_goes_away_running_jobs_end_and_no_other_begins(
    app: App, serve: Callable[..., Engine], own_valkey: OwnValkey
) -> None:
    ran: list[int] = []
    begun, gate = threading.Event(), threading.Event()

    @app.job(processors=1)
    def pay(n: int) -> None:
        ran.append(n)
        begun.set()
        assert gate.wait(PATIENCE)

    first, second = pay.enqueue(n=1), pay.enqueue(n=2)
    engine = serve()
    assert begun.wait(PATIENCE)
    own_valkey.kill()
    gate.set()
    eventually(lambda: app.store.jobs.get(first.id).state is State.COMPLETED)
    eventually(lambda: not health.ready(engine.report()) and engine.is_idle)
    assert ran == [1] and app.store.jobs.get(second.id).state is State.QUEUED
    own_valkey.start()
    eventually(lambda: app.store.jobs.get(second.id).state is State.COMPLETED)


def test_a_job_whose_lock_another_process_holds_is_put_off_and_no_other_job(
    app: App, serve: Callable[..., Engine], own_valkey: OwnValkey, opened_locks: Opener
) -> None:
    ran: list[int] = []

    @app.job(processors=1)
    def pay(n: int) -> None:
        ran.append(n)

    others = opened_locks(own_valkey.url)
    job = pay.enqueue(n=7)
    with others.acquire(job.id) as lock:
        assert lock
        behind = [pay.enqueue(n=n) for n in range(3)]
        engine = serve()
        eventually(lambda: sorted(ran) == [0, 1, 2])
        eventually(lambda: engine.stats.report().count("lock_held") >= 3)
        eventually(lambda: app.store.jobs.get(job.id).state is State.SCHEDULED)
        late = pay.enqueue(n=3)
        eventually(lambda: sorted(ran) == [0, 1, 2, 3])
        (refused,) = app.store.jobs.attempts(job.id)
        assert refused.error is not None, "once, however often the lock was refused"
        assert (
            refused.error["code"] == "lock_refused" and "held by worker-1 since" in refused.error["message"]
        )
        assert lock.renew() and not lock.is_lost
    eventually(lambda: app.store.jobs.get(job.id).state is State.COMPLETED)
    assert ran[-1] == 7 and app.store.jobs.get(job.id).attempt == 1 and health.ready(engine.report())
    assert all(app.store.jobs.get(other.id).state is State.COMPLETED for other in [*behind, late])


def test_a_lock_is_held_while_its_job_runs_and_released_at_each_end(
    app: App, serve: Callable[..., Engine], own_valkey: OwnValkey
) -> None:
    """Ends that are recorded, retried, and committed by the handler itself."""
    seen: list[bool] = []

    def look(ctx: windlass.Context) -> None:
        with own_valkey.client() as client:
            seen.append(client.get(f"bg:req:{ctx.job_id}") is not None)

    @app.job(retry=windlass.retry.fixed(2, wait=0.01))
    def again(ctx: windlass.Context) -> None:
        look(ctx)
        if ctx.attempt == 1:
            raise ValueError("once more")

    @app.job
    def committed(ctx: windlass.Context) -> None:
        look(ctx)
        with ctx.transaction() as tx:
            tx.complete(None)

    jobs = [again.enqueue(), committed.enqueue()]
    serve()
    eventually(lambda: all(app.store.jobs.get(job.id).state is State.COMPLETED for job in jobs))
    assert seen == [True, True, True]
    eventually(lambda: not keys(own_valkey))


def test_without_a_url_required_locks_are_refused_at_once(store_url: str) -> None:
    with App(store_url, config={"background.redis_lock_required": True}) as app:

        @app.job
        def work() -> None: ...

        with pytest.raises(
            ConfigError, match=r"redis_lock_required = True .* redis\.url is not set; set redis\.url"
        ):
            app.worker()


@pytest.mark.slow
def test_the_command_refuses_required_locks_without_a_url(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKGROUND_REDIS_LOCK_REQUIRED", "true")
    bench = Bench(f"sqlite:///{sqlite_path}")
    try:
        worker = bench.worker()
        _, errors = worker.communicate(timeout=PATIENCE)
        assert worker.returncode not in (0, None) and "Traceback" not in errors
        assert "background.redis_lock_required" in errors and "set redis.url (WINDLASS_REDIS_URL)" in errors
    finally:
        bench.close()


def test_locks_that_are_not_required_are_not_used_by_workers(store_url: str, own_valkey: OwnValkey) -> None:
    ran: list[int] = []
    with App(store_url, config={"redis.url": own_valkey.url}, settings=QUICK) as app:

        @app.job
        def pay() -> None:
            ran.append(1)

        own_valkey.kill()
        pay.enqueue()
        engine = app.worker()
        engine.start()
        eventually(lambda: ran)
        assert health.ready(engine.report())
        engine.stop(grace=0)


def test_a_builds_worker_uses_the_locks_of_the_build(store_url: str, own_valkey: OwnValkey) -> None:
    """A request that runs beside a worker of the same process has the same locks."""
    app = App()
    ran: list[int] = []

    @app.job
    def pay() -> None:
        ran.append(1)

    config = {"database.url": store_url, "redis.url": own_valkey.url, "background.redis_lock_required": True}
    with windlass.build(config, app=app) as bg:
        job = bg.enqueue("pay")
        worker = bg.worker(scan_unheard=0.1)
        with bg.locks.acquire(job.id):
            worker.start()
            eventually(lambda: bg.requests.stats.report().count("lock_held") >= 1)
            assert not ran
        eventually(lambda: ran)
        worker.stop(grace=0)
        with bg.locks.acquire("another") as lock:
            assert lock, "they are still open"
