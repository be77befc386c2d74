"""Limits where sessions meet: nobody waits longer than for a commit, no place is lost or given twice, no deadlock."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.interleavings.sessions import (
    BOOM,
    Open,
    Waiting,
    claim,
    deadlocks,
    enqueue,
    until_blocked,
    user_transaction,
)
from tests.waiting import PATIENCE, eventually
from windlass.errors import WindlassError
from windlass.features import Store
from windlass.limits.store import TAKEN
from windlass.model import (
    Advanced,
    Completed,
    Counts,
    Debounce,
    Flow,
    Gate,
    JobLimit,
    Lease,
    NewJob,
    Outcome,
    Rate,
    Released,
    Retried,
    State,
)
from windlass.store.ids import SMALLEST
from windlass.store.jobs.record import apply
from windlass.store.postgres.transaction import PostgresTransaction

pytestmark = pytest.mark.timing


def limited(store: Store, n: int = 1, key: str = "a", limit: int = 1, **options: Any) -> list[str]:
    options = {"limits": [JobLimit(phase="work", key=key, limit=limit)], **options}
    return enqueue(store, n, **options)


@pytest.fixture
def store(postgres_dsn: str, stores: Open) -> Store:
    return stores(postgres_dsn)


@contextmanager
def ending(dsn: str, store: Store, *outcomes: Outcome) -> Iterator[PostgresTransaction]:
    """A transaction that has recorded ends, freed places and given them on, and is not committed yet."""
    with user_transaction(dsn) as tx:
        apply(store.db, store.enqueuer, tx, outcomes)
        yield tx


@contextmanager
def locked(dsn: str, table: str, where: str = "TRUE") -> Iterator[psycopg.Connection]:
    """Inside, somebody else holds these rows."""
    with psycopg.connect(dsn) as other:
        assert other.execute(f"SELECT FROM windlass.{table} WHERE {where} FOR UPDATE".encode()).rowcount
        yield other
        other.rollback()


def reasons(store: Store, ids: list[str]) -> list[str]:
    return [store.jobs.get(job_id).reason or str(store.jobs.get(job_id).state) for job_id in ids]


# --- a job that comes while a place is freed -------------------------------------------------------------------------


def test_a_place_freed_while_a_job_comes_is_not_lost(postgres_dsn: str, store: Store) -> None:
    """The end holds the gate first: the job is left unsorted, and the next look lets it in."""
    first = limited(store)
    assert store.limits.assign()
    (lease,) = claim(store.join())
    with ending(postgres_dsn, store, Completed(lease)) as end:
        second = limited(store)
        assert not store.limits.assign(), "the gate is taken"
        assert reasons(store, second) == ["limited"] and store.upkeep.agenda().has("parked")
        end.connection.commit()
    assert store.limits.assign()
    assert reasons(store, [*first, *second]) == ["completed", "queued"]


def test_an_end_that_waited_for_the_gate_sees_who_came(postgres_dsn: str, store: Store) -> None:
    """The sorter holds the gate first: the end waits for its commit, and lets in whom it put there."""
    limited(store)
    assert store.limits.assign()
    holder = store.join()
    (lease,) = claim(holder)
    (second,) = limited(store)
    with user_transaction(postgres_dsn) as tx:
        store.limits._assign(10, "00000000-0000-0000-0000-000000000000", tx)
        end = Waiting(lambda: holder.complete(lease))
        until_blocked(postgres_dsn, end)
        tx.connection.commit()
        end.result()
    assert reasons(store, [second]) == ["queued"]
    assert store.limits.gates() == [Gate("work", "a", 1, 1, 0)]


def test_two_ends_at_one_gate_take_turns_and_free_two_places(postgres_dsn: str, store: Store) -> None:
    ids = limited(store, 5, limit=2)
    assert store.limits.assign()
    holder = store.join()
    one, two = claim(holder, 2)
    with ending(postgres_dsn, store, Completed(one)) as end:
        other = Waiting(lambda: holder.complete(two))
        until_blocked(postgres_dsn, other)
        assert reasons(store, ids[2:]) == ["limited"] * 3
        end.connection.commit()
        other.result()
    assert reasons(store, ids[2:]) == ["queued", "queued", "limited"]
    assert store.limits.check() == []


def test_an_end_that_is_rolled_back_frees_nothing(postgres_dsn: str, store: Store) -> None:
    ids = limited(store, 2)
    assert store.limits.assign()
    holder = store.join()
    (lease,) = claim(holder)
    with ending(postgres_dsn, store, Completed(lease)):
        pass
    assert reasons(store, ids) == ["processing", "limited"]
    assert store.limits.check() == []


def test_an_end_in_a_transaction_of_the_handlers_own_locks_no_gate(postgres_dsn: str, store: Store) -> None:
    """It may stay open for as long as the handler likes; meanwhile the others of its key end."""
    ids = limited(store, 4, limit=2)
    assert store.limits.assign()
    holder = store.join()
    one, two = claim(holder, 2)
    with user_transaction(postgres_dsn) as tx:
        apply(store.db, store.enqueuer, tx, [Completed(one)], is_foreign=True)
        Waiting(lambda: holder.complete(two)).result(PATIENCE)
        assert reasons(store, ids) == ["processing", "completed", "queued", "limited"]
        assert store.limits.assign() and store.limits.check() == []
        tx.connection.commit()
    assert store.limits.check() == [] and store.limits.mend() == 0
    assert store.limits.assign()
    assert reasons(store, ids) == ["completed", "completed", "queued", "queued"]


def test_places_that_were_given_up_are_freed_by_one_and_once(postgres_dsn: str, store: Store) -> None:
    limited(store, 3)
    assert store.limits.assign()
    (lease,) = claim(store.join())
    with user_transaction(postgres_dsn) as tx:
        apply(store.db, store.enqueuer, tx, [Completed(lease)], is_foreign=True)
        tx.connection.commit()
    with user_transaction(postgres_dsn) as tx:
        assert store.limits._free_gone((SMALLEST, ""), tx) == (False, None)
        assert Waiting(store.limits.assign).result(PATIENCE), "somebody else has it"
        tx.connection.commit()
    assert store.limits.assign()
    assert store.limits.gates() == [Gate("work", "a", 1, 1, 1)]
    (lease,) = claim(store.join())
    with user_transaction(postgres_dsn) as tx:
        apply(store.db, store.enqueuer, tx, [Completed(lease)], is_foreign=True)
        tx.connection.commit()
    with locked(postgres_dsn, "gate"):
        assert not Waiting(store.limits.assign).result(PATIENCE), "the gate is taken"
    assert store.limits.assign()
    assert store.limits.gates() == [Gate("work", "a", 1, 1, 0)]


def _two_phases(store: Store, n: int = 1) -> list[str]:
    """Jobs that may be let in one at a time in each of two phases."""
    return enqueue(store, n, limits=[JobLimit(phase=phase, key="a", limit=1) for phase in ("work", "next")])


def _advance_in(dsn: str, store: Store, lease: Lease) -> None:
    """What a handler's own transaction does with ``ctx.complete_in``."""
    with user_transaction(dsn) as tx:
        apply(store.db, store.enqueuer, tx, [Advanced(lease, "next", None)], is_foreign=True)
        tx.connection.commit()


