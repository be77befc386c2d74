"""Jobs that were there before their rule: each is told of it once, whoever has it in hand at that moment (I-18)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from tests.interleavings.sessions import (
    Open,
    Waiting,
    assert_consistent,
    claim,
    deadlocks,
    enqueue,
    until_blocked,
    user_transaction,
)
from tests.interleavings.slow_ends import EACH, PAIR, ended, impatient, made, slowly
from windlass.features import Store
from windlass.model import (
    After,
    Completed,
    Flag,
    NewJob,
    Verdict,
)
from windlass.rules import duty as duty_module
from windlass.rules.store import Rules
from windlass.store.ids import SMALLEST
from windlass.store.jobs.checked import check
from windlass.upkeep import agenda as agenda_module
from windlass.upkeep.agenda import Agenda
from windlass.upkeep.recoverer import Recoverer

pytestmark = pytest.mark.timing


def let_time_pass(dsn: str) -> None:
    """Kinds look as if they had been there for long."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("UPDATE windlass.rule_kind SET since = since - interval '20 seconds'")


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


@pytest.mark.owner
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
        assert store.upkeep.agenda().has("new_kinds")
        other.rollback()
    store.rules.catch_up()
    assert _flagged(postgres_dsn, table) == {locked, free}
    assert not store.upkeep.agenda().has("new_kinds")
    let_time_pass(postgres_dsn)
    with psycopg.connect(postgres_dsn) as other:
        assert other.execute(f"SELECT FROM windlass.{table} WHERE id = %s FOR UPDATE", (locked,)).rowcount
        store.rules.catch_up()
        assert not store.upkeep.agenda().has("new_kinds")


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
    monkeypatch.setattr(duty_module, "time", hands)
    store = stores(postgres_dsn)
    (locked,) = enqueue(store, kind="a")
    recoverer = Recoverer(
        store,
        instance=SimpleNamespace(holder=store.join()),
        phases={},
        death_cap=10,
        record=lambda _outcome: None,
        in_thread=lambda call: call(),
        on_recovered=lambda _recovered: None,
    )
    agenda = Agenda(store, recoverer, every=5.0, on_promoted=lambda _phase, _count: None)
    looks, took = [], 0.0
    real = Rules.catch_up

    def catch_up(rules: Rules) -> int:
        looks.append(hands.now)
        hands.now += took
        return real(rules)

    monkeypatch.setattr(Rules, "catch_up", catch_up)
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
    assert made(store) == 0 and store.upkeep.agenda().has("new_kinds")
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


@pytest.mark.owner
def test_a_lock_that_is_kept_does_not_hold_up_the_children_of_others(
    postgres_dsn: str, stores: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were locked during the first look; one ends unflagged, and the other's transaction stays open."""
    impatient(postgres_dsn)
    store = stores(postgres_dsn)
    kept, short, late, more = (enqueue(store, kind="a")[0] for _ in range(4))
    holder = store.join()
    leases = {lease.id: lease for lease in claim(holder, 4, "a")}
    lock = "SELECT FROM windlass.job WHERE id = %s FOR UPDATE"
    with psycopg.connect(postgres_dsn) as other:
        assert other.execute(lock, (kept,)).rowcount
        with psycopg.connect(postgres_dsn) as moment:
            assert moment.execute(lock, (short,)).rowcount
            assert moment.execute(lock, (late,)).rowcount
            store.rules.put(EACH)
            moment.rollback()
        assert holder.record([Completed(leases[short])]) == [Verdict.RECORDED]
        with psycopg.connect(postgres_dsn) as moment:
            assert moment.execute(lock, (late,)).rowcount
            store.rules.catch_up()
            assert made(store) == 1, "fewer are locked: somebody may have ended"
            moment.rollback()
        assert holder.record([Completed(leases[late])]) == [Verdict.RECORDED]
        with psycopg.connect(postgres_dsn) as moment:
            # As if a process that does not know of the rule had enqueued it.
            moment.execute("UPDATE windlass.job SET flags = 0 WHERE id = %s", (more,))
            moment.commit()
            assert moment.execute(lock, (more,)).rowcount
            store.rules.catch_up()
            assert made(store) == 1, "as many are locked as before: history is not read each time"
            monkeypatch.setattr("windlass.rules.store.FIRE_EVERY", 0.0)
            store.rules.catch_up()
            assert made(store) == 2, "but now and then it is"
