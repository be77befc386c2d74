"""What a job shows of itself while it waits or runs: when it last changed, what went wrong, how far it is, why it does not run."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, claim_one, every_job, one
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import After, Debounce, Job, JobError, JobLimit, NewJob, Progress, State, wrap_position

OTHER = JobError(type="Other", code="other", message="another one", traceback="Traceback …")


def _views(store: Store, job_id: str) -> list[Job]:
    """A job as `get` and the list show it."""
    (listed,) = [job for job in every_job(store) if job.id == job_id]
    return [store.jobs.get(job_id), listed]


def test_a_job_whose_retry_waits_shows_the_last_error_and_when_it_was(
    store: Store, clock: ManualClock
) -> None:
    job_id = one(store)
    holder = store.join()
    bystander = one(store, delay=timedelta(hours=1))
    made = clock.now()
    for error in (BOOM, OTHER):
        clock.advance(5)
        store.upkeep.promote()
        holder.retry_later(claim_one(holder), error, timedelta(seconds=1))
        for job in _views(store, job_id):
            assert job.state is State.SCHEDULED and job.updated_at == clock.now() and job.error is not None
            assert (job.error["code"], job.error["at"]) == (error.code, clock.now().isoformat())
            assert job.traceback == error.traceback
    for job in _views(store, bystander):
        assert (job.updated_at, job.error) == (made, None)
    clock.advance(5)
    store.upkeep.promote()
    assert [job.error for job in _views(store, job_id)] == [None, None], "it is queued again"


def test_errors_of_other_generations_and_phases_are_not_shown(store: Store, clock: ManualClock) -> None:
    """A job that moved on, or was retried by hand, has not failed where it is now."""
    limits = [JobLimit(phase=phase, limit=1) for phase in ("a", "b")]
    job_id = one(store, phase="a", limits=limits)
    store.limits.assign()
    holder = store.join()
    holder.retry_later(claim_one(holder, "a"), BOOM, timedelta(0))
    store.upkeep.promote()
    store.limits.assign()
    holder.advance(claim_one(holder, "a"), "b")
    clock.advance(7)
    for job in _views(store, job_id):
        assert job.reason == "limited" and job.error is None
    store.limits.assign()
    holder.fail(claim_one(holder, "b"), BOOM)
    clock.advance(7)
    store.jobs.retry(job_id)
    for job in _views(store, job_id):
        assert job.reason == "limited" and job.error is None and job.updated_at == clock.now()


def test_a_job_that_waits_for_others_changed_when_it_began_to(store: Store, clock: ManualClock) -> None:
    parent = one(store, "parent")
    child = one(store, after=[After(parent)])
    store.dependencies.link()
    made = clock.now()
    clock.advance(9)
    assert [job.updated_at for job in _views(store, child)] == [made, made]
    later = store.enqueue([NewJob(kind="work", debounce=Debounce("k", 60))])[0].id
    assert [job.updated_at for job in _views(store, later)] == [clock.now()] * 2


def test_jobs_show_what_is_their_own(store: Store, clock: ManualClock) -> None:
    ids = [one(store), one(store)]
    holder = store.join()
    leases = {lease.id: lease for lease in (claim_one(holder), claim_one(holder))}  # under a token each
    for number, job_id in enumerate(ids):
        clock.advance(1)
        holder.checkpoint(leases[job_id], done=number, total=9)
    for number, job_id in enumerate(ids):
        assert [job.progress and job.progress.done for job in _views(store, job_id)] == [number, number]
    for job_id, error in zip(ids, (OTHER, BOOM), strict=True):
        clock.advance(1)
        holder.retry_later(leases[job_id], error, timedelta(seconds=60))
    for number, (job_id, error) in enumerate(zip(ids, (OTHER, BOOM), strict=True)):
        for job in _views(store, job_id):
            assert job.error is not None and job.error["code"] == error.code
            assert job.progress is not None and job.progress.done == number


@pytest.mark.parametrize("where", ["processing", "retry"])
def test_lists_show_live_progress(store: Store, clock: ManualClock, where: str) -> None:
    job_id, other = one(store), one(store)
    holder = store.join()
    leases = {lease.id: lease for lease in holder.claim("work", 2)}
    clock.advance(3)
    holder.checkpoint(leases[job_id], done=3, total=9, position=wrap_position("three", rate=1.5))
    saved = clock.now()
    clock.advance(3)
    if where == "retry":
        for lease in leases.values():
            holder.retry_later(lease, BOOM, timedelta(seconds=60))
    expected = Progress(3, 9, "three", saved, 1.5)
    assert [job.progress for job in _views(store, job_id)] == [expected, expected]
    assert store.jobs.progress(job_id) == expected and expected.seconds_left == 4
    assert [job.progress for job in _views(store, other)] == [None, None]
    if where == "processing":
        assert [job.updated_at for job in _views(store, job_id)] == [saved, saved]


@pytest.mark.parametrize(
    "position", [{"rate": 0.19}, {"chunk": 3}, {"windlass": {"rate": 9}, "position": 1}, None]
)
def test_a_position_is_the_handlers_own(store: Store, position: object) -> None:
    """Nothing in it is taken for Windlass's, and nothing of Windlass's is seen in it."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.checkpoint(lease, done=1, position=wrap_position(position))
    for progress in (store.jobs.progress(job_id), store.jobs.get(job_id).progress):
        assert progress is not None
        assert (progress.position, progress.rate, progress.chunk) == (position, None, None)
    holder.complete(lease)
    ended = store.jobs.get(job_id).progress
    assert ended is not None and (ended.position, ended.rate) == (position, None)


def test_a_queued_job_of_a_paused_phase_says_so(store: Store, clock: ManualClock) -> None:
    running = one(store)
    holder = store.join()
    claim_one(holder)
    queued, other = one(store), one(store, "other")
    scheduled = one(store, delay=timedelta(hours=1))
    store.phases.pause("work", "no line", lasts=timedelta(seconds=60))
    expected = {queued: "paused", running: None, other: None, scheduled: "scheduled"}
    for job_id, reason in expected.items():
        assert [job.reason for job in _views(store, job_id)] == [reason, reason]
    clock.advance(61)
    assert [job.reason for job in _views(store, queued)] == [None, None]
    store.phases.pause("work", "no line")
    assert [job.reason for job in _views(store, queued)] == ["paused", "paused"]
    store.phases.resume("work")
    assert [job.reason for job in _views(store, queued)] == [None, None]


def test_a_pause_of_a_name_that_nobody_knows_is_a_warning(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    one(store, "mail")
    store.join(info={"phases": ["served"]})
    with caplog.at_level(logging.WARNING, logger="windlass.store"):
        store.phases.pause("mail", "known by its jobs")
        store.phases.pause("served", "known by an instance")
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        store.phases.pause("mial", "misspelt")
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "'mial'" in record.getMessage() and "did you mean mail?" in record.getMessage()
    assert {pause.phase for pause in store.phases.paused()} == {"mail", "served", "mial"}


def test_ids_that_are_none_have_nothing(store: Store) -> None:
    assert store.jobs.attempts("x") == [] and store.jobs.progress("x") is None
    assert store.outputs.of("x") == [] and store.dependencies.of("x") == []
