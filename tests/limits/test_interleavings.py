"""Limits where sessions meet: nobody waits longer than for a commit, no place is lost or given twice, no deadlock."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

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
from tests.limits.sessions import limited, locked, reasons
from tests.waiting import PATIENCE, eventually
from windlass.errors import WindlassError
from windlass.features import Store
from windlass.model import (
    Advanced,
    Completed,
    Counts,
    Gate,
    JobLimit,
    Lease,
    Outcome,
    Released,
    Retried,
    State,
)
from windlass.store.ids import SMALLEST
from windlass.store.jobs.record import apply
from windlass.store.postgres.transaction import PostgresTransaction

pytestmark = pytest.mark.timing


@pytest.fixture
def store(postgres_dsn: str, stores: Open) -> Store:
    return stores(postgres_dsn)


@contextmanager
def ending(dsn: str, store: Store, *outcomes: Outcome) -> Iterator[PostgresTransaction]:
    """A transaction that has recorded ends, freed places and given them on, and is not committed yet."""
    with user_transaction(dsn) as tx:
        apply(store.db, store.enqueuer, tx, outcomes)
        yield tx


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
                limited(store, 2, key=key, limit=limit, max_attempts=50)
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
