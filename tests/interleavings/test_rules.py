"""Rules and the ends of their parents, met at the wrong moment: each child is made once, and none is forgotten (G2, I-18)."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import psycopg
import pytest

from tests.interleavings.conftest import Open
from tests.interleavings.sessions import (
    BOOM,
    Waiting,
    assert_consistent,
    claim,
    deadlocks,
    enqueue,
    eventually,
    until_blocked,
    user_transaction,
)
from windlass.errors import RuleCycleError
from windlass.model import (
    After,
    Completed,
    Failed,
    Flag,
    JobFilter,
    Lease,
    NewJob,
    Outcome,
    Retention,
    Verdict,
)
from windlass.rules import Rule
from windlass.store import Store
from windlass.store.contract import Transaction
from windlass.store.enqueueing import Enqueuer
from windlass.store.entries import check
from windlass.store.ids import SMALLEST
from windlass.store.postgres import PostgresDatabase
from windlass.store.recording import apply
from windlass.store.rules import Rules
from windlass.upkeep import agenda as agenda_module
from windlass.upkeep.agenda import Agenda
from windlass.upkeep.recoverer import Recoverer

T = TypeVar("T")
PAIR = Rule(
    name="pair", parents=("a", "b"), create="child", phase="child", key=("args.k",), args={"k": "args.k"}
)
EACH = Rule(name="each", parents=("a",), create="child", phase="child")


class SlowCommits(PostgresDatabase):
    """Holds every transaction open until it is let go."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_holding = threading.Event()
        self.go_on = threading.Event()

    def transact(self, work: Callable[[Transaction], T]) -> T:
        def and_wait(tx: Transaction) -> T:
            result = work(tx)
            self.is_holding.set()
            self.go_on.wait(20)
            return result

        return super().transact(and_wait)


@contextmanager
def slowly(dsn: str, work: Callable[[SlowCommits], T]) -> Iterator[Waiting[T]]:
    """Inside, the work is done and not committed; it is by the end."""
    slow = SlowCommits(dsn)
    doing = Waiting(lambda: work(slow))
    try:
        assert slow.is_holding.wait(20)
        yield doing
    finally:
        slow.go_on.set()
        doing.result()
        slow.close()


def ended(outcome: Outcome) -> Callable[[PostgresDatabase], Verdict]:
    """Ends a job on another connection."""

    def work(db: PostgresDatabase) -> Verdict:
        return db.transact(lambda tx: apply(db, Enqueuer(db), tx, [outcome]))[outcome.lease.id]

    return work


def made(store: Store, kind: str = "child") -> int:
    return len(store.jobs.list(JobFilter(kind=kind), limit=1000).jobs)


def impatient(dsn: str) -> None:
    """Whoever waits for a lock from now on fails."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE \"{connection.info.dbname}\" SET lock_timeout = '2s'")


def let_time_pass(dsn: str) -> None:
    """Kinds look as if they had been there for long."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("UPDATE windlass.rule_kind SET since = since - interval '20 seconds'")


# ------------------------------------------------------------------------------------------------ parents that meet


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("way", ["recorded", "in an effect"])
def test_the_last_two_parents_end_at_the_same_instant(
    postgres_dsn_every: str, stores: Open, first: str, way: str
) -> None:
    """Neither has seen the other's end when it ends itself. The second waits where they meet, and makes the child; before that
    and after, there is none."""
    store = stores(postgres_dsn_every)
    store.rules.put(PAIR)
    holder = store.join()
    leases = {}
    for kind in "ab":
        enqueue(store, kind=kind, args={"k": 7})
        (leases[kind],) = claim(holder, 1, kind)
    second = leases["b" if first == "a" else "a"]

    def end_second() -> None:
        if way == "recorded":
            holder.complete(second)
        else:
            with holder.transaction(second) as tx:
                tx.complete()

    with slowly(postgres_dsn_every, ended(Completed(leases[first]))):
        ending = Waiting(end_second)
        until_blocked(postgres_dsn_every, ending)
        assert made(store) == 0
    ending.result()
    assert made(store) == 1 and store.rules.open() == []
    assert_consistent(postgres_dsn_every, store)


