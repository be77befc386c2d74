"""A caller's transaction that enqueued and stays open stops nobody; only equal keys wait."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial

import psycopg
import pytest

from tests.interleavings.sessions import (
    Engine,
    Open,
    Stopwatch,
    Waiting,
    assert_consistent,
    claim,
    enqueue,
    until_blocked,
    user_transaction,
)
from tests.waiting import eventually
from windlass.errors import KeyConflictError
from windlass.model import After, Completed, Key, KeyScope, NewJob, State, Want
from windlass.store.database import LATER
from windlass.store.ids import new_id
from windlass.store.jobs.low_water import FULL_EVERY

pytestmark = pytest.mark.timing

ASLEEP = 2 * FULL_EVERY + 0.2
"""Seconds after a hint from which the engine of these tests sleeps until the next one."""


def test_an_open_enqueue_delays_no_other_enqueue_and_no_instance(
    postgres_dsn_every: str, stores: Open
) -> None:
    """While a transaction that enqueued into the same phases stays open, everything an instance and other callers do is done;
    whoever waited for the transaction would wait for ever."""
    store = stores(postgres_dsn_every)
    holder, watch = store.join(), Stopwatch()
    (parent,) = enqueue(store)
    with user_transaction(postgres_dsn_every) as tx:
        hidden = store.enqueuer.enqueue_in(
            tx,
            [
                NewJob(kind="work"),
                NewJob(kind="work", delay=timedelta(seconds=1)),
                NewJob(kind="work", after=[After(parent)]),
                NewJob(kind="work", key=Key("held")),
            ],
        )
        outcomes: list[Completed] = []
        for _ in range(12):
            ids = watch.time("enqueue", enqueue, store, 3)
            watch.time("enqueue key", enqueue, store, key=Key(new_id()))
            watch.time("enqueue after", enqueue, store, after=[After(ids[0])])
            watch.time("enqueue delay", enqueue, store, delay=timedelta(milliseconds=1))
            step = watch.time("step", holder.step, outcomes, Want("work", 10))
            outcomes = [Completed(lease) for lease in step.claimed]
            watch.time("wait", store.db.wait, ["work", LATER], 2.0)
            watch.time("beat", holder.beat)
            watch.time("promote", store.upkeep.promote)
            watch.time("link", store.dependencies.link)
            watch.time("fold", store.upkeep.fold)
            watch.time("recover", store.recovery.recover)
            watch.time("counts", store.phases.counts)
            watch.time("cancel", store.jobs.cancel, enqueue(store, delay=timedelta(hours=1))[0])
        watch.assert_no_wait(1.0)
        tx.connection.commit()
    for answer in hidden:
        assert store.jobs.get(answer.id).state in (State.QUEUED, State.SCHEDULED, State.WAITING)
    holder.record(outcomes)
    assert_consistent(postgres_dsn_every, store)


@pytest.mark.slow
def test_pickup_goes_on_beside_an_open_enqueue(postgres_dsn: str, stores: Open) -> None:
    """A waiting instance is woken and has another caller's job, although a transaction that enqueued (and so would have
    notified) stays open; its own jobs are picked up as soon as it commits. By itself it would look ten minutes later."""
    store, other = stores(postgres_dsn), stores(postgres_dsn)
    delays: list[float] = []
    with Engine(store, poll=600.0) as engine, user_transaction(postgres_dsn) as tx:
        (hidden,) = other.enqueuer.enqueue_in(tx, [NewJob(kind="work")])
        for pause in (0.07, 0.07, ASLEEP, ASLEEP):  # past the 50 ms in which this process notifies once
            began = time.perf_counter()
            (job_id,) = enqueue(other)
            eventually(partial(engine.saw, job_id), "pickup")
            delays.append(engine.claimed_at[job_id] - began)
            time.sleep(pause)
        assert not engine.saw(hidden.id)
        tx.connection.commit()
        eventually(lambda: engine.saw(hidden.id), "pickup after the commit")
    print("pickup:", delays)


@pytest.mark.parametrize("scope", list(KeyScope))
def test_a_second_caller_of_a_key_waits_and_gets_the_winners_job(
    postgres_dsn_every: str, stores: Open, scope: KeyScope
) -> None:
    """Uniqueness is a wait: the second enqueue waits for the first's commit and then answers the first's id."""
    store = stores(postgres_dsn_every)
    key = Key("order-7", scope)
    with user_transaction(postgres_dsn_every) as tx:
        (first,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work", key=key)])
        second = Waiting(lambda: store.enqueue([NewJob(kind="work", key=key)]))
        until_blocked(postgres_dsn_every, second)
        assert not second.is_done()
        tx.connection.commit()
    (answer,) = second.result()
    assert first.created and (answer.id, answer.created) == (first.id, False)
    store.upkeep.promote()
    assert [lease.id for lease in claim(store.join())] == [first.id]
    assert_consistent(postgres_dsn_every, store)


def test_after_the_winners_rollback_the_second_caller_becomes_the_job(
    postgres_dsn_every: str, stores: Open
) -> None:
    """A key that was taken by a transaction that rolled back is free, and the waiting caller has it."""
    store = stores(postgres_dsn_every)
    with user_transaction(postgres_dsn_every) as tx:
        (first,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work", key=Key("order-7"))])
        second = Waiting(lambda: store.enqueue([NewJob(kind="work", key=Key("order-7"))]))
        until_blocked(postgres_dsn_every, second)
        tx.connection.rollback()
    (answer,) = second.result()
    assert answer.created and answer.id != first.id
    assert [lease.id for lease in claim(store.join())] == [answer.id]
    (third,) = store.enqueue([NewJob(kind="work", key=Key("order-7"))])
    assert (third.id, third.created) == (answer.id, False)
    assert_consistent(postgres_dsn_every, store)


def test_a_key_with_another_body_is_a_conflict_after_the_wait(postgres_dsn: str, stores: Open) -> None:
    """The second caller with other arguments learns of the winner instead of silently getting its job."""
    store = stores(postgres_dsn)
    with user_transaction(postgres_dsn) as tx:
        (first,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work", args={"n": 1}, key=Key("k"))])
        second = Waiting(lambda: store.enqueue([NewJob(kind="work", args={"n": 2}, key=Key("k"))]))
        until_blocked(postgres_dsn, second)
        tx.connection.commit()
    with pytest.raises(KeyConflictError) as caught:
        second.result()
    assert first.id in str(caught.value)


def test_a_key_is_free_the_moment_its_job_ends(postgres_dsn: str, stores: Open) -> None:
    """An enqueue that waits for the end of the job that holds its key becomes a job of its own."""
    store = stores(postgres_dsn)
    (first,) = enqueue(store, key=Key("k"))
    holder = store.join()
    (lease,) = claim(holder)
    with user_transaction(postgres_dsn) as tx:
        # The end of the job, held open: its key row is deleted but not committed.
        tx.run("record.finish", outcomes=f'[{{"id":"{lease.id}","token":{lease.token},"state":"completed"}}]')
        tx.run("record.tidy", ids=[lease.id])
        second = Waiting(lambda: store.enqueue([NewJob(kind="work", key=Key("k"))]))
        until_blocked(postgres_dsn, second)
        tx.connection.commit()
    (answer,) = second.result()
    assert answer.created and answer.id != first


def test_a_repeated_id_in_a_callers_transaction_is_found(postgres_dsn: str, stores: Open) -> None:
    """enqueue_in with an id that is there already makes no second job, on a connection that is not ours."""
    store = stores(postgres_dsn)
    job_id = new_id()
    store.enqueue([NewJob(kind="work", id=job_id)])
    with user_transaction(postgres_dsn) as tx:
        (answer,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work", id=job_id)])
        tx.connection.commit()
    assert (answer.id, answer.created) == (job_id, False)
    with psycopg.connect(postgres_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM windlass.jobs").fetchone() == (1,)
