"""Members of a batch that end, or are retried by hand, at the same moment in several sessions: the summary is let go once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interleavings.sessions import (
    BOOM,
    Open,
    Waiting,
    assert_consistent,
    claim,
    deadlocks,
    until_blocked,
    user_transaction,
)
from tests.interleavings.slow_ends import SlowCommits
from tests.waiting import PATIENCE
from windlass.features import Store
from windlass.model import After, Completed, DependencyPolicy, Failed, Lease, NewJob, State, Verdict
from windlass.store.ids import new_id
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.queries import Jobs
from windlass.store.jobs.record import apply
from windlass.store.postgres.database import PostgresDatabase

pytestmark = pytest.mark.timing


def batch(store: Store, *kinds: str) -> tuple[list[str], str]:
    members, then = [new_id() for _ in kinds], new_id()
    jobs = [NewJob(kind=kind, id=member, max_attempts=1) for kind, member in zip(kinds, members, strict=True)]
    after = [After(member, DependencyPolicy.RUN) for member in members]
    store.enqueue([*jobs, NewJob(kind="then", id=then, after=after)])
    return members, then


def test_the_last_two_members_that_end_at_once_let_the_summary_go_once(
    postgres_dsn: str, stores: Open
) -> None:
    store, other = stores(postgres_dsn), stores(postgres_dsn)
    first, second = store.join(), other.join()
    rounds = 40
    with ThreadPoolExecutor(2) as pool:
        for number in range(rounds):
            batch(store, "a", "b")
            leases = claim(first, 1, "a")[0], claim(second, 1, "b")[0]
            barrier = threading.Barrier(2)

            def end(
                place: int, barrier: threading.Barrier = barrier, leases: tuple[Lease, Lease] = leases
            ) -> Verdict:
                outcome = Failed(leases[place], BOOM) if place else Completed(leases[place])
                barrier.wait()
                return (second if place else first).record([outcome])[0]

            assert list(pool.map(end, (0, 1))) == [Verdict.RECORDED] * 2
            assert store.phases.counts()["then"].queued == number + 1
    assert len(claim(first, rounds, "then")) == rounds
    assert first.claim("then", 1) == []
    assert deadlocks(postgres_dsn) == 0
    assert_consistent(postgres_dsn, store)


@pytest.mark.parametrize("order", ["the end first", "the retry first"])
def test_a_member_that_is_retried_while_the_last_one_ends(
    postgres_dsn_every: str, stores: Open, order: str
) -> None:
    """The second to come to the row of the summary sees what the first did: it was let go, or it waits for both again."""
    store = stores(postgres_dsn_every)
    holder = store.join()
    (retried, _), then = batch(store, "a", "b")
    holder.fail(claim(holder, 1, "a")[0], BOOM)
    (lease,) = claim(holder, 1, "b")
    slow = SlowCommits(postgres_dsn_every)

    def end(db: PostgresDatabase) -> dict[str, Verdict]:
        return db.transact(lambda tx: apply(db, Enqueuer(db), tx, [Completed(lease)]))

    ends_first = order == "the end first"
    first = Waiting[object](lambda: end(slow) if ends_first else Jobs(slow).retry(retried))
    assert slow.is_holding.wait(PATIENCE)
    second = Waiting[object](lambda: store.jobs.retry(retried) if ends_first else holder.complete(lease))
    until_blocked(postgres_dsn_every, second)
    slow.go_on.set()
    first.result(), second.result()
    slow.close()
    found = store.jobs.get(then)
    states = [edge.parent_state for edge in store.dependencies.of(then) if edge.parent == retried]
    if ends_first:
        assert (found.state, states) == (State.QUEUED, ["failed"])
    else:
        assert (found.state, found.pending, states) == (State.WAITING, 1, [None])
        holder.complete(claim(holder, 1, "a")[0])
    assert [one.id for one in claim(holder, 1, "then")] == [then]
    assert_consistent(postgres_dsn_every, store)


def test_a_retried_member_waits_for_no_summary_but_its_own(postgres_dsn: str, stores: Open) -> None:
    """Another session has the row of another batch's summary: a retry that locked it, too, would wait for this test for ever."""
    store = stores(postgres_dsn)
    holder = store.join()
    (retried, _), then = batch(store, "a", "b")
    _, other = batch(store, "c", "d")
    holder.fail(claim(holder, 1, "a")[0], BOOM)
    with user_transaction(postgres_dsn) as tx:
        tx.connection.execute("SELECT FROM windlass.job_later WHERE id = %s FOR UPDATE", (other,))
        store.jobs.retry(retried)
    assert store.jobs.get(then).pending == 2
