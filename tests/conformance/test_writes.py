"""Writes of a held job by somebody who is no instance: a child process under its parent's token."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, LEASE, assert_counts_are_true, claim_one, one, state
from tests.waiting import PATIENCE
from windlass.clock import ManualClock
from windlass.errors import ConfigError, LeaseLost
from windlass.features import Store, open_store
from windlass.model import Completed, Lease, NewJob, Released, Retried, Run, State, Verdict
from windlass.store.jobs.held_job import HeldJob


@pytest.fixture
def child(opened: Callable[[], Store]) -> HeldJob:
    """What a child process has: a store of its own, and leases it was given."""
    return opened().writes(LEASE)


def test_a_child_checkpoints_and_puts_outputs_under_its_parents_token(
    store: Store, child: HeldJob, clock: ManualClock
) -> None:
    parent = store.join()
    job_id = one(store)
    lease = claim_one(parent)
    assert store.resume(lease) is None and store.outputs_of(lease) == []
    assert child.checkpoint(lease, done=2, total=5, position="two") is False
    assert child.put_output(lease, {"v": 1}, name="page").created
    assert not child.put_output(lease, {"v": 2}, name="page").created
    progress = store.resume(lease)
    assert progress is not None
    assert (progress.done, progress.total, progress.position, progress.at) == (2, 5, "two", clock.now())
    assert [(output.name, output.value) for output in store.outputs_of(lease)] == [("page", {"v": 1})]
    store.jobs.cancel(job_id)
    assert child.checkpoint(lease, done=3) is True, "the child is told to stop, too"
    assert parent.record([Completed(lease)]) == [Verdict.RECORDED]
    assert len(store.instances.list()) == 1, "a child is no instance"
    assert_counts_are_true(store)


def test_what_a_held_job_has_is_its_own(store: Store, child: HeldJob) -> None:
    holder = store.join()
    store.enqueue([NewJob(kind="work"), NewJob(kind="work")])
    mine, neighbour = holder.claim("work", 2)
    child.checkpoint(neighbour, done=9)
    child.put_output(neighbour, 1, name="x")
    assert store.resume(mine) is None and store.outputs_of(mine) == []


def test_a_child_ends_its_job_with_its_effects(store: Store, child: HeldJob) -> None:
    """And the parent, who says the same again, is told that it was recorded, and lets go."""
    parent = store.join()
    job_id = one(store)
    lease = claim_one(parent)
    with store.db.effect(5) as effect:
        effect.connection.execute("CREATE TABLE effects (n integer)")
    with child.transaction(lease, run=lambda: Run(1, 2, 3)) as tx:
        tx.connection.execute("INSERT INTO effects VALUES (1)")
        (following,) = tx.enqueue([NewJob(kind="next")])
        tx.complete("done")
    assert tx.verdict is Verdict.RECORDED
    job = store.jobs.get(job_id)
    assert (job.state, job.result) == (State.COMPLETED, "done")
    (span,) = store.jobs.timeline(job_id)
    assert (span.instance, span.processor) == (parent.id, "work-processor-1")
    assert state(store, following.id) is State.QUEUED
    assert parent.record([Completed(lease, "done")]) == [Verdict.ALREADY_RECORDED]
    parent.step()
    parent.leave()
    assert store.instances.list() == []
    assert_counts_are_true(store)


WRITES: dict[str, Callable[[HeldJob, Lease], object]] = {
    "checkpoint": lambda writes, lease: writes.checkpoint(lease, done=1),
    "output": lambda writes, lease: writes.put_output(lease, 1, name="x"),
    "bare effect": lambda writes, lease: _effect(writes, lease, "bare"),
    "effect with an end": lambda writes, lease: _effect(writes, lease, "complete"),
    "effect with a checkpoint": lambda writes, lease: _effect(writes, lease, "checkpoint"),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("how", ["released", "retried", "recovered"])
def test_a_child_whose_parent_lost_the_job_is_refused(
    store: Store, child: HeldJob, clock: ManualClock, how: str, write: str
) -> None:
    parent = store.join(lease=LEASE)
    job_id = one(store)
    lease = claim_one(parent)
    if how == "recovered":
        clock.advance(LEASE + timedelta(seconds=1))
        store.recovery.recover()
    else:
        parent.record([Released(lease) if how == "released" else Retried(lease, BOOM, timedelta(hours=1))])
    with pytest.raises(LeaseLost):
        WRITES[write](child, lease)
    assert state(store, job_id) is (State.SCHEDULED if how == "retried" else State.QUEUED)
    assert store.resume(lease) is None and store.outputs_of(lease) == []


@pytest.mark.parametrize("lease", [timedelta(0), timedelta(seconds=-1)])
def test_a_lease_that_is_no_duration_is_refused(store: Store, lease: timedelta) -> None:
    with pytest.raises(ConfigError, match="lease"):
        store.writes(lease)
    with pytest.raises(ConfigError, match="lease"):
        store.join(lease=lease)
    assert store.instances.list() == []


@pytest.mark.slow
def test_another_process_writes_with_a_lease_it_was_sent(store: Store, store_url: str) -> None:
    parent = store.join()
    job_id = one(store, args={"n": 7})
    lease = claim_one(parent)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(work_elsewhere, store_url, lease, LEASE).result(PATIENCE) == 7
    progress = store.resume(lease)
    assert progress is not None and (progress.done, progress.position) == (1, {"at": 7})
    assert [output.value for output in store.outputs_of(lease)] == ["seven"]
    assert parent.complete(lease, "by the parent") is Verdict.RECORDED
    job = store.jobs.get(job_id)
    assert job.progress is not None and [output.value for output in job.outputs] == ["seven"]


def work_elsewhere(url: str, lease: Lease, lasts: timedelta) -> int:
    with open_store(url) as store:
        writes = store.writes(lasts)
        number = lease.args["n"]
        with writes.transaction(lease) as tx:
            tx.put_output("seven", name="word")
            tx.checkpoint(done=1, total=1, position={"at": number})
        return int(number)


def _effect(writes: HeldJob, lease: Lease, how: str) -> None:
    with writes.transaction(lease) as tx:
        if how == "complete":
            tx.complete()
        elif how == "checkpoint":
            tx.checkpoint(done=1)