def test_a_failure_and_a_completion_of_one_kind_meet(postgres_dsn: str, stores: Open) -> None:
    """Two jobs of a kind, one of which fails: whoever comes second sees what the first was, and the completion counts."""
    store = stores(postgres_dsn)
    store.rules.put(PAIR)
    holder = store.join()
    for n, fails_first in enumerate((True, False)):
        enqueue(store, 2, kind="a", args={"k": n})
        one, two = claim(holder, 2, "a")
        outcomes: list[Outcome] = [Failed(one, BOOM), Completed(two)]
        first, second = outcomes if fails_first else reversed(outcomes)
        with slowly(postgres_dsn, ended(first)):
            ending = Waiting(lambda outcome=second: holder.record([outcome]))  # type: ignore[misc]
            until_blocked(postgres_dsn, ending)
        ending.result()
        (seen,) = (item for item in store.rules.open() if item.key == [n])
        assert [part.job_id for part in seen.complete] == [two.id] and not seen.failed


def test_a_round_that_ends_meanwhile_is_over_for_who_waited(postgres_dsn: str, stores: Open) -> None:
    """A second job of a kind arrives while the child is being made: it is the first of the next round."""
    store = stores(postgres_dsn)
    store.rules.put(PAIR)
    holder = store.join()
    for kind in "aab":
        enqueue(store, kind=kind, args={"k": 7})
    one, two = claim(holder, 2, "a")
    holder.complete(one)
    with slowly(postgres_dsn, ended(Completed(claim(holder, 1, "b")[0]))):
        late = Waiting(lambda: holder.complete(two))
        until_blocked(postgres_dsn, late)
    late.result()
    (seen,) = store.rules.open()
    assert made(store) == 1 and seen.round == 2 and [part.job_id for part in seen.complete] == [two.id]


def test_batches_that_meet_in_many_fan_ins_do_not_deadlock(postgres_dsn: str, stores: Open) -> None:
    """Four threads end batches of parents whose keys lie crosswise, of two rules; each child once, and nobody waits in a circle."""
    store = stores(postgres_dsn)
    rules = [PAIR, replace(PAIR, name="other", create="other", phase="other")]
    for rule in rules:
        store.rules.put(rule)
    holder = store.join()
    keys, threads = 40, 4
    chance = random.Random(5)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(8):
            for kind in "ab":
                store.enqueue([NewJob(kind=kind, args={"k": k}) for k in range(keys)])
            leases = [*claim(holder, keys, "a"), *claim(holder, keys, "b")]
            chance.shuffle(leases)
            barrier = threading.Barrier(threads)

            def end(some: list[Lease], barrier: threading.Barrier = barrier) -> list[Verdict]:
                barrier.wait()
                return [*holder.record([Completed(lease) for lease in some])]

            for verdicts in pool.map(end, [leases[n::threads] for n in range(threads)]):
                assert set(verdicts) == {Verdict.RECORDED}
    counts = store.phases.counts()
    assert (counts["child"].queued, counts["other"].queued) == (8 * keys, 8 * keys)
    assert store.rules.open() == [] and deadlocks(postgres_dsn) == 0
    assert_consistent(postgres_dsn, store)


# ------------------------------------------------------------------------------------------------ rules that change


def test_a_rule_is_not_changed_under_an_end(postgres_dsn_every: str, stores: Open) -> None:
    """An end that was counted by the old definition and is not committed yet is counted by the new one, too."""
    store = stores(postgres_dsn_every)
    store.rules.put(PAIR)
    holder = store.join()
    enqueue(store, kind="a", args={"k": 7, "other": 8})
    with slowly(postgres_dsn_every, ended(Completed(claim(holder, 1, "a")[0]))):
        changing = Waiting(lambda: store.rules.define([replace(PAIR, key=("args.other",), args={})]))
        until_blocked(postgres_dsn_every, changing)
    changing.result()
    assert [seen.key for seen in store.rules.open()] == [[8]]


def test_an_end_waits_for_a_rule_that_is_being_changed(postgres_dsn: str, stores: Open) -> None:
    store = stores(postgres_dsn)
    store.rules.put(PAIR)
    holder = store.join()
    enqueue(store, kind="a", args={"k": 7, "other": 8})
    (lease,) = claim(holder, 1, "a")
    changed = replace(PAIR, key=("args.other",), args={})
    with slowly(postgres_dsn, lambda db: Rules(db).define([changed])):
        ending = Waiting(lambda: holder.complete(lease))
        until_blocked(postgres_dsn, ending)
    ending.result()
    assert [seen.key for seen in store.rules.open()] == [[8]]