def test_freeing_the_place_of_a_phase_keeps_the_place_in_the_next_one(
    postgres_dsn: str, store: Store
) -> None:
    """The gate that the job left was taken for a while, so its place there is freed when the job runs in its next phase."""
    first, second = _two_phases(store, 2)
    assert store.limits.assign()
    holder = store.join()
    (lease,) = claim(holder)
    _advance_in(postgres_dsn, store, lease)
    with locked(postgres_dsn, "gate", "phase = 'work'"):
        assert not store.limits.assign()
    (running,) = holder.claim("next", 5)
    assert store.limits.assign()
    assert store.limits.gates("next") == [Gate("next", "a", 1, 1, 0)] and store.limits.check() == []
    (lease,) = claim(holder)
    _advance_in(postgres_dsn, store, lease)
    assert store.limits.assign()
    assert reasons(store, [first, second]) == ["processing", "limited"], "one at a time"
    holder.complete(running)
    assert reasons(store, [first, second]) == ["completed", "queued"]


def test_a_retry_by_hand_beside_the_freeing_of_its_place_keeps_its_limits(
    postgres_dsn: str, store: Store
) -> None:
    """Whoever frees the place takes the job for an ended one; a retry that comes meanwhile waits and brings its limits again."""
    (job_id,) = limited(store)
    assert store.limits.assign()
    (lease,) = claim(store.join())
    with user_transaction(postgres_dsn) as tx:
        apply(store.db, store.enqueuer, tx, [Completed(lease)], is_foreign=True)
        tx.connection.commit()
    with user_transaction(postgres_dsn) as tx:
        store.limits._free_gone((SMALLEST, ""), tx)
        retry = Waiting(lambda: store.jobs.retry(job_id))
        until_blocked(postgres_dsn, retry)
        tx.connection.commit()
        retry.result()
    assert store.limits.assign()
    assert store.limits.gates() == [Gate("work", "a", 1, 1, 0)] and store.limits.check() == []


