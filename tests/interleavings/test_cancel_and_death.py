"""Races that one row's lock decides: cancel against the end (I-23), death against the heartbeat."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from unittest.mock import ANY

import psycopg
import pytest

from tests.interleavings.sessions import (
    BOOM,
    Open,
    Waiting,
    assert_consistent,
    claim,
    enqueue,
    until_blocked,
    user_transaction,
)
from tests.waiting import eventually
from windlass.errors import IllegalTransitionError, LeaseLost
from windlass.model import (
    Advanced,
    CancelResult,
    Completed,
    Failed,
    Lease,
    Outcome,
    Released,
    Retried,
    State,
    Verdict,
    Want,
)
from windlass.store.jobs.claim_columns import claim_columns
from windlass.store.jobs.outcome_rows import finish_columns

pytestmark = pytest.mark.timing

ENDS: dict[str, tuple[Callable[[Lease], Outcome], State, Verdict]] = {
    "completed": (lambda lease: Completed(lease), State.COMPLETED, Verdict.RECORDED),
    "failed": (lambda lease: Failed(lease, BOOM), State.FAILED, Verdict.RECORDED),
    "retried": (lambda lease: Retried(lease, BOOM, timedelta(0)), State.CANCELLED, Verdict.CANCELLED),
    "advanced": (lambda lease: Advanced(lease, "next", 1), State.CANCELLED, Verdict.CANCELLED),
    "released": (lambda lease: Released(lease), State.CANCELLED, Verdict.CANCELLED),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_outcome_that_waits_for_a_cancel_obeys_it(
    postgres_dsn_every: str, stores: Open, name: str
) -> None:
    """The cancel has the row first and commits while the outcome waits: work that is done stays done, work that would
    have gone on ends cancelled."""
    store = stores(postgres_dsn_every)
    (job_id,) = enqueue(store)
    holder = store.join()
    (lease,) = claim(holder)
    make, state, verdict = ENDS[name]
    outcome: Outcome = make(lease)
    with user_transaction(postgres_dsn_every) as tx:
        assert tx.run("cancel.live", id=job_id, reason="asked")
        recording = Waiting(lambda: holder.record([outcome]))
        until_blocked(postgres_dsn_every, recording)
        tx.connection.commit()
    assert recording.result() == [verdict]
    assert store.jobs.get(job_id).state is state
    assert_consistent(postgres_dsn_every, store)


def test_a_cancel_that_waits_for_the_end_is_told_so(postgres_dsn_every: str, stores: Open) -> None:
    """The completion has the row first: the cancel waits, then finds the job ended and says so."""
    store = stores(postgres_dsn_every)
    (job_id,) = enqueue(store)
    (lease,) = claim(store.join())
    with user_transaction(postgres_dsn_every) as tx:
        assert tx.run(
            "record.finish", outcomes=f'[{{"id":"{lease.id}","token":{lease.token},"state":"completed"}}]'
        )
        cancelling = Waiting(lambda: store.jobs.cancel(job_id))
        until_blocked(postgres_dsn_every, cancelling)
        tx.connection.commit()
    with pytest.raises(IllegalTransitionError):
        cancelling.result()
    assert store.jobs.get(job_id).state is State.COMPLETED
    assert_consistent(postgres_dsn_every, store)


@pytest.mark.parametrize("move", ["retry", "advance"])
def test_a_cancel_that_waits_for_a_move_finds_the_job_at_its_new_place(
    postgres_dsn_every: str, stores: Open, move: str
) -> None:
    """The job goes to a later run, or to the next phase, while the cancel waits for its row: it is cancelled there."""
    store = stores(postgres_dsn_every)
    (job_id,) = enqueue(store)
    (lease,) = claim(store.join())
    head = f'"id":"{lease.id}","token":{lease.token}'
    with user_transaction(postgres_dsn_every) as tx:
        if move == "retry":
            tx.run(
                "record.retry",
                outcomes=f'[{{{head},"delay":60,"crashed":0,"returned":0,"begun":1,"outcome":"retried","error":{{}}}}]',
            )
        else:
            tx.run(
                "record.advance",
                outcomes=f'[{{{head},"phase":"next","max_attempts":3,"outcome":"advanced"}}]',
            )
        cancelling = Waiting(lambda: store.jobs.cancel(job_id))
        until_blocked(postgres_dsn_every, cancelling)
        tx.connection.commit()
    assert cancelling.result() is CancelResult.CANCELLED
    assert store.jobs.get(job_id).state is State.CANCELLED
    assert_consistent(postgres_dsn_every, store)


def test_a_claim_passes_over_a_job_that_is_being_cancelled(postgres_dsn_every: str, stores: Open) -> None:
    """A queued job whose cancel is not committed is skipped, not waited for; and a cancel that waits for a claim asks
    the new holder to stop."""
    store = stores(postgres_dsn_every)
    first, second = enqueue(store, 2)
    holder = store.join()
    with user_transaction(postgres_dsn_every) as tx:
        tx.run("cancel.live", id=first, reason="asked")
        assert [lease.id for lease in holder.claim("work", 10)] == [second]
        tx.connection.rollback()
    with user_transaction(postgres_dsn_every) as tx:
        rows = tx.run(
            "step",
            instance=holder.id, **finish_columns([]), expected=0, aside=0, emptied=[],
            **claim_columns([Want("work", 1, 1)], [None] * 10),
        )  # fmt: skip
        assert len(rows) == 2
        cancelling = Waiting(lambda: store.jobs.cancel(first))
        until_blocked(postgres_dsn_every, cancelling)
        tx.connection.commit()
    assert cancelling.result() is CancelResult.REQUESTED
    assert holder.beat(unknown_grace=timedelta(minutes=1)).cancelled == [(first, ANY)]


@pytest.mark.slow
def test_cancel_and_complete_at_the_same_moment_agree(postgres_dsn: str, stores: Open) -> None:
    """300 races of a cancel with a completion, a retry or an advance: what each side was told fits what became of the
    job, every time."""
    store = stores(postgres_dsn)
    holder = store.join()
    seen: Counter[tuple[str, str, str]] = Counter()
    makers: list[Callable[[Lease], Outcome]] = [
        lambda one: Completed(one),
        lambda one: Retried(one, BOOM, timedelta(hours=1)),
        lambda one: Advanced(one, "next", 1),
    ]
    enqueue(store, 300)
    leases = claim(holder, 300)
    with ThreadPoolExecutor(2) as pool:
        for number, lease in enumerate(leases):
            barrier = threading.Barrier(2)

            def end(lease: Lease = lease, number: int = number, barrier: threading.Barrier = barrier) -> str:
                barrier.wait()
                return str(holder.record([makers[number % 3](lease)])[0])

            def cancel(lease: Lease = lease, barrier: threading.Barrier = barrier) -> str:
                barrier.wait()
                try:
                    return str(store.jobs.cancel(lease.id))
                except IllegalTransitionError:
                    return "too late"

            verdict, answer = (done.result() for done in (pool.submit(end), pool.submit(cancel)))
            seen[verdict, answer, str(store.jobs.get(lease.id).state)] += 1
    assert set(seen) <= {
        ("recorded", "too late", "completed"),  # the end came first
        ("recorded", "requested", "completed"),  # the cancel came first, but the work was done
        ("cancelled", "requested", "cancelled"),  # the cancel came first and stopped what would have gone on
        ("recorded", "cancelled", "cancelled"),  # moved on first, then cancelled at its new place
    }, seen
    assert len(seen) >= 3, f"hardly a race: {seen}"
    assert_consistent(postgres_dsn, store)


def test_a_beat_that_waits_for_its_own_death_has_lost_everything(
    postgres_dsn_every: str, stores: Open
) -> None:
    """The instance is declared dead in a transaction that is not committed; its beat waits and then finds dead_at: all
    leases are lost, and no later beat, claim or end of it counts."""
    store, other = stores(postgres_dsn_every), stores(postgres_dsn_every)
    enqueue(store, 3)
    holder = store.join(lease=timedelta(milliseconds=50))
    leases = claim(holder, 2)
    with user_transaction(postgres_dsn_every) as tx:
        eventually(lambda: tx.run("recover.declare_dead", own=None), "the lease to end")
        beating = Waiting(holder.beat)
        until_blocked(postgres_dsn_every, beating)
        tx.connection.commit()
    with pytest.raises(LeaseLost):
        beating.result()
    with pytest.raises(LeaseLost):
        holder.beat()
    assert not holder.claim("work", 1)
    assert {item.job_id for item in other.recovery.recover()} == {lease.id for lease in leases}
    assert holder.record([Completed(lease) for lease in leases]) == [Verdict.LOST] * 2
    assert len(claim(other.join(), 3)) == 3
    assert_consistent(postgres_dsn_every, store)


def test_an_instance_that_is_just_beating_is_not_declared_dead(postgres_dsn_every: str, stores: Open) -> None:
    """The lease is over, but a beat holds the row: recovery passes over it, and after the beat's commit the instance is
    alive with everything it held."""
    store, other = stores(postgres_dsn_every), stores(postgres_dsn_every)
    enqueue(store, 2)
    lease = timedelta(minutes=10)  # after its beat the instance must live long enough to be looked at
    holder = store.join(lease=lease)
    leases = claim(holder, 2)
    with psycopg.connect(postgres_dsn_every) as connection:
        connection.execute("UPDATE windlass.instance SET heartbeat_at = heartbeat_at - interval '1 hour'")
    with user_transaction(postgres_dsn_every) as tx:
        assert tx.run("beat", instance=holder.id, known=[], grace=1e6)
        assert store.instances.list()[0].heartbeat_at + lease < store.now(), "it is over for others"
        assert other.recovery.recover() == []
        tx.run("beat", instance=holder.id, known=[], grace=1e6)
        tx.connection.commit()
    assert other.recovery.recover() == []
    assert holder.record([Completed(lease) for lease in leases]) == [Verdict.RECORDED] * 2


def test_jobs_claimed_while_the_instance_was_declared_dead_are_recovered(
    postgres_dsn_every: str, stores: Open
) -> None:
    """A claim that began before the death and commits after it leaves nothing behind: the next recovery finds it, and
    charges the death to nobody who only waited in memory."""
    store, other = stores(postgres_dsn_every), stores(postgres_dsn_every)
    ids = enqueue(store, 4)
    holder = store.join(lease=timedelta(milliseconds=50))
    with user_transaction(postgres_dsn_every) as tx:
        rows = tx.run(
            "step",
            instance=holder.id, **finish_columns([]), expected=0, aside=0, emptied=[],
            **claim_columns([Want("work", 4, 1)], [None] * 10),
        )  # fmt: skip
        assert len(rows) == 5
        eventually(lambda: other.recovery.recover() == [] and other.instances.list()[0].dead_at, "its death")
        tx.connection.commit()
    found = other.recovery.recover()
    assert {item.job_id for item in found} == set(ids)
    assert sum(item.error is not None for item in found) == 1, "one was started, three only waited in memory"
    again = claim(other.join(), 4)
    assert [lease.attempt for lease in again] == [1] * 4 and all(lease.is_recovered for lease in again)
    with psycopg.connect(postgres_dsn_every) as connection:
        assert connection.execute(
            "SELECT count(*) FROM windlass.claim WHERE instance = %s", (holder.id,)
        ).fetchone() == (0,)
    assert_consistent(postgres_dsn_every, store)
