"""Log lines of jobs: kept with their attempt, whatever executor ran it, and nothing for jobs that log nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.control import logging_jobs
from tests.control.conftest import ANNA, CARA
from tests.waiting import PATIENCE, eventually
from windlass import App, JobNotFoundError
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.job_logs.lines import LEFT_OUT, MAX_BYTES
from windlass.model import NewJob, Retention, State

pytestmark = pytest.mark.timing


@pytest.fixture
def served(store: Store) -> Iterator[App]:
    app = logging_jobs.make(store)
    engine = app.worker()
    before = logging.getLogRecordFactory()
    engine.start()
    try:
        yield app
    finally:
        engine.stop(0)
        assert logging.getLogRecordFactory() is before, "nothing is left behind"


def _messages(app: App, job_id: str) -> list[list[str]]:
    return [[line.message for line in attempt.lines] for attempt in app.jobs.logs(job_id)]


@pytest.mark.parametrize("kind", ["in_loop", "in_thread", "in_process"])
def test_lines_are_kept_with_the_job(served: App, kind: str) -> None:
    job = served.enqueue(kind, number=7)
    job.result(timeout=PATIENCE)
    eventually(
        lambda: len(_messages(served, job.id)) == 1 and len(_messages(served, job.id)[0]) == 2, "two lines"
    )
    (attempt,) = served.jobs.logs(job.id)
    first, second = attempt.lines
    assert (first.level, first.logger, first.message) == ("warning", "shop", "number 7")
    assert second.message == "could not [ValueError: no]"
    assert attempt.phase == kind and attempt.attempt == 1


def test_each_attempt_has_its_own_lines(served: App, clock: ManualClock) -> None:
    job = served.enqueue("again")
    eventually(lambda: job.state() is State.SCHEDULED, "the first attempt")
    clock.advance(timedelta(seconds=1))
    job.wait(timeout=PATIENCE)
    eventually(lambda: _messages(served, job.id) == [["attempt 1"], ["attempt 2"]], "both attempts")


def test_a_job_that_logs_nothing_leaves_nothing(served: App, store: Store) -> None:
    job, talks = served.enqueue("silent"), served.enqueue("in_thread", number=1)
    job.result(timeout=PATIENCE)
    eventually(lambda: _messages(served, talks.id), "the lines of another job")
    assert not served.jobs.logs(job.id)


def test_a_long_log_is_cut_with_a_sign(served: App) -> None:
    job = served.enqueue("long")
    job.result(timeout=PATIENCE)
    eventually(lambda: _messages(served, job.id) and _messages(served, job.id)[0][-1] == LEFT_OUT, "the sign")
    (attempt,) = served.jobs.logs(job.id)
    assert sum(len(line.message) for line in attempt.lines) < MAX_BYTES + 200


def test_secrets_in_lines_are_hidden(served: App) -> None:
    job = served.enqueue("leaks")
    job.result(timeout=PATIENCE)
    eventually(lambda: _messages(served, job.id), "the line")
    assert "hunter2" not in str(_messages(served, job.id))


def test_lines_come_while_the_job_runs(served: App) -> None:
    job = served.enqueue("runs_on")
    eventually(lambda: _messages(served, job.id) == [["begun"]], "the line of a running job")
    assert not job.state().is_final
    job.cancel("seen")


def test_the_log_of_a_job_is_for_those_who_see_the_job(app: App, store: Store) -> None:
    (made,) = store.enqueue([NewJob(kind="welcome", args={}, principal=ANNA)])
    assert app.acting_as(ANNA).jobs.logs(made.id) == []
    with pytest.raises(JobNotFoundError):
        app.acting_as(CARA).jobs.logs(made.id)
    with pytest.raises(JobNotFoundError):
        app.jobs.logs("019b0000-0000-7000-8000-000000000000")


def test_the_log_goes_with_its_job(served: App, store: Store, clock: ManualClock) -> None:
    job = served.enqueue("in_thread", number=1)
    job.result(timeout=PATIENCE)
    eventually(lambda: sum(map(len, _messages(served, job.id))) == 2, "the lines, and none to come")
    clock.advance(timedelta(seconds=1))
    store.upkeep.prune(Retention(completed=timedelta(0)))
    assert not store.logs.read(job.id)
