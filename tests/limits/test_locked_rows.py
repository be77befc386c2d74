"""Limits, rates and debounce pass over rows that another session has locked, and no session waits for them."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.interleavings.sessions import (
    Open,
    Waiting,
    claim,
    enqueue,
    until_blocked,
    user_transaction,
)
from tests.limits.sessions import limited, locked, reasons
from tests.waiting import PATIENCE
from windlass.features import Store
from windlass.limits.store import TAKEN
from windlass.model import (
    Debounce,
    Flow,
    Gate,
    JobLimit,
    NewJob,
    Rate,
    State,
)

pytestmark = pytest.mark.timing


@pytest.fixture
def store(postgres_dsn: str, stores: Open) -> Store:
    return stores(postgres_dsn)


# --- who is locked is left out ---------------------------------------------------------------------------------------


def test_a_job_that_somebody_cancels_is_passed_over(postgres_dsn: str, store: Store) -> None:
    ids = limited(store, 3)
    assert store.limits.assign()
    holder = store.join()
    (lease,) = claim(holder)
    with locked(postgres_dsn, "job_later", f"id = '{ids[1]}'"):
        Waiting(lambda: holder.complete(lease)).result(PATIENCE)
        assert reasons(store, ids[2:]) == ["queued"]
    store.limits.mend()
    assert store.limits.gates() == [Gate("work", "a", 1, 1, 1)]


def test_a_place_that_went_to_nobody_is_given_by_the_net(postgres_dsn: str, store: Store) -> None:
    ids = limited(store, 2)
    assert store.limits.assign()
    holder = store.join()
    (lease,) = claim(holder)
    with locked(postgres_dsn, "job_later", f"id = '{ids[1]}'"):
        holder.complete(lease)
    assert store.limits.gates() == [Gate("work", "a", 1, 0, 1)]
    store.limits.mend()
    assert reasons(store, ids) == ["completed", "queued"]


def test_sorting_leaves_out_what_somebody_has_and_sorts_the_rest(postgres_dsn: str, store: Store) -> None:
    ids = limited(store, 3, limit=5)
    with locked(postgres_dsn, "job_later", f"id = '{ids[0]}'"):
        assert Waiting(store.limits.assign).result(PATIENCE)
        assert reasons(store, ids) == ["limited", "queued", "queued"]
    assert store.limits.assign()
    assert reasons(store, ids) == ["queued"] * 3


def test_what_is_being_sorted_nobody_else_takes(postgres_dsn: str, store: Store) -> None:
    (job_id,) = limited(store)
    with user_transaction(postgres_dsn) as tx:
        assert len(tx.run("gate.pick", after="00000000-0000-0000-0000-000000000000", limit=10)) == 1
        assert store.limits.assign(), "there is nothing left to assign"
        assert reasons(store, [job_id]) == ["limited"]
        cancel = Waiting(lambda: store.jobs.cancel(job_id))
        until_blocked(postgres_dsn, cancel)
        tx.connection.commit()
        cancel.result()
    assert store.jobs.get(job_id).state is State.CANCELLED


def test_the_net_does_not_wait_for_a_gate_that_is_taken(postgres_dsn: str, store: Store) -> None:
    limited(store, 2)
    assert store.limits.assign()
    with psycopg.connect(postgres_dsn, autocommit=True) as other:
        other.execute("UPDATE windlass.gate SET admitted = 7")
    with locked(postgres_dsn, "gate"):
        assert Waiting(store.limits.mend).result(PATIENCE) == 1
        assert store.limits.gates()[0].admitted == 7, "left for the next time"
    store.limits.mend()
    assert store.limits.gates()[0].admitted == 1


def test_a_gate_in_use_is_not_swept_and_delays_nobody(postgres_dsn: str, store: Store) -> None:
    limited(store)
    limited(store, key="b")
    assert store.limits.assign()
    holder = store.join()
    for lease in claim(holder, 2):
        holder.complete(lease)
    with psycopg.connect(postgres_dsn, autocommit=True) as other:
        other.execute("UPDATE windlass.gate SET used_at = used_at - interval '2 hours'")
    with locked(postgres_dsn, "gate", "key = 'a'"):
        Waiting(store.limits.mend).result(PATIENCE)
        assert [gate.key for gate in store.limits.gates()] == ["a"]


def test_whoever_sweeps_a_gate_sees_who_was_put_there_before(postgres_dsn: str, store: Store) -> None:
    limited(store)
    assert store.limits.assign()
    holder = store.join()
    holder.complete(claim(holder)[0])
    with psycopg.connect(postgres_dsn, autocommit=True) as other:
        other.execute("UPDATE windlass.gate SET used_at = used_at - interval '2 hours'")
    with user_transaction(postgres_dsn) as tx:
        idle = tx.run("gates.idle", limit=10)
        assert idle == [("work", "a")]
        (late,) = limited(store)
        assert not store.limits.assign(), "whoever sweeps has the gate's lock"
        with psycopg.connect(
            postgres_dsn, autocommit=True
        ) as other:  # as if it had been put there just before
            other.execute("UPDATE windlass.job_later SET gate = 'a' WHERE id = %s", (late,))
        store.limits._sweep(tx, 10)
        tx.connection.commit()
    assert [gate.key for gate in store.limits.gates()] == ["a"]
    store.limits.mend()
    assert reasons(store, [late]) == ["queued"]


# --- rates and ageing ------------------------------------------------------------------------------------------------


def test_a_bucket_that_somebody_has_is_tried_again_soon(postgres_dsn: str, store: Store) -> None:
    enqueue(store, 3, limits=[JobLimit(phase="work", rate=Rate(100, 1))])
    store.limits.assign()
    with locked(postgres_dsn, "flow"):
        assert Waiting(store.limits.pace).result(PATIENCE) == TAKEN
        assert store.phases.counts()["work"].queued == 0
    store.limits.pace()
    assert store.phases.counts()["work"].queued == 1


def test_a_bucket_is_spent_by_one_at_a_time(postgres_dsn: str, store: Store) -> None:
    enqueue(store, 3, limits=[JobLimit(phase="work", rate=Rate(0.01, 1))])
    store.limits.assign()
    with user_transaction(postgres_dsn) as tx:
        store.limits._pace("work", tx)
        assert store.limits.pace() == TAKEN
        tx.connection.commit()
    store.limits.pace()
    assert store.phases.counts()["work"].queued == 1


def test_a_paced_job_that_somebody_cancels_is_passed_over(postgres_dsn: str, store: Store) -> None:
    ids = enqueue(store, 2, limits=[JobLimit(phase="work", rate=Rate(0.01, 1))])
    store.limits.assign()
    with locked(postgres_dsn, "job_later", f"id = '{ids[0]}'"):
        Waiting(store.limits.pace).result(PATIENCE)
    assert reasons(store, ids) == ["paced", "queued"]


def test_what_is_being_let_in_cannot_be_cancelled_meanwhile(postgres_dsn: str, store: Store) -> None:
    (job_id,) = enqueue(store, 1, limits=[JobLimit(phase="work", rate=Rate(1, 1))])
    store.limits.assign()
    with user_transaction(postgres_dsn) as tx:
        assert tx.run("pace.pick", phase="work", limit=5) == [(job_id,)]
        cancel = Waiting(lambda: store.jobs.cancel(job_id))
        until_blocked(postgres_dsn, cancel)
        tx.connection.rollback()
        cancel.result()


@pytest.mark.parametrize("table", ["job", "job_later"])
def test_ageing_leaves_out_what_somebody_has(postgres_dsn: str, store: Store, table: str) -> None:
    store.limits.define([Flow(phase="work", limit=1, age=timedelta(milliseconds=10))])
    if table == "job":
        ids = enqueue(store, 2, priority=3)
    else:
        ids = limited(store, 3, priority=3)[1:]
        assert store.limits.assign()
    time.sleep(0.02)
    with locked(postgres_dsn, table, f"id = '{ids[0]}'"):
        Waiting(store.limits.age).result(PATIENCE)
        assert store.jobs.get(ids[0]).priority == 3
        assert store.jobs.get(ids[1]).priority > 3
    store.limits.age()
    assert store.jobs.get(ids[0]).priority > 3


@pytest.mark.parametrize("verb", ["age", "age.later"])
def test_what_is_being_raised_is_locked(postgres_dsn: str, store: Store, verb: str) -> None:
    """A claim passes over it, and an end of its wait is not undone."""
    store.limits.define([Flow(phase="work", limit=1, age=timedelta(milliseconds=1))])
    limited(store, 2, priority=3)
    store.limits.assign()
    time.sleep(0.01)
    with user_transaction(postgres_dsn) as tx:
        assert tx.run(verb, phase="work", age=0.001, limit=5) == [(1,)]
        table = "job" if verb == "age" else "job_later"
        with psycopg.connect(postgres_dsn) as other:
            found = other.execute(f"SELECT FROM windlass.{table} FOR UPDATE SKIP LOCKED".encode()).rowcount
        assert found == 0


# --- debounce --------------------------------------------------------------------------------------------------------


def debounced(store: Store, value: int, wait: float = 0.2) -> Any:
    return store.enqueue([NewJob(kind="work", args={"value": value}, debounce=Debounce("k", wait))])[0]


def test_a_debounced_job_that_is_being_promoted_is_not_replaced(postgres_dsn: str, store: Store) -> None:
    first = debounced(store, 1, 0.001)
    time.sleep(0.01)
    with user_transaction(postgres_dsn) as tx:
        assert tx.run("promote", limit=10, mark="-infinity")
        second = Waiting(partial(debounced, store, 2))
        until_blocked(postgres_dsn, second)
        tx.connection.commit()
        answer = second.result()
    assert answer.created and answer.id != first.id
    assert store.jobs.get(first.id).args == {"value": 1}


def test_a_debounced_job_that_is_being_replaced_is_not_promoted(postgres_dsn: str, store: Store) -> None:
    first = debounced(store, 1, 0.001)
    time.sleep(0.01)
    with user_transaction(postgres_dsn) as tx:
        job = NewJob(kind="work", args={"value": 2}, debounce=Debounce("k", 60))
        assert store.enqueuer.enqueue_in(tx, [job])[0].replaced
        assert store.upkeep.promote() == {}
        tx.connection.commit()
    assert store.upkeep.promote() == {}
    assert store.jobs.get(first.id).args == {"value": 2}


def test_of_two_debounced_submits_one_waits_and_replaces(postgres_dsn: str, store: Store) -> None:
    with user_transaction(postgres_dsn) as tx:
        job = NewJob(kind="work", args={"value": 1}, debounce=Debounce("k", 60))
        first = store.enqueuer.enqueue_in(tx, [job])[0]
        second = Waiting(partial(debounced, store, 2, 60))
        until_blocked(postgres_dsn, second)
        tx.connection.commit()
        answer = second.result()
    assert (answer.id, answer.created, answer.replaced) == (first.id, False, True)
    with user_transaction(postgres_dsn) as tx:
        store.enqueuer.enqueue_in(tx, [NewJob(kind="other", debounce=Debounce("k", 60))])
        lone = Waiting(lambda: store.enqueue([NewJob(kind="other", debounce=Debounce("k", 60))])[0])
        until_blocked(postgres_dsn, lone)
        tx.connection.rollback()
        assert lone.result().created, "the first one never came to be"