def test_two_that_define_at_once_cannot_close_a_circle(postgres_dsn: str, stores: Open) -> None:
    """Each is fine with what it sees; the second sees the first."""
    store = stores(postgres_dsn)
    back = Rule(name="back", parents=("child",), create="a", phase="a")
    with slowly(postgres_dsn, lambda db: Rules(db).define([EACH])):
        second = Waiting(lambda: store.rules.define([back]))
        until_blocked(postgres_dsn, second)
    with pytest.raises(RuleCycleError, match="child → a"):
        second.result()
    assert [item.rule.name for item in store.rules.list()] == ["each"]


# ------------------------------------------------------------------------------------------------ rules that come later


def test_a_finish_that_meets_the_flagging_takes_the_long_way(postgres_dsn_every: str, stores: Open) -> None:
    """Its holder claimed the job without a flag; it waits a moment, and makes the child in the same commit."""
    store = stores(postgres_dsn_every)
    enqueue(store, kind="a")
    holder = store.join()
    (lease,) = claim(holder, 1, "a")
    store.rules.define([EACH])
    with user_transaction(postgres_dsn_every) as tx:
        tx.run("rule.flag_live", kinds=["a"], after=SMALLEST, limit=10)
        finishing = Waiting(lambda: holder.record([Completed(lease)]))
        until_blocked(postgres_dsn_every, finishing)
        tx.connection.commit()
    assert finishing.result() == [Verdict.RECORDED] and made(store) == 1
    assert store.rules.catch_up() == 0
    assert_consistent(postgres_dsn_every, store)


@pytest.mark.parametrize("table", ["job", "job_later"])
def test_flagging_leaves_out_what_is_locked(postgres_dsn: str, stores: Open, table: str) -> None:
    """That look does not count: the next one comes soon, and meets it. Where the locked one has its flag, nothing is left to do."""
    impatient(postgres_dsn)
    store = stores(postgres_dsn)
    options: dict[str, Any] = {} if table == "job" else {"after": [_after(store)]}
    locked, free = (enqueue(store, kind="a", **options)[0] for _ in range(2))
    with psycopg.connect(postgres_dsn) as other:
        assert other.execute(f"SELECT FROM windlass.{table} WHERE id = %s FOR UPDATE", (locked,)).rowcount
        store.rules.put(EACH)
        assert _flagged(postgres_dsn, table) == {free}
        assert store.upkeep.agenda().has_new_kinds
        other.rollback()
    store.rules.catch_up()
    assert _flagged(postgres_dsn, table) == {locked, free}
    assert not store.upkeep.agenda().has_new_kinds
    let_time_pass(postgres_dsn)
    with psycopg.connect(postgres_dsn) as other:
        assert other.execute(f"SELECT FROM windlass.{table} WHERE id = %s FOR UPDATE", (locked,)).rowcount
        store.rules.catch_up()
        assert not store.upkeep.agenda().has_new_kinds


