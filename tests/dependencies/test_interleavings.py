"""Children and parents that meet at the wrong moment: nobody is stranded, nobody waits for a caller."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

import pytest

from tests.interleavings.sessions import (
    BOOM,
    Open,
    Waiting,
    assert_consistent,
    claim,
    deadlocks,
    enqueue,
    until_blocked,
    user_transaction,
)
from tests.interleavings.slow_ends import SlowCommits
from tests.waiting import PATIENCE, eventually
from windlass.dependencies.linking import Dependencies
from windlass.features import Store
from windlass.model import After, Completed, DependencyPolicy, Failed, Lease, NewJob, Retried, State, Verdict
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.queries import Jobs
from windlass.store.jobs.record import apply
from windlass.store.postgres.database import PostgresDatabase

pytestmark = pytest.mark.timing

T = TypeVar("T")


def settle(store: Store) -> None:
    """Upkeep until nothing moves any more."""
    while store.dependencies.link() or store.upkeep.promote():
        pass


def test_a_parent_that_ends_while_the_attach_is_open_releases_the_child(
    postgres_dsn_every: str, stores: Open
) -> None:
    """Attach uncommitted, parent finishes (not waiting for the attach), attach commits: the linker counts the ended
    parent and the child runs."""
    store = stores(postgres_dsn_every)
    (parent,) = enqueue(store)
    holder = store.join()
    (lease,) = claim(holder)
    with user_transaction(postgres_dsn_every) as tx:
        (child,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work", after=[After(parent)])])
        assert holder.complete(lease) is Verdict.RECORDED  # it would wait for the open transaction for ever
        settle(store)
        tx.connection.commit()
    assert store.jobs.get(child.id).state is State.WAITING
    settle(store)
    assert [lease.id for lease in claim(holder)] == [child.id]
    assert_consistent(postgres_dsn_every, store)


def test_a_parent_that_fails_while_the_attach_is_open_cancels_the_child(
    postgres_dsn: str, stores: Open
) -> None:
    """The same with a failure: the child learns of it when it is linked."""
    store = stores(postgres_dsn)
    (parent,) = enqueue(store)
    holder = store.join()
    (lease,) = claim(holder)
    with user_transaction(postgres_dsn) as tx:
        (child,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work", after=[After(parent)])])
        holder.fail(lease, BOOM)
        tx.connection.commit()
    settle(store)
    assert store.jobs.get(child.id).state is State.CANCELLED
    assert_consistent(postgres_dsn, store)


@pytest.mark.parametrize("move", ["retry", "promote", "finish"])
def test_the_linker_leaves_out_a_parent_in_the_middle_of_a_move(
    postgres_dsn_every: str, stores: Open, move: str
) -> None:
    """A parent whose move from one table to another is not committed is in neither for the linker: it does not wait and
    does not take it for gone, but tries again."""
    store = stores(postgres_dsn_every)
    holder = store.join()
    if move == "promote":
        (parent,) = enqueue(store, delay=timedelta(milliseconds=1))
        lease = None
    else:
        (parent,) = enqueue(store)
        (lease,) = claim(holder)
    (child,) = enqueue(store, after=[After(parent)])
    with user_transaction(postgres_dsn_every) as tx:
        if lease is None:
            eventually(lambda: tx.run("promote", limit=10, mark="-infinity"), "the parent to be due")
        elif move == "retry":
            row = f'"id":"{lease.id}","token":{lease.token},"delay":0,"crashed":0,"returned":0,"begun":1,"outcome":"retried","error":{{}}'
            assert tx.run("record.retry", outcomes=f"[{{{row}}}]")
        else:
            assert tx.run(
                "record.finish", outcomes=f'[{{"id":"{lease.id}","token":{lease.token},"state":"completed"}}]'
            )
        assert store.dependencies.link() == 0  # it would wait for the parent's row for ever
        assert store.jobs.get(child).state is State.WAITING
        tx.connection.commit()
    assert store.dependencies.link() == 1
    if move != "finish":
        assert store.jobs.get(child).state is State.WAITING
        settle(store)
        holder.record([Completed(one) for one in claim(holder)])
    settle(store)
    assert [one.id for one in claim(holder)] == [child]
    assert_consistent(postgres_dsn_every, store)


@pytest.mark.parametrize("way", ["short", "long"])
def test_a_finish_that_meets_the_linker_sees_its_flag(
    postgres_dsn_every: str, stores: Open, way: str
) -> None:
    """The linker has flagged the parent and not committed: the finish waits a moment, finds the flag although its holder
    claimed the job without one, and releases the child in the same commit."""
    store = stores(postgres_dsn_every)
    (parent,) = enqueue(store)
    holder = store.join()
    (lease,) = claim(holder)
    (child,) = enqueue(store, after=[After(parent)])
    slow = SlowCommits(postgres_dsn_every)
    linking = Waiting(Dependencies(slow, Enqueuer(slow)).link)
    assert slow.is_holding.wait(PATIENCE)
    outcome = Completed(lease) if way == "short" else Retried(lease, BOOM, timedelta(0))
    finishing = Waiting(lambda: holder.record([outcome]))
    until_blocked(postgres_dsn_every, finishing)
    slow.go_on.set()
    assert linking.result() == 1
    slow.close()
    assert finishing.result() == [Verdict.RECORDED]
    if way == "long":  # the flag moved with the row to job_later and back
        settle(store)
        holder.record([Completed(one) for one in claim(holder)])
    assert store.jobs.get(child).state is State.QUEUED
    assert [one.id for one in claim(holder)] == [child]
    assert_consistent(postgres_dsn_every, store)


@pytest.mark.slow
def test_random_meetings_of_attach_link_and_finish_strand_no_child(postgres_dsn: str, stores: Open) -> None:
    """500 parents end while their children attach (in callers' transactions of random length) and two linkers and a
    promoter work at the same time: every child of a completed parent runs, every child of a failed one is cancelled."""
    store = stores(postgres_dsn)
    chance = random.Random(11)
    rounds, parents_each = 20, 25
    expected: dict[str, State] = {}
    stop = threading.Event()

    def upkeep() -> None:
        while not stop.is_set():
            store.dependencies.link(limit=random.choice((3, 500)))
            store.upkeep.promote()
            time.sleep(0.002)

    with ThreadPoolExecutor(6) as pool:
        keepers = [pool.submit(upkeep) for _ in range(2)]
        holder = store.join()
        for _ in range(rounds):
            parents = enqueue(store, parents_each, kind="parent")
            leases = claim(holder, parents_each, "parent")
            fates = {lease.id: chance.random() < 0.8 for lease in leases}

            def attach(some: list[str], fates: dict[str, bool] = fates) -> list[tuple[str, State]]:
                made = []
                with user_transaction(postgres_dsn) as tx:
                    for parent in some:
                        job = NewJob(kind="child", after=[After(parent)])
                        (child,) = store.enqueuer.enqueue_in(tx, [job])
                        time.sleep(random.random() * 0.003)
                        tx.connection.commit()
                        made.append((child.id, State.QUEUED if fates[parent] else State.CANCELLED))
                return made

            attaching = [pool.submit(attach, parents[start::2]) for start in (0, 1)]
            chance.shuffle(leases)
            while leases:
                some, leases = leases[:5], leases[5:]
                holder.record([Completed(one) if fates[one.id] else Failed(one, BOOM) for one in some])
                time.sleep(chance.random() * 0.01)
            for done in attaching:
                expected.update(done.result())
        stop.set()
        for keeper in keepers:
            keeper.result()
    settle(store)
    assert len(expected) == rounds * parents_each
    found = {child: store.jobs.get(child).state for child in expected}
    assert {child: state for child, state in found.items() if state is not expected[child]} == {}
    assert deadlocks(postgres_dsn) == 0
    assert_consistent(postgres_dsn, store)


def test_parents_that_count_and_cancel_each_others_children_do_not_deadlock(
    postgres_dsn: str, stores: Open
) -> None:
    """Two parents fail at the same moment; each lets one child go on and cancels the child the other lets go on. Both
    lock both children, in one order, so neither waits for the other's second."""
    store = stores(postgres_dsn)
    holder = store.join()
    run, cancel = DependencyPolicy.RUN, DependencyPolicy.CANCEL
    rounds = 60
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            enqueue(store, 2)
            one, two = claim(holder, 2)
            for policies in ((run, cancel), (cancel, run)):
                edges = [After(lease.id, policy) for lease, policy in zip((one, two), policies, strict=True)]
                enqueue(store, kind="child", after=edges)
            assert store.dependencies.link() == 2
            barrier = threading.Barrier(2)

            def end(lease: Lease, barrier: threading.Barrier = barrier) -> Verdict:
                barrier.wait()
                return holder.record([Failed(lease, BOOM)])[0]

            assert list(pool.map(end, (one, two))) == [Verdict.RECORDED] * 2
    assert store.phases.counts()["child"].cancelled == 2 * rounds
    assert deadlocks(postgres_dsn) == 0
    assert_consistent(postgres_dsn, store)


def failed_family(store: Store, *parents: str) -> tuple[list[str], str, str]:
    """Parents that all failed, and a child and a grandchild that were cancelled because of it."""
    holder = store.join()
    ids = [enqueue(store, kind=name)[0] for name in parents]
    (child,) = enqueue(store, kind="child", after=[After(parent) for parent in ids])
    (grandchild,) = enqueue(store, kind="grandchild", after=[After(child)])
    settle(store)
    for name in parents:
        holder.fail(claim(holder, 1, name)[0], BOOM)
    assert store.jobs.get(grandchild).state is State.CANCELLED
    return ids, child, grandchild


def test_two_failed_parents_retried_at_once_bring_their_child_back(
    postgres_dsn_every: str, stores: Open
) -> None:
    """Neither sees what the other has not committed: the one that comes second to the child's row does."""
    store = stores(postgres_dsn_every)
    (a, b), child, grandchild = failed_family(store, "a", "b")
    slow = SlowCommits(postgres_dsn_every)
    first = Waiting(lambda: Jobs(slow).retry(a, dependents=True))
    assert slow.is_holding.wait(PATIENCE)
    second = Waiting(lambda: store.jobs.retry(b, dependents=True))
    until_blocked(postgres_dsn_every, second)
    slow.go_on.set()
    assert first.result().state is State.QUEUED and second.result().state is State.QUEUED
    slow.close()
    found = store.jobs.get(child)
    assert (found.state, found.pending) == (State.WAITING, 2)
    assert store.jobs.get(grandchild).state is State.WAITING
    holder = store.join()
    for name in ("a", "b", "child", "grandchild"):
        holder.complete(claim(holder, 1, name)[0])
    assert_consistent(postgres_dsn_every, store)


@pytest.mark.parametrize("order", ["the end first", "the retry first"])
def test_a_parent_that_ends_while_its_child_comes_back_counts_once(
    postgres_dsn_every: str, stores: Open, order: str
) -> None:
    """Another parent completes in the middle of the retry: the child waits for it no longer, whichever commits first."""
    store = stores(postgres_dsn_every)
    holder = store.join()
    (failing,), (alive,) = enqueue(store, kind="failing"), enqueue(store, kind="alive")
    (child,) = enqueue(store, kind="child", after=[After(failing), After(alive)])
    settle(store)
    holder.fail(claim(holder, 1, "failing")[0], BOOM)
    (lease,) = claim(holder, 1, "alive")
    slow = SlowCommits(postgres_dsn_every)

    def retry(jobs: Jobs) -> State:
        return jobs.retry(failing, dependents=True).state

    def end(db: PostgresDatabase) -> dict[str, Verdict]:
        return db.transact(lambda tx: apply(db, Enqueuer(db), tx, [Completed(lease)]))

    ends_first = order == "the end first"
    first = Waiting[object](lambda: end(slow) if ends_first else retry(Jobs(slow)))
    assert slow.is_holding.wait(PATIENCE)
    second = Waiting[object](lambda: retry(store.jobs) if ends_first else holder.complete(lease))
    until_blocked(postgres_dsn_every, second)
    slow.go_on.set()
    first.result(), second.result()
    slow.close()
    found = store.jobs.get(child)
    assert (found.state, found.pending) == (State.WAITING, 1)
    holder.complete(claim(holder, 1, "failing")[0])
    assert [one.id for one in claim(holder, 1, "child")] == [child]
    assert_consistent(postgres_dsn_every, store)
