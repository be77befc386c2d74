"""Outputs are stored once; checkpoints are fenced and never go back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.bystanders import execute
from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, one
from windlass.clock import ManualClock
from windlass.errors import ConfigError, PayloadTooLargeError
from windlass.features import Store
from windlass.model import Lease, Retried, State, wrap_position
from windlass.store.ids import SMALLEST, new_id
from windlass.store.jobs.holder import Holder


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


def second_life(store: Store, holder: Holder) -> Lease:
    """A held job in its second generation."""
    job_id = one(store)
    holder.complete(claim_one(holder))
    store.jobs.retry(job_id)
    return claim_one(holder)


def put_beside(store: Store, lease: Lease, name: str) -> None:
    """Insert outputs that differ from the one of this name by their job, generation, phase or name alone."""
    at = store.db.stamp(store.now())
    for row in (
        (new_id(), 2, "work", name),
        (lease.id, 1, "work", name),
        (lease.id, 2, "other", name),
        (lease.id, 2, "work", f"{name}x"),
    ):
        values = ", ".join(map(repr, (*row, at, "1")))
        execute(store, f"INSERT INTO {{p}}output (job, generation, phase, name, at, value) VALUES ({values})")


def test_a_first_value_is_answered_beside_others(store: Store) -> None:
    """Of another job, an earlier generation, another phase and another name."""
    holder = store.join()
    lease = second_life(store, holder)
    put_beside(store, lease, "page")
    first, second = (holder.put_output(lease, value, name="page") for value in ("mine", "late"))
    assert [(output.created, output.value) for output in (first, second)] == [(True, "mine"), (False, "mine")]


@pytest.mark.parametrize("verb", ["recover.pick", "recover.orphans"])
def test_only_the_output_of_the_attempt_itself_says_that_its_phase_is_done(store: Store, verb: str) -> None:
    """Not one of another job, of an earlier generation, of another phase, or with a name."""
    holder = store.join()
    lease = second_life(store, holder)

    def has_output() -> bool:
        asked = {"tokens": [lease.token]} if verb == "recover.pick" else {"after": SMALLEST}
        (row,) = store.db.run(verb, limit=9, **asked)
        return bool(row[16 if verb == "recover.pick" else 15])

    put_beside(store, lease, "")
    if verb == "recover.orphans":
        execute(store, "DELETE FROM {p}claim")
    assert not has_output()
    execute(store, "UPDATE {p}output SET generation = 2 WHERE generation = 1")
    assert has_output()


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


def again(store: Store, holder: Holder, lease: Lease, *, by_hand: bool) -> Lease:
    """The next attempt of a job that is held: after a failure, or retried by hand after the last one."""
    if by_hand:
        holder.fail(lease, BOOM)
        store.jobs.retry(lease.id)
    else:
        holder.record([Retried(lease, BOOM, timedelta(0))])
        store.upkeep.promote()
    return claim_one(holder)


def done(store: Store, lease: Lease) -> int:
    progress = store.jobs.progress(lease.id)
    assert progress is not None
    return progress.done


@pytest.mark.parametrize("by_hand", [False, True])
def test_progress_begins_again_in_a_new_attempt(store: Store, *, by_hand: bool) -> None:
    """I-22. A handler that counts from the start in each attempt; within the attempt progress never goes back."""
    one(store)
    holder = store.join()
    first = claim_one(holder)
    holder.checkpoint(first, done=20, total=100)
    second = again(store, holder, first, by_hand=by_hand)
    holder.checkpoint(second, done=10, total=100)
    assert done(store, second) == 10
    with pytest.raises(ConfigError, match="begin where ctx"):
        holder.checkpoint(second, done=9, total=100)
    assert done(store, second) == 10


PLACES: dict[str, Callable[[Holder, Lease], object]] = {
    "chunk without a transaction": lambda holder, lease: holder.checkpoint(
        lease, done=20, position=wrap_position(None, chunk=2)
    ),
    "transaction": lambda holder, lease: commit(holder, lease, done=20),
    "chunk without a record": lambda holder, lease: commit(holder, lease, done=20, must_go_on=False),
}


def commit(holder: Holder, lease: Lease, *, done: int, must_go_on: bool = True) -> None:
    with holder.transaction(lease) as tx:
        tx.checkpoint(done=done, must_go_on=must_go_on)


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_no_attempt_goes_back_behind_a_place(store: Store, place: str, *, by_hand: bool) -> None:
    """I-22. Effects would be committed a second time."""
    one(store)
    holder = store.join()
    first = claim_one(holder)
    holder.checkpoint(first, done=10)
    PLACES[place](holder, first)
    holder.checkpoint(first, done=21, position="progress after the place")
    second = again(store, holder, first, by_hand=by_hand)
    with pytest.raises(ConfigError, match="begin where ctx"):
        holder.checkpoint(second, done=1)
    with pytest.raises(ConfigError, match="begin where ctx"):
        commit(holder, second, done=21)
    commit(holder, second, done=22)
    assert done(store, second) == 22


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