def test_a_repeated_look_does_not_go_through_history_again(
    postgres_dsn: str, stores: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would for as long as somebody holds his lock; the look that counts does."""
    store = stores(postgres_dsn)
    (locked,) = enqueue(store, kind="a")
    read: list[str] = []
    real = store.db.read

    def noted(verb: str, **given: Any) -> Any:
        read.append(verb)
        return real(verb, **given)

    monkeypatch.setattr(store.db, "read", noted)
    with psycopg.connect(postgres_dsn) as other:
        assert other.execute("SELECT FROM windlass.job WHERE id = %s FOR UPDATE", (locked,)).rowcount
        store.rules.define([EACH])
        for _ in range(4):
            store.rules.catch_up()
        assert read.count("rule.missed") == 1
        other.rollback()
    store.rules.catch_up()
    assert read.count("rule.missed") == 2


class Hands:
    """A clock that the test moves; stands for the module `time`."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_upkeep_looks_again_soon_and_then_less_often(
    postgres_dsn: str, stores: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds the lock may hold it for long, and a look goes through the whole queue: the pauses grow, they are kept also when
    upkeep has other things to see to, and a look that takes long is made more seldom."""
    hands = Hands()
    monkeypatch.setattr(agenda_module, "time", hands)
    store = stores(postgres_dsn)
    (locked,) = enqueue(store, kind="a")
    recoverer = Recoverer(
        store,
        holder=store.join,
        phases={},
        crash_cap=3,
        record=lambda _outcome: None,
        in_thread=lambda call: call(),
        on_recovered=lambda _recovered: None,
    )
    agenda = Agenda(store, recoverer, every=5.0, on_promoted=lambda _phase, _count: None)
    looks, took = [], 0.0
    real = store.rules.catch_up

    def catch_up() -> int:
        looks.append(hands.now)
        hands.now += took
        return real()

    monkeypatch.setattr(store.rules, "catch_up", catch_up)
    with psycopg.connect(postgres_dsn) as other:
        assert other.execute("SELECT FROM windlass.job WHERE id = %s FOR UPDATE", (locked,)).rowcount
        store.rules.define([EACH])
        waits = []
        for n in range(1, 9):
            waits.append(agenda.run())
            assert len(looks) == n
            hands.now += waits[-1] / 2
            assert agenda.run() == pytest.approx(waits[-1] / 2) and len(looks) == n
            hands.now += waits[-1] / 2 + 1e-6
        assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
        took = 20.0
        agenda.run()
        for _ in range(7):
            hands.now += 5.0
            agenda.run()
        assert len(looks) == 9
        hands.now += 5.0 + 1e-6
        took = 0.0
        agenda.run()
        assert len(looks) == 10
        other.rollback()
    hands.now += 40.0
    agenda.run()
    assert _flagged(postgres_dsn, "job") == {locked}
    assert agenda.run() == 5.0 and len(looks) == 11


@pytest.mark.parametrize("look", [1, 2])
def test_an_end_under_way_during_a_look_makes_its_child_soon(
    postgres_dsn_every: str, stores: Open, look: int
) -> None:
    """It ends unflagged: too late to be flagged, too early to be found among those that ended. During the last look as well: nobody
    would look for it any more."""
    store = stores(postgres_dsn_every)
    holder = store.join()
    entries = check([NewJob(kind="a")])
    with user_transaction(postgres_dsn_every) as tx:
        store.enqueuer.insert(tx, entries, inbox=False, is_repeat=False)
        store.rules.define([EACH])
        if look == 2:
            store.rules.catch_up()
            let_time_pass(postgres_dsn_every)
        tx.connection.commit()
    (lease,) = claim(holder, 1, "a")
    with slowly(postgres_dsn_every, ended(Completed(lease))):
        assert store.rules.catch_up() == 0
    assert made(store) == 0 and store.upkeep.agenda().has_new_kinds
    assert store.rules.catch_up() == 1
    assert made(store) == 1
    assert_consistent(postgres_dsn_every, store)


def _after(store: Store) -> Any:
    return After(enqueue(store, kind="parent")[0])


def _flagged(dsn: str, table: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(f"SELECT id::text FROM windlass.{table} WHERE flags & 64 <> 0")
        return {row[0] for row in rows}


def test_a_job_of_a_callers_open_transaction_is_flagged_when_it_leaves_the_inbox(
    postgres_dsn_every: str, stores: Open
) -> None:
    """Its enqueue did not know the rule, and its commit came after every look."""
    store = stores(postgres_dsn_every)
    with user_transaction(postgres_dsn_every) as tx:
        store.enqueuer.enqueue_in(tx, [NewJob(kind="a"), NewJob(kind="b")])
        store.rules.put(EACH)
        let_time_pass(postgres_dsn_every)
        store.rules.catch_up()
        tx.connection.commit()
    store.upkeep.promote()
    holder = store.join()
    assert not claim(holder, 1, "b")[0].flags & Flag.RULES
    holder.complete(claim(holder, 1, "a")[0])
    assert made(store) == 1


def test_a_child_that_was_enqueued_unknowingly_is_flagged_when_it_is_freed(
    postgres_dsn: str, stores: Open
) -> None:
    """The same for one that waits for others: its parents move it into its queue."""
    store = stores(postgres_dsn)
    (parent,) = enqueue(store, kind="parent")
    with user_transaction(postgres_dsn) as tx:
        store.enqueuer.enqueue_in(tx, [NewJob(kind=kind, after=[After(parent)]) for kind in "ab"])
        store.rules.put(EACH)
        let_time_pass(postgres_dsn)
        store.rules.catch_up()
        tx.connection.commit()
    store.dependencies.link()
    holder = store.join()
    holder.complete(claim(holder, 1, "parent")[0])
    assert not claim(holder, 1, "b")[0].flags & Flag.RULES
    holder.complete(claim(holder, 1, "a")[0])
    assert made(store) == 1


def test_an_enqueue_under_way_while_a_rule_comes_is_found_by_the_second_look(
    postgres_dsn: str, stores: Open
) -> None:
    """Its statement began before the rule was there and it commits after the first look, straight into the queue. The job is found,
    whether it still lives then or has ended."""
    store = stores(postgres_dsn)
    entries = check([NewJob(kind="a"), NewJob(kind="a")])
    with user_transaction(postgres_dsn) as tx:
        store.enqueuer.insert(tx, entries, inbox=False, is_repeat=False)
        store.rules.put(EACH)
        tx.connection.commit()
    holder = store.join()
    lives, ends = claim(holder, 2, "a")
    holder.complete(ends)
    assert made(store) == 0
    let_time_pass(postgres_dsn)
    assert store.rules.catch_up() == 1
    holder.complete(lives)
    assert made(store) == 2


def test_two_that_catch_up_at_once_make_each_child_once(postgres_dsn: str, stores: Open) -> None:
    store = stores(postgres_dsn)
    holder = store.join()
    enqueue(store, 50, kind="a", args={"k": 1})
    enqueue(store, 50, kind="b", args={"k": 1})
    leases = [*claim(holder, 50, "a"), *claim(holder, 50, "b")]
    store.rules.define([EACH, replace(PAIR, create="pair", phase="pair")])
    holder.record([Completed(lease) for lease in leases])
    barrier = threading.Barrier(4)

    def look() -> int:
        barrier.wait()
        return store.rules.catch_up()

    with ThreadPoolExecutor(4) as pool:
        total = sum(pool.map(lambda _: look(), range(4)))
    assert made(store) == 50
    assert total == 50 + made(store, "pair") and deadlocks(postgres_dsn) == 0


# ------------------------------------------------------------------------------------------------ pruning


@pytest.mark.parametrize("state", ["resting", "cancelled"])
def test_pruning_leaves_out_fan_ins_that_are_locked(postgres_dsn: str, stores: Open, state: str) -> None:
    """Somebody has just arrived there."""
    impatient(postgres_dsn)
    store = stores(postgres_dsn)
    store.rules.put(PAIR)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        opened = "now()" if state == "cancelled" else "NULL"
        connection.execute(
            f"INSERT INTO windlass.fan_in (rule, key, missing, bad, opened_at) "
            f"SELECT 'pair', n::text, 2, {int(state == 'cancelled')}, {opened} FROM generate_series(1, 2) AS n"
        )
    with psycopg.connect(postgres_dsn) as other:
        other.execute("SELECT FROM windlass.fan_in WHERE key = '1' FOR UPDATE")
        store.upkeep.prune(Retention())
        assert other.execute("SELECT key FROM windlass.fan_in").fetchall() == [("1",)]


# ------------------------------------------------------------------------------------------------ everything at once


@pytest.mark.slow
def test_random_meetings_of_ends_retries_and_changes_make_each_child_once(
    postgres_dsn: str, stores: Open
) -> None:
    """Four threads end parents of 150 keys, now and then one fails and is retried, while the rule's arguments change, upkeep looks and
    prunes: one child a key, and nothing is left open."""
    store = stores(postgres_dsn)
    store.rules.put(PAIR)
    chance = random.Random(3)
    keys = 150
    stop = threading.Event()

    def meddle() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            store.rules.define([replace(PAIR, args={"k": "args.k", f"n{n}": ("a", "id")})])
            store.rules.catch_up()
            store.upkeep.prune(Retention())
            time.sleep(0.02)

    with ThreadPoolExecutor(6) as pool:
        meddler = pool.submit(meddle)
        jobs = [NewJob(kind=kind, args={"k": k}) for kind in "ab" for k in range(keys)]
        chance.shuffle(jobs)
        store.enqueue(jobs)

        def work(seed: int) -> None:
            own, holder = random.Random(seed), store.join()
            idle_since = time.monotonic()
            while time.monotonic() - idle_since < 1.0:
                leases = holder.claim(own.choice("ab"), own.choice((1, 5, 20)))
                outcomes = [Failed(x, BOOM) if own.random() < 0.2 else Completed(x) for x in leases]
                if outcomes:
                    idle_since = time.monotonic()
                    assert set(holder.record(outcomes)) == {Verdict.RECORDED}
                for outcome in outcomes:
                    if isinstance(outcome, Failed):
                        store.jobs.retry(outcome.lease.id)

        for worker in [pool.submit(work, seed) for seed in range(4)]:
            worker.result()
        stop.set()
        meddler.result()
    found = Counter(job.args["k"] for job in store.jobs.list(JobFilter(kind="child"), limit=1000).jobs)
    assert found == Counter(range(keys)) and store.rules.open() == []
    assert deadlocks(postgres_dsn) == 0
    assert_consistent(postgres_dsn, store)
    eventually(lambda: store.phases.counts()["a"].completed == keys, "every parent to have completed")
