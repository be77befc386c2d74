"""Outputs are stored once; checkpoints are fenced and never go back."""

from __future__ import annotations

import logging

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, one
from windlass.clock import ManualClock
from windlass.errors import ConfigError, PayloadTooLargeError
from windlass.features import Store
from windlass.model import Retried, State


def test_the_first_value_of_an_output_stands(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A second write of the same key is prevented, told and logged."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    first = holder.put_output(lease, {"v": 1}, name="page")
    with caplog.at_level(logging.WARNING, "windlass.store"):
        second = holder.put_output(lease, {"v": 2}, name="page")
    assert (first.created, first.value) == (True, {"v": 1})
    assert (second.created, second.value) == (False, {"v": 1})
    assert "duplicate prevented" in caplog.text and caplog.records[0].__dict__["job_id"] == job_id
    other = holder.put_output(lease, None, name="empty")
    assert other.created and other.value is None
    assert [(output.name, output.value) for output in store.outputs.of(job_id)] == [
        ("empty", None),
        ("page", {"v": 1}),
    ]
    holder.complete(lease)
    assert {output.name for output in store.jobs.get(job_id).outputs} == {"page", "empty"}
    assert store.outputs.of(job_id) == []
    assert_counts_are_true(store)


def test_outputs_of_one_job_and_phase_are_not_anothers(store: Store) -> None:
    one(store, phase="a")
    one(store, phase="b")
    holder = store.join()
    a, b = claim_one(holder, "a"), claim_one(holder, "b")
    assert holder.put_output(a, 1, name="x").created
    assert holder.put_output(b, 2, name="x").created
    holder.advance(a, "b", "out")
    again = claim_one(holder, "b")
    assert holder.put_output(again, 3, name="x").created, "another phase of the same job"
    assert len(store.outputs.of(a.id)) == 3 and len(store.outputs.of(b.id)) == 1


def test_advance_does_not_overwrite_an_output_stored_before(store: Store) -> None:
    one(store, phase="a")
    holder = store.join()
    lease = claim_one(holder, "a")
    holder.put_output(lease, "first", next_phase="b")
    holder.advance(lease, "b", "second")
    assert [output.value for output in store.outputs.of(lease.id)] == ["first"]


def test_a_checkpoint_survives_a_retry(store: Store, clock: ManualClock) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    assert store.jobs.progress(job_id) is None
    assert holder.checkpoint(lease, done=300, total=1000, position={"after": "m"}) is False
    holder.record([Retried(lease, BOOM, clock.now() - clock.now())])
    store.upkeep.promote()
    again = claim_one(holder)
    progress = store.jobs.progress(job_id)
    assert progress is not None
    assert (progress.done, progress.total, progress.position, progress.at) == (
        300,
        1000,
        {"after": "m"},
        clock.now(),
    )
    holder.checkpoint(again, done=1000, total=1000, position=None)
    holder.complete(again)
    job = store.jobs.get(job_id)
    assert job.progress is not None and job.progress.done == 1000
    assert store.jobs.progress(job_id) is None


def test_progress_is_part_of_the_job_and_counts_as_an_update(store: Store, clock: ManualClock) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    clock.advance(5)
    holder.checkpoint(lease, done=1, total=4)
    job = store.jobs.get(job_id)
    assert job.progress is not None and (job.progress.done, job.progress.total) == (1, 4)
    assert job.updated_at == clock.now()


def test_progress_never_goes_back(store: Store) -> None:
    """I-22."""
    one(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.checkpoint(lease, done=5, total=10, position="five")
    holder.checkpoint(lease, done=5, total=10, position="five again")
    with pytest.raises(ConfigError, match="never goes back"):
        holder.checkpoint(lease, done=4, total=10, position="four")
    progress = store.jobs.progress(lease.id)
    assert progress is not None and progress.done == 5 and progress.position == "five again"


@pytest.mark.parametrize(("done", "total"), [(-1, None), (11, 10)])
def test_senseless_progress_is_refused(store: Store, done: int, total: int | None) -> None:
    one(store)
    holder = store.join()
    with pytest.raises(ConfigError):
        holder.checkpoint(claim_one(holder), done=done, total=total)


def test_an_output_over_the_limit_is_refused(store: Store) -> None:
    one(store)
    holder = store.join()
    lease = claim_one(holder)
    with pytest.raises(PayloadTooLargeError, match="output"):
        holder.put_output(lease, "x" * 2_000_000, name="big")
    assert store.jobs.get(lease.id).state is State.PROCESSING
