"""Pipelines on the short way: ends of phases are recorded in the transaction of the step that claims next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, one, state
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    Advanced,
    After,
    Cancelled,
    Completed,
    Failed,
    Lease,
    NewJob,
    Outcome,
    Run,
    State,
    Verdict,
    Want,
)
from windlass.store.jobs.holder import Holder

ROUTE = (("work", 3), ("middle", 4), ("last", 5))
RUN = Run(1, 2, 3)


def goes_on(lease: Lease, phase: str = "middle", output: Any = 1) -> Advanced:
    return Advanced(lease, phase, output, dict(ROUTE).get(phase, 2), RUN, ROUTE)


def to_the_last(holder: Holder) -> Lease:
    """One job through its first two phases; its lease of the last one."""
    holder.record([goes_on(claim_one(holder))])
    holder.record([goes_on(claim_one(holder, "middle"), "last", 2)])
    return claim_one(holder, "last")


def test_a_job_that_goes_on_is_claimed_by_the_same_step(store: Store) -> None:
    (job,) = enqueue(store)
    holder = store.join()
    lease = claim_one(holder)
    step = holder.step([goes_on(lease, output={"x": 1})], Want("middle", 5), Want("work", 5))
    (held,) = step.claimed
    assert list(step.verdicts) == [Verdict.RECORDED]
    assert (held.id, held.phase, held.attempt, held.max_attempts) == (job, "middle", 1, 4)
    assert held.token > lease.token and held.flags & 32
    assert_counts_are_true(store)
    (first,) = store.jobs.attempts(job)
    assert (first.phase, first.outcome, first.instance, first.processor) == (
        "work", "advanced", holder.id, "work-processor-1",
    )  # fmt: skip
    assert [(output.phase, output.name, output.value) for output in store.jobs.get(job).outputs] == [
        ("work", "", {"x": 1})
    ]


def test_a_pipeline_ends_with_the_outputs_of_all_its_phases(store: Store) -> None:
    (job,) = enqueue(store)
    holder = store.join()
    last = to_the_last(holder)
    assert holder.record([Completed(last, "done", RUN, ROUTE)]) == [Verdict.RECORDED]
    ended = store.jobs.get(job)
    assert (ended.state, ended.result, ended.attempt) == (State.COMPLETED, "done", 1)
    assert sorted((output.phase, output.value) for output in ended.outputs) == [("middle", 2), ("work", 1)]
    assert [span.outcome for span in store.jobs.timeline(job)] == ["advanced", "advanced", "completed"]
    assert store.outputs_of(last) == [], "they are in history"
    assert_counts_are_true(store)


def test_an_end_is_of_one_job_of_its_claim(store: Store) -> None:
    enqueue(store, n=2)
    holder = store.join()
    holder.record([goes_on(lease) for lease in holder.claim("work", 2)])
    first, second = holder.claim("middle", 2)
    assert first.token == second.token
    holder.record([Completed(first, None, RUN)])
    assert (state(store, first.id), state(store, second.id)) == (State.COMPLETED, State.PROCESSING)
    assert_counts_are_true(store)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda lease: Completed(lease, None, RUN, ROUTE), State.COMPLETED),
        (lambda lease: Failed(lease, BOOM, RUN), State.FAILED),
        (lambda lease: Failed(lease, BOOM, crashed=True), State.FAILED),
        (lambda lease: Cancelled(lease, "enough"), State.CANCELLED),
    ],
)
def test_every_end_of_a_job_with_outputs_is_written_like_any_other(
    store: Store, end: Callable[[Lease], Outcome], expected: State
) -> None:
    (job,) = enqueue(store)
    holder = store.join()
    step = holder.step([end(to_the_last(holder))], Want("work", 5))
    ended = store.jobs.get(job)
    assert list(step.verdicts) == [Verdict.RECORDED] and ended.state is expected
    assert len(ended.outputs) == 2
    assert_counts_are_true(store)


def test_many_jobs_in_all_phases_are_recorded_and_claimed_by_one_step(store: Store) -> None:
    """On PostgreSQL by two statements and one commit."""
    ids = enqueue(store, n=30)
    holder = store.join()
    wants = [Want(phase, 10) for phase, _ in ROUTE]
    outcomes: list[Outcome] = []
    ended: list[str] = []
    for _ in range(12):
        step = holder.step(outcomes, *wants)
        assert set(step.verdicts) <= {Verdict.RECORDED}
        assert len({lease.token for lease in step.claimed}) == len({lease.phase for lease in step.claimed})
        outcomes = [
            Completed(lease, None, RUN, ROUTE)
            if lease.phase == "last"
            else goes_on(lease, "middle" if lease.phase == "work" else "last")
            for lease in step.claimed
        ]
        ended += [lease.id for lease in step.claimed if lease.phase == "last"]
    assert sorted(ended) == sorted(ids) and {state(store, job) for job in ids} == {State.COMPLETED}
    assert_counts_are_true(store)


def test_the_verbs_of_a_step_with_ends_of_phases(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL: the ends, then the step; a hint only where the step left jobs, or may have."""
    if store.db.dialect == "sqlite":
        pytest.skip("SQLite has no such statement")
    ran: list[str] = []
    transaction = type(store.db.transact(lambda tx: tx))
    real: Any = transaction.run

    def run(tx: Any, verb: str, **parameters: object) -> Any:
        ran.append(verb)
        return real(tx, verb, **parameters)

    monkeypatch.setattr(transaction, "run", run)
    enqueue(store, n=4)
    holder = store.join()
    leases = list(holder.claim("work", 4))
    ran.clear()
    holder.step([goes_on(leases[0])], Want("middle", 5))
    assert ran == ["record.pipeline", "step"]
    ran.clear()
    holder.step([goes_on(leases[1])], Want("middle", 1))
    assert ran == ["record.pipeline", "step", "notify"], "the claim was full, so that there may be more"
    ran.clear()
    holder.step([goes_on(leases[2])], Want("work", 5))
    assert ran == ["record.pipeline", "step", "notify"], "nobody asked for that phase"
    ran.clear()
    holder.step([Failed(leases[3], BOOM)])
    assert ran == ["step"]


