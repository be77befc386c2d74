"""The stack of a running handler: of a thread, of an async task, and who may read it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from tests.control.conftest import BERT, BOSS
from tests.waiting import PATIENCE, eventually
from windlass import App, NewJob
from windlass.control.actor import Actor
from windlass.engine.engine import Engine
from windlass.errors import ActRefusedError, JobNotFoundError, NotAllowedError
from windlass.features import Store

pytestmark = pytest.mark.timing


class Site:
    """A worker with a handler of each kind; they run until they are let go."""

    def __init__(self, store: Store) -> None:
        self.go = threading.Event()
        self.waiting = 0
        """Handlers that are where they wait."""
        self.app = App(store=store)
        self.app.job(name="thread")(self.thread)
        self.app.job(name="task")(self.task)
        self.app.job(name="apart", executor="process")(sleeps)
        self.worker: Engine = self.app.worker()

    def thread(self) -> None:
        self.deep_in_a_thread()

    def deep_in_a_thread(self) -> None:
        self.waiting += 1
        self.go.wait(PATIENCE)

    async def task(self) -> None:
        await self.deep_in_a_task()

    async def deep_in_a_task(self) -> None:
        self.waiting += 1
        while not self.go.is_set():  # noqa: ASYNC110  an event of threads
            await asyncio.sleep(0.02)


def sleeps() -> None:
    threading.Event().wait(PATIENCE)


@pytest.fixture(scope="module")
def site(open_shared: Callable[[], Store]) -> Iterator[Site]:
    made = Site(open_shared())
    made.worker.start()
    yield made
    made.go.set()
    made.worker.stop(0)
    made.app.close()


def running(site: Site, kind: str) -> str:
    before = site.waiting
    job = site.app.enqueue(kind)
    eventually(lambda: any(one.lease.id == job.id and one.begun for one in site.worker._workload.running()))
    eventually(lambda: kind == "apart" or site.waiting > before)
    return job.id


@pytest.mark.parametrize(("kind", "inner"), [("thread", "deep_in_a_thread"), ("task", "deep_in_a_task")])
def test_the_stack_shows_the_code_of_the_handler_and_nothing_else(site: Site, kind: str, inner: str) -> None:
    job = running(site, kind)
    found = site.app.acting_as(BOSS).jobs.stack(job, "it hangs", timeout=PATIENCE)
    assert f"in {kind}\n" in found.text and f"in {inner}\n" in found.text
    assert found.text.index(f"in {kind}\n") < found.text.index(f"in {inner}\n"), (
        "the innermost frame is the last"
    )
    assert "windlass/engine" not in found.text
    assert (found.job, found.phase, found.instance) == (job, kind, site.worker.id)


def test_a_reading_is_audited(site: Site) -> None:
    job = running(site, "task")
    site.app.acting_as(BOSS).jobs.stack(job, "it hangs", timeout=PATIENCE)
    (record,) = site.app.audit.list(target="job", name=job).records
    assert (record.actor, record.act, record.reason) == ("boss", "job.stack", "it hangs")


def test_a_stack_is_payload(site: Site) -> None:
    job = running(site, "task")
    watcher = site.app.acting_as(Actor.of(BOSS, hides_payload=True))
    with pytest.raises(NotAllowedError, match="view-payload"):
        watcher.jobs.stack(job)
    site.app.jobs.stack(job, timeout=PATIENCE)
    (hidden, *_), (shown, *_) = (one.instances.requests(site.worker.id) for one in (watcher, site.app))
    assert hidden.outcome == "***" and "deep_in_a_task" in (shown.outcome or "")
    assert watcher.instances.request(shown.id).outcome == "***"


def test_nobody_reads_the_stack_of_a_job_of_another(site: Site) -> None:
    job = running(site, "task")
    with pytest.raises(JobNotFoundError):
        site.app.acting_as(BERT).jobs.stack(job)


def test_a_handler_in_a_process_of_its_own_has_no_stack_here(site: Site) -> None:
    job = running(site, "apart")
    with pytest.raises(ActRefusedError, match="process of its own"):
        site.app.jobs.stack(job, timeout=PATIENCE)
    site.app.jobs.cancel(job, "over")


def test_a_job_that_does_not_run_has_no_stack(site: Site) -> None:
    job = site.app.store.enqueue([NewJob(kind="thread", delay=timedelta(hours=1))])[0].id
    with pytest.raises(ActRefusedError, match="which is scheduled: no instance runs it"):
        site.app.jobs.stack(job)
    assert site.app.audit.list(target="job", name=job).records == [], "nothing was asked"


def test_an_instance_that_does_not_respond_is_not_waited_for(site: Site) -> None:
    holder = site.app.store.join()
    made = site.app.store.enqueue([NewJob(kind="elsewhere")])[0]
    assert holder.claim_one(made.id) is not None
    with pytest.raises(ActRefusedError, match=f"{holder.id} did not respond within 0 s"):
        site.app.jobs.stack(made.id, timeout=0)
    holder.leave()