def test_ends_at_other_gates_do_not_wait(postgres_dsn: str, store: Store) -> None:
    limited(store, key="a")
    limited(store, key="b")
    assert store.limits.assign()
    holder = store.join()
    leases = {store.limits.gates()[n].key: lease for n, lease in enumerate(claim(holder, 2))}
    with ending(postgres_dsn, store, Completed(leases["a"])):
        Waiting(lambda: holder.complete(leases["b"])).result(PATIENCE)


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
    store.limits.tell([Flow(phase="work", limit=1, age=timedelta(milliseconds=10))])
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
    store.limits.tell([Flow(phase="work", limit=1, age=timedelta(milliseconds=1))])
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


# --- all at once -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_many_sessions_at_few_gates_lose_no_place_and_do_not_deadlock(
    postgres_dsn: str, stores: Open
) -> None:
    """Ends, retries, releases, cancels, advances, sorting, mending, changed limits: after each moment the counts are true."""
    limit, keys = 3, [f"k{n}" for n in range(6)]
    before = deadlocks(postgres_dsn)
    over = threading.Event()
    wrong: list[object] = []

    def work(seed: int) -> None:
        store, chance = stores(postgres_dsn), random.Random(seed)
        holder = store.join(lease=timedelta(minutes=5))
        held: list[Lease] = []
        while not over.is_set():
            for key in chance.sample(keys, 3):
                limited(store, 2, key, limit, max_attempts=50)
            store.limits.let_in()
            held += holder.claim("work", 5)
            chance.shuffle(held)
            outcomes, held = [_outcome(chance, lease) for lease in held[:4]], held[4:]
            holder.record(outcomes)
            parked = [job.id for job in store.jobs.list(limit=20).jobs if job.state is State.WAITING]
            for job_id in parked[:1]:
                with suppress(WindlassError):
                    store.jobs.cancel(job_id)
            store.upkeep.promote()
            if chance.random() < 0.1:
                store.limits.mend()
        holder.record([Completed(lease) for lease in held])

    def watch() -> None:
        store = stores(postgres_dsn)
        while not over.is_set():
            wrong.extend(store.limits.check())
            wrong.extend(gate for gate in store.limits.gates() if gate.admitted > limit)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)] + [threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    watching = stores(postgres_dsn)
    eventually(
        lambda: watching.phases.counts().get("work", Counts()).completed > 60, "sixty ends among all of it"
    )
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert wrong == []
    assert watching.limits.check() == []
    eventually(lambda: deadlocks(postgres_dsn) == before, "no deadlock to be counted", 2)


def _outcome(chance: random.Random, lease: Lease) -> Outcome:
    match chance.randrange(4):
        case 0:
            return Retried(lease, BOOM, timedelta(0))
        case 1:
            return Released(lease)
        case _:
            return Completed(lease)
