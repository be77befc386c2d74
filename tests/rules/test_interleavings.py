"""Rules and the ends of their parents, met at the wrong moment: each child is made once, and none is forgotten (I-18)."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
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
)
from tests.interleavings.slow_ends import EACH, PAIR, ended, impatient, made, slowly
from tests.waiting import eventually
from windlass.errors import RuleCycleError
from windlass.model import (
    Completed,
    Failed,
    JobFilter,
    Lease,
    NewJob,
    Outcome,
    Retention,
    Verdict,
)
from windlass.model.rule import Rule
from windlass.rules.store import Rules
from windlass.store.jobs.enqueue import Enqueuer

pytestmark = pytest.mark.timing

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
    with slowly(postgres_dsn, lambda db: Rules(db, Enqueuer(db)).define([changed])):
        ending = Waiting(lambda: holder.complete(lease))
        until_blocked(postgres_dsn, ending)
    ending.result()
    assert [seen.key for seen in store.rules.open()] == [[8]]


def test_two_that_define_at_once_cannot_close_a_circle(postgres_dsn: str, stores: Open) -> None:
    """Each is fine with what it sees; the second sees the first."""
    store = stores(postgres_dsn)
    back = Rule(name="back", parents=("child",), create="a", phase="a")
    with slowly(postgres_dsn, lambda db: Rules(db, Enqueuer(db)).define([EACH])):
        second = Waiting(lambda: store.rules.define([back]))
        until_blocked(postgres_dsn, second)
    with pytest.raises(RuleCycleError, match="child → a"):
        second.result()
    assert [item.rule.name for item in store.rules.list()] == ["each"]


# ------------------------------------------------------------------------------------------------ pruning


@pytest.mark.owner
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
            while any(store.phases.counts()[kind].completed < keys for kind in "ab"):
                leases = holder.claim(own.choice("ab"), own.choice((1, 5, 20)))
                outcomes = [Failed(x, BOOM) if own.random() < 0.2 else Completed(x) for x in leases]
                if outcomes:
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