def test_a_stored_output_stays_what_it_was(store: Store) -> None:
    (job,) = enqueue(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.put_output(lease, "first", next_phase="middle")
    assert holder.record([goes_on(lease, output="second")]) == [Verdict.RECORDED]
    assert [output.value for output in store.jobs.get(job).outputs] == ["first"]


def test_the_short_way_is_for_the_holder_of_the_token(store: Store) -> None:
    ids = enqueue(store, n=2)
    holder = store.join()
    mine, other = holder.claim("work", 2)
    late = replace(other, token=other.token + 1)
    assert holder.record([goes_on(mine), goes_on(late)]) == [Verdict.RECORDED, Verdict.LOST]
    assert {store.jobs.get(job).phase for job in ids} == {"work", "middle"}
    assert holder.record([goes_on(mine)]) == [Verdict.ALREADY_RECORDED]
    held = claim_one(holder, "middle")
    lost = replace(held, token=held.token + 1)
    assert holder.record([Completed(lost, None, RUN)]) == [Verdict.LOST]
    assert state(store, held.id) is State.PROCESSING
    assert_counts_are_true(store)


def test_a_job_that_was_asked_to_stop_goes_nowhere_and_its_end_stays_an_end(store: Store) -> None:
    ids = enqueue(store, n=2)
    holder = store.join()
    first, second = holder.claim("work", 2)
    holder.record([goes_on(second)])
    second = claim_one(holder, "middle")
    for job in ids:
        store.jobs.cancel(job)
    step = holder.step([goes_on(first), Completed(second, 5, RUN)])
    assert list(step.verdicts) == [Verdict.CANCELLED, Verdict.RECORDED]
    assert state(store, first.id) is State.CANCELLED and state(store, second.id) is State.COMPLETED
    assert len(store.jobs.get(first.id).outputs) == 1


def test_rows_that_came_while_a_phase_ran_take_the_long_way(store: Store) -> None:
    """The lease does not say so: the row does."""
    (job,) = enqueue(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.checkpoint(lease, done=1, total=2)
    assert holder.record([goes_on(lease)]) == [Verdict.RECORDED]
    assert store.jobs.get(job).progress is None, "it belongs to the phase that wrote it"
    lease = claim_one(holder, "middle")
    (child,) = (made.id for made in store.enqueue([NewJob(kind="child", after=[After(job)])]))
    store.dependencies.link()
    holder.record([Completed(lease, None, RUN)])
    assert state(store, child) is State.QUEUED


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [
        (lambda lease: Advanced(lease, "last", 1, 5, RUN, (("new", 2), *ROUTE)), "new"),
        (lambda lease: Advanced(lease, "work", 1, 5, RUN, (("middle", 4), ("work", 3), ("last", 5))), "last"),
        (lambda lease: Completed(lease, 1, RUN, (*ROUTE[:2], ("new", 2))), "new"),
    ],
    ids=["one is left out", "one would be visited twice", "not the last"],
)
def test_where_the_pipeline_was_changed_the_long_way_finds_the_phase(
    store: Store, outcome: Callable[[Lease], Outcome], phase: str
) -> None:
    """Where other jobs have been says nothing."""
    enqueue(store, "new")
    holder = store.join()
    holder.record([Advanced(claim_one(holder, "new"), "work")])
    holder.record([Advanced(claim_one(holder), "elsewhere")])
    (job,) = enqueue(store)
    holder.record([goes_on(claim_one(holder))])
    step = holder.step([outcome(claim_one(holder, "middle"))])
    assert list(step.verdicts) == [Verdict.REROUTED]
    assert store.jobs.get(job).phase == phase
    assert_counts_are_true(store)


def test_phases_that_are_claimed_from_together_keep_their_own_limits(store: Store) -> None:
    """Each its number of jobs, its own claim row and token, its own count of jobs that begin at once, and its own pause."""
    for kind in ("a", "b", "c", "d"):
        enqueue(store, kind, n=3, priority=1)
        enqueue(store, kind, n=3, priority=8)
    store.phases.pause("c", "a reason")
    holder = store.join()
    wants = [Want("a", 4, 1), Want("nothing", 9), Want("b", 2), Want("c", 5), Want("d", 0)]
    claimed = holder.step((), *wants).claimed
    assert [(lease.phase, lease.priority) for lease in claimed] == [
        ("a", 8), ("a", 8), ("a", 8), ("a", 1), ("b", 8), ("b", 8),
    ]  # fmt: skip
    assert [bool(lease.flags & 2) for lease in claimed] == [True, False, False, False, True, True]
    assert len({lease.token for lease in claimed}) == 2
    assert_counts_are_true(store)
    for lease in claimed:
        assert store.jobs.get(lease.id).state is State.PROCESSING
    assert holder.beat(unknown_grace=timedelta(0)).released == 0, "both tokens are known"


def test_recovery_finds_the_jobs_of_all_phases_of_a_step(
    store: Store, dying: Holder, clock: ManualClock
) -> None:
    ids = [one(store, "a"), one(store, "b")]
    assert len(dying.step((), Want("a", 1), Want("b", 1)).claimed) == 2
    clock.advance(100)
    assert {item.job_id for item in store.recovery.recover()} == set(ids)
    assert {state(store, job) for job in ids} == {State.QUEUED}
