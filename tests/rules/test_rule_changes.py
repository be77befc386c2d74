"""Rules that come after their parents, change, and go; and what stays of them when jobs are pruned."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.life import (
    BOOM,
    assert_counts_are_true,
    claim_one,
    every_job,
    one,
)
from tests.rules.ruled import RUN, WAIT, children, end, period, when
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    After,
    Completed,
    Failed,
    Flag,
    Lease,
    Retention,
    State,
)
from windlass.model.rule import Rule

# ------------------------------------------------------------------------------------------------ rules that come later


@pytest.mark.parametrize("place", ["queued", "held", "scheduled", "retrying", "waiting", "unlinked"])
def test_a_rule_holds_for_jobs_that_live_when_it_comes(store: Store, clock: ManualClock, place: str) -> None:
    options: dict[str, Any] = {}
    if place == "scheduled":
        options = {"delay": timedelta(hours=1)}
    if place in ("waiting", "unlinked"):
        options = {"after": [After(one(store, "parent"))]}
    one(store, "a", **options)
    holder = store.join()
    lease: Lease | None = claim_one(holder, "a") if place in ("held", "retrying") else None
    if place == "retrying":
        assert lease is not None
        holder.retry_later(lease, BOOM, timedelta(hours=1))
        lease = None
    if place == "waiting":
        store.dependencies.link()
    when(store, "a")
    if place in ("waiting", "unlinked"):
        store.dependencies.link()
        end(holder, "parent")
    if lease is not None:
        assert not lease.flags & Flag.RULES
        holder.complete(lease)
    else:
        clock.advance(timedelta(hours=2))
        store.upkeep.promote()
        end(store.join(), "a")
    assert len(children(store)) == 1
    assert_counts_are_true(store)


def test_a_job_that_ended_before_the_rule_is_none_of_its_business(store: Store, clock: ManualClock) -> None:
    one(store, "a")
    holder = store.join()
    end(holder, "a")
    clock.advance(1)
    when(store, "a")
    assert children(store) == []


def test_jobs_that_nobody_flagged_are_found_when_they_ended(store: Store, clock: ManualClock) -> None:
    """The rule was stored, and a job ended before anybody had looked for it; and again for one that was enqueued by somebody who
    did not know the rule yet and that came to light only after that look. Each is found once, however often is looked."""
    for _ in range(3):
        one(store, "a")
    one(store, "b")
    holder = store.join()
    leases = [*holder.claim("a", 3), *holder.claim("b", 1)]
    store.rules.define([Rule(name="r", parents=("a",), create="child", phase="child")])
    holder.record([Completed(leases[0]), Failed(leases[1], BOOM)])
    assert children(store) == []
    assert store.rules.catch_up() == 1 and store.rules.catch_up() == 0
    clock.advance(10)
    assert store.rules.catch_up() == 0 and len(children(store)) == 1
    _take_flags_off(store)
    holder.record([Completed(lease) for lease in leases[2:]])
    assert store.rules.catch_up() == 0, "not yet: whoever did not know the rule may still be under way"
    clock.advance(6)
    assert store.rules.catch_up() == 1 and len(children(store)) == 2
    clock.advance(60)
    assert store.rules.catch_up() == 0


def _take_flags_off(store: Store) -> None:
    """As if the enqueue had not known the rule."""
    table = "windlass_job" if store.db.dialect == "sqlite" else "windlass.job"
    with store.db.effect(5) as tx:
        tx.connection.execute(f"UPDATE {table} SET flags = 0")


def test_a_late_look_finds_what_was_enqueued_unknowingly(store: Store, clock: ManualClock) -> None:
    """In either table."""
    when(store, "a")
    one(store, "a", delay=timedelta(hours=1))
    one(store, "a")
    for table in ("job", "job_later"):
        name = f"windlass_{table}" if store.db.dialect == "sqlite" else f"windlass.{table}"
        with store.db.effect(5) as tx:
            tx.connection.execute(f"UPDATE {name} SET flags = 0")
    clock.advance(16)
    store.rules.catch_up()
    holder = store.join()
    end(holder, "a")
    store.jobs.cancel(every_job(store, kind="a", state=State.SCHEDULED)[0].id)
    assert len(children(store)) == 1
    parent = every_job(store, kind="a", state=State.CANCELLED)[0].id
    store.jobs.retry(parent)
    end(holder, "a")
    assert len(children(store)) == 2


def test_a_rule_may_count_what_ended_before_it(store: Store, clock: ManualClock) -> None:
    """As often as somebody likes: each end once."""
    holder = store.join()
    for kind, value in (("a", "06"), ("a", "07"), ("b", "07"), ("c", "07")):
        period(store, kind, value)
        end(holder, kind)
        clock.advance(60)
    when(store, "a", "b")
    when(store, "a", create="other")
    assert children(store) == [] and store.rules.open() == []
    began = store.now()
    assert store.rules.backfill("a+b->child", began - timedelta(seconds=200)) == 1
    assert store.rules.backfill("a+b->child", began - timedelta(seconds=300)) == 0
    assert [child.args for child in children(store)] == [{"period": "07"}] and children(store, "other") == []
    assert [seen.key for seen in store.rules.open()] == [["06"]]
    period(store, "b", "06")
    end(holder, "b")
    assert len(children(store)) == 2
    assert store.rules.backfill("a->other", began - timedelta(seconds=200)) == 1
    assert [child.args for child in children(store, "other")] == [{"period": "07"}]


# ------------------------------------------------------------------------------------------------ rules that change


@pytest.mark.parametrize("change", ["a parent less", "another key", "other arguments", "another policy"])
def test_a_changed_rule_counts_anew_what_has_arrived(store: Store, change: str) -> None:
    rule = when(store, "a", "b", "c")
    ids = {
        kind: one(store, kind, args={"period": "07", "county": kind if kind == "c" else "x"})
        for kind in "abc"
    }
    holder = store.join()
    end(holder, "a")
    end(holder, "b", "failed" if change == "another policy" else "completed")
    match change:
        case "a parent less":
            store.rules.put(replace(rule, parents=("a", "b")))
            assert [child.args for child in children(store)] == [{"period": "07"}], "it is complete now"
        case "another key":
            store.rules.put(replace(rule, key=("args.county",), args={"county": "args.county"}))
            (seen,) = store.rules.open()
            assert seen.key == ["x"] and {part.job_id for part in seen.complete} == {ids["a"], ids["b"]}
            end(holder, "c")
            assert children(store) == [] and len(store.rules.open()) == 2
        case "other arguments":
            store.rules.put(replace(rule, args={"of": ("a", "id")}))
            end(holder, "c")
            assert [child.args for child in children(store)] == [{"of": ids["a"]}]
        case _:
            assert store.rules.open()[0].is_cancelled
            store.rules.put(replace(rule, policy=RUN))
            assert store.rules.open()[0].missing == ["c"]
            end(holder, "c")
            assert len(children(store)) == 1
    assert_counts_are_true(store)


def test_a_change_does_not_touch_what_was_made(store: Store) -> None:
    """Rounds that are over stay so, and go on counting."""
    rule = when(store, "a", "b")
    holder = store.join()
    parents = [period(store, kind) for kind in "ab"]
    for kind in "ab":
        end(holder, kind)
    store.rules.put(replace(rule, args={}))
    assert len(children(store)) == 1
    store.jobs.retry(parents[0])
    end(holder, "a")
    assert len(children(store)) == 1 and store.rules.open() == []
    period(store, "a")
    end(holder, "a")
    assert [seen.round for seen in store.rules.open()] == [2]


def test_a_rule_that_changes_its_child_keeps_who_has_arrived(store: Store) -> None:
    rule = when(store, "a", "b")
    for kind in "ab":
        period(store, kind)
    holder = store.join()
    end(holder, "a")
    opened_at = store.rules.open()[0].opened_at
    store.rules.put(replace(rule, create="other", phase="other.first", priority=1))
    assert store.rules.open()[0].opened_at == opened_at
    end(holder, "b")
    (child,) = children(store, "other")
    assert (child.phase, child.priority) == ("other.first", 1)


def test_a_removed_rule_fires_no_more(store: Store) -> None:
    when(store, "a", "b")
    when(store, "a", create="other", policy=WAIT)
    for value in ("07", "08"):
        period(store, "a", value)
    period(store, "b")
    holder = store.join()
    end(holder, "a")
    end(holder, "a", "failed")
    assert len(children(store, "other")) == 1
    assert len(store.rules.open("a+b->child")) == 2 and len(store.rules.open("a->other")) == 1
    assert store.rules.remove("a+b->child") == 2
    assert store.rules.remove("a->other") == 1
    assert store.rules.open() == [] and store.rules.list() == []
    end(holder, "b")
    assert children(store) == []
    one(store, "a")
    assert not claim_one(holder, "a").flags & Flag.RULES
    when(store, "a", "b")
    assert store.rules.open() == []


def test_two_rules_are_told_of_their_own_ends_only(store: Store) -> None:
    """Rules with the same parents and keys beside each other, one of which is changed, removed or backfilled."""
    when(store, "a", "b", name="one")
    two = when(store, "a", "b", name="two", create="other")
    when(store, "a", name="three", create="third", policy=WAIT)
    when(store, "a", name="four", create="fourth", policy=WAIT)
    period(store, "a")
    period(store, "a", "08")
    period(store, "b")
    holder = store.join()
    end(holder, "a")
    end(holder, "a", "failed")
    store.rules.put(replace(two, args={}))
    assert store.rules.remove("three") == 1
    assert [(seen.rule, seen.key) for seen in store.rules.open()][:2] == [("one", ["07"]), ("one", ["08"])]
    assert sorted(seen.rule for seen in store.rules.open()) == ["four", "one", "one", "two", "two"]
    end(holder, "b")
    assert [child.args for child in children(store)] == [{"period": "07"}]
    assert [child.args for child in children(store, "other")] == [{}]


# ------------------------------------------------------------------------------------------------ pruning


def test_what_rules_have_seen_goes_with_the_jobs(store: Store, clock: ManualClock) -> None:
    """Made children's hits go with their parents; so do groups that nobody can complete any more, but not those that wait."""
    keep = Retention(completed=timedelta(days=1), failed=timedelta(days=2), cancelled=timedelta(days=1))
    when(store, "a", "b")
    when(store, "a", "b", name="patient", create="other", policy=WAIT)
    when(store, "a", name="single", create="third", policy=WAIT)
    holder = store.join()
    for value in ("07", "08"):
        for kind in "ab":
            period(store, kind, value)
    end(holder, "a")
    end(holder, "b")
    end(holder, "a", "failed")
    end(holder, "b")
    store.upkeep.prune(keep)
    assert _tables(store) == (4, 10)
    clock.advance(timedelta(hours=25))
    store.upkeep.prune(keep)
    # Of the first key nothing is left; of the second the failed parent, and what counts beside it.
    assert _tables(store) == (2, 5)
    assert sorted((seen.rule, seen.is_cancelled) for seen in store.rules.open()) == [
        ("a+b->child", True),
        ("patient", False),
        ("single", False),
    ]
    clock.advance(timedelta(hours=25))
    for _ in range(2):
        store.upkeep.prune(keep)
    assert [(seen.rule, seen.key) for seen in store.rules.open()] == [("patient", ["08"])]
    assert _tables(store) == (1, 2)


def _tables(store: Store) -> tuple[int, int]:
    names = ["windlass_fan_in", "windlass_rule_hit"]
    if store.db.dialect == "postgres":
        names = [name.replace("_", ".", 1) for name in names]
    with store.db.effect(5) as tx:
        fan_ins, hits = (
            tx.connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names
        )
    return fan_ins, hits


@pytest.mark.owner
def test_a_group_can_be_resumed_while_what_failed_is_kept(store: Store, clock: ManualClock) -> None:
    keep = Retention(completed=timedelta(days=1), failed=timedelta(days=90), cancelled=timedelta(days=1))
    when(store, "a", "b")
    bad = period(store, "a")
    period(store, "b")
    holder = store.join()
    end(holder, "a", "failed")
    end(holder, "b")
    clock.advance(timedelta(days=20))
    store.upkeep.prune(keep)
    store.upkeep.maintain()
    store.jobs.retry(bad)
    store.upkeep.prune(keep)
    end(store.join(), "a")
    assert [child.args for child in children(store)] == [{"period": "07"}]
