"""An operation whose process is killed in the middle, on real databases: each job is acted on once, and another process ends it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tests.control.test_operations import acted, failed
from tests.waiting import eventually
from windlass import App
from windlass.control.operation_runner import PAGE
from windlass.features import Store
from windlass.operations.operation import OperationState

pytestmark = [pytest.mark.timing, pytest.mark.slow]

WAIT = """
import sys, time
from windlass import App
from windlass.control.operation_runner import OperationRunner
left, work = int(sys.argv[3]), OperationRunner._work
def limited(*given):
    global left
    page = work(*given)
    left -= 1
    if left < 0:
        time.sleep(1000)
    return page
OperationRunner._work = limited
with App(sys.argv[1]) as app:
    app.operations.wait(sys.argv[2])
"""
"""A process that does so many pages of an operation, and hangs in the transaction of the next one: it is killed before the operation is over."""


def has_done(app: App, operation_id: str, target: int, process: subprocess.Popen[bytes]) -> bool:
    return app.operations.get(operation_id).done >= target or process.poll() is not None


def run_and_kill(url: str, app: App, operation_id: str, more: int) -> None:
    """Do pages in another process until at least so many more jobs were acted on, then kill the process in the middle of its work. It acts on
    half as many again at most."""
    before = app.operations.get(operation_id).done
    pages = str(more * 3 // 2 // PAGE)
    with subprocess.Popen([sys.executable, "-c", WAIT, url, operation_id, pages]) as process:
        try:
            for target in range(before + 1, before + more + 1, PAGE):  # each wait has a deadline of its own
                eventually(partial(has_done, app, operation_id, target, process))
        finally:
            process.kill()
    after = app.operations.get(operation_id)
    assert after.done > before and not after.is_over, after


def retried_each_once(url: str, store: Store, count: int, kills: int) -> None:
    ids = failed(store, count)
    with App(store=store) as app:
        handle = app.jobs.retry_many("state:failed kind:welcome", reason="mended")
        for _ in range(kills):
            run_and_kill(url, app, handle.id, count // (2 * kills + 2))
        operation = handle.wait()  # the turn of the killed process ends by itself
        assert (operation.state, operation.done, operation.refused) == (OperationState.DONE, count, 0)
        assert Counter(acted(app, "job.retry")) == Counter(ids), "one record for each job"
        generations = Counter(
            (str(job.state), job.generation) for job in app.jobs.iterate("kind:welcome", page=1000)
        )
        assert generations == {("queued", 2): count}, "each job was retried once"
        assert store.phases.counts()["welcome"].queued == count


def test_each_job_is_retried_once_although_the_process_is_killed(
    store_url: str, stores: Callable[[str], Store]
) -> None:
    retried_each_once(store_url, stores(store_url), 400, 1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_100_000_jobs_are_retried_once_with_kills_in_the_middle(
    store_url: str, stores: Callable[[str], Store]
) -> None:
    retried_each_once(store_url, stores(store_url), 100_000, 3)


def test_workers_end_an_operation_whose_worker_was_killed(
    store_url: str, stores: Callable[[str], Store]
) -> None:
    store = stores(store_url)
    ids = failed(store, 300)
    with App(store=store) as app:

        @app.job
        def other() -> None: ...

        handle = app.jobs.retry_many("state:failed kind:welcome", reason="mended")
        run_and_kill(store_url, app, handle.id, 100)
        worker = app.worker()
        worker.start()
        try:
            eventually(lambda: handle.get().is_over, handle.get)
        finally:
            worker.stop()
        assert handle.get().done == len(ids) and Counter(acted(app, "job.retry")) == Counter(ids)
