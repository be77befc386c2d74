"""Requests to living instances: drain, and processors of a phase."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.control.conftest import ANNA, BOSS, OPS
from tests.waiting import PATIENCE, eventually
from windlass import App, ConfigError, NotAllowedError
from windlass.engine.engine import Engine
from windlass.errors import InstanceNotFoundError
from windlass.features import Store
from windlass.model import State
from windlass.operations.request import RequestState

pytestmark = pytest.mark.timing


class Site:
    """A worker of one phase whose jobs run until they are let go."""

    def __init__(self, store: Store) -> None:
        self.go = threading.Event()
        self.running = 0
        self.most = 0
        self._lock = threading.Lock()
        self.app = App(store=store)
        self.app.job(name="slow", processors=2)(self.slow)
        self.worker: Engine = self.app.worker()

    def slow(self) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.go.wait(PATIENCE)
        with self._lock:
            self.running -= 1


@pytest.fixture
def site(store_url: str, stores: Callable[[str], Store]) -> Iterator[Site]:
    made = Site(stores(store_url))
    made.worker.start()
    yield made
    made.go.set()
    made.worker.stop()
    made.app.close()


def test_a_phase_gets_more_processors_until_the_next_start(site: Site) -> None:
    app = site.app
    handles = [app.enqueue("slow") for _ in range(6)]
    eventually(lambda: site.running == 2)
    asked = app.acting_as(BOSS).instances.set_processors(site.worker.id, "slow", 5, "a backlog")
    done = app.instances.wait(asked.id, PATIENCE)
    assert done.state is RequestState.DONE and done.done_at is not None
    assert done.outcome == "phase slow has 5 processors until the next start; it had 2"
    eventually(lambda: site.running == 5)
    names = [name for name, *_ in site.worker.processors()]
    assert names == [f"slow-processor-{number}" for number in range(1, 6)]
    site.go.set()
    for handle in handles:
        assert handle.wait(PATIENCE) is State.COMPLETED
    assert site.most == 5
    (record,) = app.audit.list().records
    assert (record.actor, record.act, record.target, record.name, record.reason) == (
        "boss",
        "instance.set_processors",
        "instance",
        site.worker.id,
        "a backlog",
    )
    assert record.after == {"phase": "slow", "processors": 5}
    assert app.worker().settings.processors == {}, "the next start is as configured"


def test_with_fewer_processors_running_jobs_finish_first(site: Site) -> None:
    app = site.app
    handles = [app.enqueue("slow") for _ in range(2)]
    eventually(lambda: site.running == 2)
    asked = app.instances.set_processors(site.worker.id, "slow", 1)
    assert app.instances.wait(asked.id, PATIENCE).state is RequestState.DONE
    assert site.running == 2 and len(site.worker.processors()) == 2
    site.go.set()
    for handle in handles:
        assert handle.wait(PATIENCE) is State.COMPLETED
    eventually(lambda: len(site.worker.processors()) == 1)
    site.go.clear()
    site.most = 0
    more = [app.enqueue("slow") for _ in range(3)]
    eventually(lambda: site.running == 1)
    site.go.set()
    for handle in more:
        assert handle.wait(PATIENCE) is State.COMPLETED
    assert site.most == 1


def test_a_drained_instance_finishes_its_jobs_and_stops(site: Site) -> None:
    app, drained = site.app, threading.Event()
    site.worker.on_drained = drained.set
    handles = [app.enqueue("slow") for _ in range(4)]
    eventually(lambda: site.running == 2)
    asked = app.acting_as(BOSS).instances.drain(site.worker.id, "the machine is replaced")
    eventually(lambda: app.instances.request(asked.id).state is RequestState.ACCEPTED)
    assert app.instances.request(asked.id).outcome == "claims nothing more; 2 running jobs"
    assert site.worker.report().state == "stopping"
    assert not site.worker.wait(0.0), "its jobs run"
    again = app.instances.drain(site.worker.id, "twice")
    assert app.instances.wait(again.id, PATIENCE).state is RequestState.REFUSED
    site.go.set()
    assert site.worker.wait(PATIENCE) and drained.wait(PATIENCE)
    states = sorted(str(handle.state()) for handle in handles)
    assert states == ["completed", "completed", "queued", "queued"], "the others are for other instances"
    done = app.instances.request(asked.id)
    assert (done.state, done.outcome) == (RequestState.DONE, "the instance has stopped")
    assert [one.id for one in app.instances.requests(site.worker.id)] == [again.id, asked.id]
    assert [record.act for record in app.audit.list().records] == ["instance.drain"] * 2
    with pytest.raises(InstanceNotFoundError):
        app.instances.drain(site.worker.id, "it is gone")


def test_a_drain_with_a_grace_time_stops_jobs_that_take_longer(site: Site) -> None:
    app = site.app
    handle = app.enqueue("slow")
    eventually(lambda: site.running == 1)
    app.instances.drain(site.worker.id, "now", grace=0.1)
    threading.Timer(0.5, site.go.set).start()
    assert site.worker.wait(PATIENCE)
    assert handle.state() in (State.QUEUED, State.COMPLETED)


def test_bad_requests_are_refused(site: Site) -> None:
    instances = site.app.instances
    for instance in ("x", "00000000-0000-7000-8000-000000000000"):
        with pytest.raises(InstanceNotFoundError):
            instances.drain(instance, "x")
        with pytest.raises(InstanceNotFoundError):
            instances.set_processors(instance, "slow", 1)
    with pytest.raises(ConfigError, match=r"slwo.*did you mean slow"):
        instances.set_processors(site.worker.id, "slwo", 1)
    for count in (0, -1, 1.5, 10**9):
        with pytest.raises(ConfigError, match="count"):
            instances.set_processors(site.worker.id, "slow", count)  # type: ignore[arg-type]
    for grace in (-1, float("nan"), "1"):
        with pytest.raises(ConfigError, match="grace"):
            instances.drain(site.worker.id, "x", grace=grace)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="reason"):
        instances.drain(site.worker.id, " ")
    with pytest.raises(ConfigError, match="request"):
        instances.request("x")
    assert not site.app.audit.list().records and not instances.requests(site.worker.id)


def test_instances_concern_all_users(site: Site) -> None:
    worker = site.worker.id
    for who in (ANNA, OPS):
        instances = site.app.acting_as(who).instances
        calls: list[tuple[Callable[..., object], tuple[object, ...]]] = [
            (instances.drain, (worker, "x")),
            (instances.set_processors, (worker, "slow", 1)),
            (instances.requests, (worker,)),
            (instances.request, (worker,)),
            (instances.wait, (worker,)),
        ]
        for call, given in calls:
            with pytest.raises(NotAllowedError):
                call(*given)
    assert not site.app.audit.list().records


def test_requests_work_from_coroutines(site: Site) -> None:
    async def ask() -> RequestState:
        asked = await site.app.instances.set_processors_async(site.worker.id, "slow", 3)
        return (await site.app.instances.wait_async(asked.id, PATIENCE)).state

    assert asyncio.run(ask()) is RequestState.DONE


@pytest.mark.slow
def test_a_worker_process_ends_when_it_is_drained(
    store_url: str, stores: Callable[[str], Store], tmp_path: Path
) -> None:
    (tmp_path / "drained_app.py").write_text(
        f"import windlass\napp = windlass.App({store_url!r})\n@app.job\ndef quick() -> None: ...\n"
    )
    command = [sys.executable, "-m", "windlass", "worker", "drained_app:app", "--log", "none"]
    with App(store=stores(store_url)) as app, subprocess.Popen(command, cwd=tmp_path) as process:
        try:
            (instance,) = eventually(lambda: app.store.instances.list())
            app.instances.drain(instance.id, "a new version")
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
        assert not app.store.instances.list()
