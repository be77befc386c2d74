"""Rules: children made by the commit that ends their parents, once, of what the parents left (G1, G2, G4, G6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.life import (
    BOOM,
    LEASE,
    assert_counts_are_true,
    claim_one,
    enqueue,
    every_job,
    one,
    state,
)
from windlass.clock import ManualClock
from windlass.model import (
    After,
    Completed,
    DependencyPolicy,
    Failed,
    Flag,
    Job,
    Lease,
    NewJob,
    Outcome,
    Retention,
    State,
)
from windlass.principal import NOBODY, Principal
from windlass.rules import Rule
from windlass.store import Store
from windlass.store.holder import Holder

CANCEL, WAIT, RUN = DependencyPolicy.CANCEL, DependencyPolicy.WAIT, DependencyPolicy.RUN
KEY = ("args.period",)


def when(store: Store, *parents: str, create: str = "child", **options: Any) -> Rule:
    """Define a rule, and only that; live jobs of its kinds are flagged."""
    key = options.pop("key", KEY if len(parents) > 1 else ())
    args = options.pop("args", {"period": "args.period"} if key else {"*": "args"})
    name = options.pop("name", f"{'+'.join(parents)}->{create}")
    rule = Rule(name=name, parents=parents, create=create, phase=create, key=key, args=args, **options)
    return store.rules.put(rule).rule


def end(holder: Holder, phase: str, how: str = "completed", result: Any = None) -> str:
    """Claim the oldest job of a phase and end it."""
    lease = claim_one(holder, phase)
    match how:
        case "completed":
            holder.complete(lease, result)
        case "failed":
            holder.fail(lease, BOOM)
        case _:
            holder.cancel(lease)
    return lease.id


def children(store: Store, kind: str = "child") -> list[Job]:
    return sorted(every_job(store, kind=kind), key=lambda job: job.id)


def period(store: Store, kind: str, value: Any = "07", **options: Any) -> str:
    return one(store, kind, args={"period": value}, **options)


# ------------------------------------------------------------------------------------------------ one parent


def test_a_child_is_made_by_the_commit_of_its_parent(store: Store) -> None:
    """G1, G6: with what the rule says it gets, in its queue at once, under its parent's correlation id."""
    when(store, "a", args={"*": "args", "report": "result", "of": "id"}, priority=8, max_attempts=7)
    parent = one(store, "a", args={"period": "07"}, correlation_id="order-7")
    holder = store.join()
    end(holder, "a", result={"rows": 3})
    (child,) = children(store)
    assert child.state is State.QUEUED and child.args == {"period": "07", "report": {"rows": 3}, "of": parent}
    assert (child.priority, child.max_attempts, child.correlation_id) == (8, 7, "order-7")
    (edge,) = store.dependencies.of(child.id)
    assert (edge.parent, edge.child, edge.parent_state, edge.rule) == (
        parent,
        child.id,
        "completed",
        "a->child",
    )
    assert store.dependencies.of(parent) == [edge]
    assert claim_one(holder, "child").id == child.id
    assert_counts_are_true(store)


def test_a_child_may_have_a_correlation_id_of_its_own(store: Store) -> None:
    when(store, "a", inherit=False)
    one(store, "a", correlation_id="order-7")
    end(store.join(), "a")
    (child,) = children(store)
    assert child.correlation_id == child.id


def test_a_parent_without_a_correlation_id_passes_its_id_on(store: Store) -> None:
    when(store, "a")
    parent = one(store, "a")
    end(store.join(), "a")
    assert children(store)[0].correlation_id == parent


def test_a_child_may_do_what_its_parents_may(store: Store, clock: ManualClock) -> None:
    """G6: of one parent and of several; nothing where they are different people's, or where one is not there any more."""
    user, other = Principal("u-7", roles={"read", "write"}), Principal("u-8", roles={"read"})
    when(store, "a", create="one")
    when(store, "a", create="own", inherit=False)
    when(store, "a", "b")
    holder = store.join()
    for value, first, second in (
        ("same", user, user),
        ("mixed", user, other),
        ("half", None, user),
        ("nobody", None, None),
    ):
        period(store, "a", value, principal=first)
        period(store, "b", value, principal=second)
        end(holder, "a")
        end(holder, "b")
    found = {job.args["period"]: store.principals.get(job.id) for job in children(store)}
    told = {value: item.principal if item else None for value, item in found.items()}
    assert told == {"same": user, "mixed": NOBODY, "half": user, "nobody": None}
    singles = [store.principals.get(job.id) for job in children(store, "one")]
    assert [item.principal if item else None for item in singles] == [user, user, None, None]
    assert {store.principals.get(job.id) for job in children(store, "own")} == {None}
    for value, who in (("lost", user), ("free", None)):
        period(store, "a", value, principal=who)
        end(holder, "a")
        period(store, "b", value, principal=user, delay=timedelta(days=30))
    clock.advance(timedelta(days=31))
    store.upkeep.prune(Retention())
    store.upkeep.maintain()
    store.upkeep.promote()
    other_holder = store.join()
    for _ in range(2):
        end(other_holder, "b")
    found = {job.args["period"]: store.principals.get(job.id) for job in children(store)}
    assert {value: item and item.principal for value, item in found.items() if value in ("lost", "free")} == {
        "lost": NOBODY,
        "free": user,
    }


def test_every_rule_of_a_kind_fires_for_every_job(store: Store) -> None:
    when(store, "a", create="child")
    when(store, "a", create="other")
    when(store, "other", create="third")
    enqueue(store, "a", 3)
    enqueue(store, "unrelated", 2)
    holder = store.join()
    leases = [*holder.claim("a", 3), *holder.claim("unrelated", 2)]
    holder.record([Completed(lease) for lease in leases])
    holder.record([Completed(lease) for lease in holder.claim("other", 9)])
    assert [len(children(store, kind)) for kind in ("child", "other", "third")] == [3, 3, 3]
    assert_counts_are_true(store)


@pytest.mark.parametrize("policy", DependencyPolicy)
@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_parent_that_does_not_complete(store: Store, how: str, policy: DependencyPolicy) -> None:
    """G4: no child; one all the same; or none yet, which is to be seen. A retry that completes makes one in each case."""
    when(store, "a", policy=policy, args={"how": "state"})
    parent = one(store, "a")
    holder = store.join()
    end(holder, "a", how)
    assert [child.args for child in children(store)] == ([{"how": how}] if policy is RUN else [])
    waiting = store.rules.open()
    if policy is WAIT:
        (seen,) = waiting
        assert (seen.rule, seen.key, seen.missing, seen.complete) == ("a->child", parent, ["a"], [])
        assert [(part.job_id, str(part.state)) for part in seen.failed] == [(parent, how)]
        assert not seen.is_cancelled and seen.error is None
    else:
        assert waiting == []
    store.jobs.retry(parent)
    end(holder, "a")
    assert [child.args["how"] for child in children(store)] == ([how] if policy is RUN else []) + [
        "completed"
    ]
    assert store.rules.open() == []
    assert_counts_are_true(store)


def test_each_generation_of_a_parent_makes_its_own_child(store: Store) -> None:
    when(store, "a")
    parent = one(store, "a")
    holder = store.join()
    for _ in range(3):
        end(holder, "a")
        store.jobs.retry(parent)
    assert len(children(store)) == 3
    assert len(store.dependencies.of(parent)) == 3


@pytest.mark.parametrize("place", ["queued", "scheduled", "waiting", "waiting and not linked"])
def test_a_parent_that_is_cancelled_before_it_ran(store: Store, place: str) -> None:
    when(store, "a", policy=RUN)
    options: dict[str, Any] = {"delay": timedelta(hours=1)} if place == "scheduled" else {}
    if place.startswith("waiting"):
        options = {"after": [After(one(store, "b"))]}
    parent = one(store, "a", **options)
    if place == "waiting":
        store.dependencies.link()
    store.jobs.cancel(parent)
    assert len(children(store)) == 1
    assert_counts_are_true(store)


@pytest.mark.parametrize("linked", ["before", "after"])
def test_rules_of_jobs_that_are_cancelled_along_with_others(store: Store, linked: str) -> None:
    """A chain of direct dependencies is cancelled; each of its jobs has a rule that makes a child all the same."""
    for kind in ("a", "b", "c"):
        when(store, kind, create=f"after {kind}".replace(" ", "-"), policy=RUN)
    a = one(store, "a")
    b = one(store, "b", after=[After(a)])
    one(store, "c", after=[After(b)])
    holder = store.join()
    if linked == "before":
        store.dependencies.link()
    end(holder, "a", "failed")
    while store.dependencies.link():
        pass
    assert [len(children(store, f"after-{kind}")) for kind in ("a", "b", "c")] == [1, 1, 1]
    assert_counts_are_true(store)


def test_a_child_is_made_with_the_effects_of_its_parent_or_not_at_all(store: Store) -> None:
    when(store, "a")
    one(store, "a")
    holder = store.join()
    lease = claim_one(holder, "a")

    def work(fails: bool) -> None:
        with holder.transaction(lease) as tx:
            tx.complete("done")
            if fails:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work(fails=True)
    assert children(store) == []
    work(fails=False)
    assert len(children(store)) == 1


def test_ends_that_recovery_decides_make_children(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """One whose output was there is completed, one out of attempts fails."""
    when(store, "a", args={"how": "state"}, policy=RUN)
    one(store, "a")
    one(store, "a", max_attempts=1)
    dead = opened().join(lease=LEASE)
    first, _second = dead.claim("a", 2)
    dead.put_output(first, "there")
    clock.advance(LEASE + timedelta(seconds=1))
    store.recovery.recover()
    assert sorted(child.args["how"] for child in children(store)) == ["completed", "failed"]
    assert_counts_are_true(store)


def test_the_flag_travels_with_the_parent(store: Store, clock: ManualClock) -> None:
    when(store, "a")
    one(store, "a", delay=timedelta(seconds=1))
    clock.advance(2)
    store.upkeep.promote()
    holder = store.join()
    holder.retry_later(claim_one(holder, "a"), BOOM, timedelta(0))
    store.upkeep.promote()
    holder.release(claim_one(holder, "a"))
    holder.advance(claim_one(holder, "a"), "b")
    assert children(store) == []
    holder.complete(claim_one(holder, "b"))
    assert len(children(store)) == 1


@pytest.mark.parametrize(
    "way", ["one by one", "many at once", "through the inbox", "with a delay", "waiting"]
)
def test_jobs_of_other_kinds_are_not_flagged(store: Store, clock: ManualClock, way: str) -> None:
    """So their ends never ask for rules."""
    when(store, "a")
    if way == "many at once":
        store.enqueue([NewJob(kind="a" if n % 2 else "b") for n in range(600)])
    elif way == "through the inbox":
        with store.db.effect(5) as tx:
            store.enqueuer.enqueue_in(tx, [NewJob(kind="a"), NewJob(kind="b")])
        store.upkeep.promote()
    else:
        for kind in ("a", "b"):
            options: dict[str, Any] = {"delay": timedelta(seconds=1)} if way == "with a delay" else {}
            if way == "waiting":
                options = {"after": [After(one(store, "parent"))]}
            one(store, kind, **options)
    holder = store.join()
    if way == "waiting":
        store.dependencies.link()
        for _ in range(2):
            end(holder, "parent")
    clock.advance(2)
    store.upkeep.promote()
    flags = {kind: {lease.flags & Flag.RULES for lease in holder.claim(kind, 300)} for kind in ("a", "b")}
    assert flags == {"a": {Flag.RULES}, "b": {Flag(0)}}


def test_a_retried_or_revived_job_is_flagged_anew(store: Store) -> None:
    """It ended before its kind had rules, or has none left."""
    parents = [one(store, kind) for kind in ("a", "b")]
    revived = one(store, "a", after=[After(parents[0])])
    store.dependencies.link()
    holder = store.join()
    for kind in ("a", "b"):
        end(holder, kind, "failed")
    when(store, "a")
    for parent in parents:
        store.jobs.retry(parent, dependents=True)
    assert [claim_one(holder, kind).flags & Flag.RULES for kind in ("a", "b")] == [Flag.RULES, Flag(0)]
    store.jobs.cancel(revived)
    store.jobs.retry(revived)
    store.rules.remove("a->child")
    assert claim_one(holder, "a").flags & Flag.RULES, "flags are taken off with the end"
    assert children(store) == []


# ------------------------------------------------------------------------------------------------ several parents


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_a_child_is_made_when_all_kinds_with_its_key_completed(store: Store, order: str) -> None:
    """G2, G6."""
    when(
        store,
        "a",
        "b",
        "c",
        args={"period": "args.period", "total": ("b", "result.total"), "whole": ("a", "result")},
    )
    ids = {kind: period(store, kind, correlation_id=f"of {kind}") for kind in "abc"}
    for kind in "abc":
        period(store, kind, "08")
    holder = store.join()
    for place, kind in enumerate(order):
        assert children(store) == []
        if place:
            (seen,) = store.rules.open()
            assert (seen.rule, seen.key, seen.round) == ("a+b+c->child", ["07"], 1)
            assert {part.kind for part in seen.complete} == set(order[:place])
            assert set(seen.missing) == set(order[place:]) and not seen.is_cancelled
        end(holder, kind, result={"total": kind})
    (child,) = children(store)
    assert child.args == {"period": "07", "total": "b", "whole": {"total": "a"}}
    assert child.correlation_id == f"of {order[-1]}", "of the one that completed it"
    assert {edge.parent for edge in store.dependencies.of(child.id)} == set(ids.values())
    assert store.rules.open() == []
    assert_counts_are_true(store)


def test_the_last_parents_may_end_in_one_batch(store: Store) -> None:
    """Also several groups, several rules and several rounds at once."""
    when(store, "a", "b")
    when(store, "a", "c", create="other")
    for value in ("07", "08", "07"):
        for kind in "abc":
            period(store, kind, value)
    holder = store.join()
    outcomes = [Completed(lease) for kind in "abc" for lease in holder.claim(kind, 9)]
    holder.record(outcomes)
    for kind in ("child", "other"):
        assert sorted(child.args["period"] for child in children(store, kind)) == ["07", "07", "08"]
    assert store.rules.open() == []
    assert_counts_are_true(store)


def test_a_key_makes_a_child_each_round(store: Store) -> None:
    when(store, "a", "b")
    holder = store.join()
    for round_ in (1, 2, 3):
        period(store, "a")
        period(store, "b")
        end(holder, "a")
        assert [seen.round for seen in store.rules.open()] == [round_]
        end(holder, "b")
        assert len(children(store)) == round_
    assert store.rules.open() == []


def test_a_kind_that_completes_twice_counts_once_and_the_last_wins(store: Store) -> None:
    when(store, "a", "b", args={"n": ("a", "args.n")})
    first, second = (one(store, "a", args={"period": "07", "n": n}) for n in (1, 2))
    period(store, "b")
    holder = store.join()
    assert [end(holder, "a"), end(holder, "a")] == [first, second]
    assert children(store) == []
    (seen,) = store.rules.open()
    assert [part.job_id for part in seen.complete] == [second]
    end(holder, "b")
    (child,) = children(store)
    assert child.args == {"n": 2}
    assert first not in {edge.parent for edge in store.dependencies.of(child.id)}


@pytest.mark.parametrize("order", ["completed first", "failed first"])
@pytest.mark.parametrize("policy", DependencyPolicy)
def test_a_completion_goes_before_a_failure_of_the_same_kind(
    store: Store, order: str, policy: DependencyPolicy
) -> None:
    """All kinds have completed, whatever else of them did not."""
    when(store, "a", "b", args={"n": ("a", "args.n")}, policy=policy)
    for n in (1, 2):
        one(store, "a", args={"period": "07", "n": n})
    period(store, "b")
    holder = store.join()
    ends = ["completed", "failed"] if order == "completed first" else ["failed", "completed"]
    for how in ends:
        end(holder, "a", how)
    (seen,) = store.rules.open()
    assert seen.missing == ["b"] and seen.failed == [] and not seen.is_cancelled
    end(holder, "b")
    assert [child.args["n"] for child in children(store)] == [ends.index("completed") + 1]


@pytest.mark.parametrize("policy", DependencyPolicy)
@pytest.mark.parametrize("how", ["failed", "cancelled"])
@pytest.mark.parametrize("order", ["bad first", "bad last"])
def test_a_group_with_a_parent_that_did_not_complete(
    store: Store, policy: DependencyPolicy, how: str, order: str
) -> None:
    """G4, whichever ends first. A retry that completes resumes it: nothing else has to be run again."""
    when(store, "a", "b", policy=policy, args={"how": ("a", "state"), "good": ("b", "state")})
    bad = period(store, "a")
    good = period(store, "b")
    holder = store.join()
    for kind in "ab" if order == "bad first" else "ba":
        end(holder, kind, how if kind == "a" else "completed")
    if policy is RUN:
        assert [child.args for child in children(store)] == [{"how": how, "good": "completed"}]
        assert store.rules.open() == []
        return
    assert children(store) == []
    (seen,) = store.rules.open()
    assert seen.missing == ["a"] and seen.is_cancelled == (policy is CANCEL)
    assert [(part.kind, part.job_id) for part in seen.complete] == [("b", good)]
    assert [(part.job_id, str(part.state)) for part in seen.failed] == [(bad, how)]
    store.jobs.retry(bad)
    end(holder, "a", "failed")
    assert children(store) == []
    store.jobs.retry(bad)
    end(holder, "a")
    assert [child.args for child in children(store)] == [{"how": "completed", "good": "completed"}]
    assert store.rules.open() == []
    assert_counts_are_true(store)


def test_another_job_of_the_kind_may_stand_in_for_one_that_failed(store: Store) -> None:
    when(store, "a", "b", policy=WAIT)
    bad = period(store, "a")
    period(store, "b")
    holder = store.join()
    end(holder, "a", "failed")
    end(holder, "b")
    period(store, "a")
    end(holder, "a")
    assert len(children(store)) == 1
    store.jobs.retry(bad)
    end(holder, "a")
    assert len(children(store)) == 1 and store.rules.open() == [], "its round is over"


def test_a_parent_retried_after_its_round_changes_nothing(store: Store) -> None:
    """A job belongs to one round. The next one is for jobs that are not in any yet."""
    when(store, "a", "b")
    first = period(store, "a")
    superseded = period(store, "a")
    period(store, "b")
    holder = store.join()
    for kind in "aab":
        end(holder, kind)
    for parent in (first, superseded):
        store.jobs.retry(parent)
        end(holder, "a", "failed")
        store.jobs.retry(parent)
        end(holder, "a")
    assert len(children(store)) == 1 and store.rules.open() == []
    period(store, "b")
    end(holder, "b")
    assert len(children(store)) == 1
    period(store, "a")
    end(holder, "a")
    assert len(children(store)) == 2


def test_a_parent_retried_within_its_round_counts_once(store: Store) -> None:
    when(store, "a", "b", args={"n": ("a", "result")})
    parent = period(store, "a")
    period(store, "b")
    holder = store.join()
    end(holder, "a", result=1)
    store.jobs.retry(parent)
    end(holder, "a", result=2)
    (seen,) = store.rules.open()
    assert [part.kind for part in seen.complete] == ["a"] and seen.missing == ["b"]
    end(holder, "b")
    assert [child.args for child in children(store)] == [{"n": 2}]


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        (1, 1.0, True),
        ("07", "07", True),
        (None, None, True),
        ({"a": [1, "ü"]}, {"a": [1, "ü"]}, True),
        ("x" * 5000, "x" * 5000, True),
        (1, "1", False),
        (True, 1, False),
        ("", None, False),
        ("x" * 5000, "x" * 5000 + "y", False),
    ],
)
def test_which_keys_are_the_same(store: Store, first: Any, second: Any, meet: bool) -> None:
    when(store, "a", "b", args={})
    period(store, "a", first)
    period(store, "b", second)
    holder = store.join()
    end(holder, "a")
    end(holder, "b")
    assert len(children(store)) == int(meet)
    assert len(store.rules.open()) == (0 if meet else 2)


def test_jobs_without_the_field_meet_each_other(store: Store) -> None:
    when(store, "a", "b")
    one(store, "a")
    one(store, "b", args={"other": 1})
    holder = store.join()
    end(holder, "a")
    assert [seen.key for seen in store.rules.open()] == [[None]]
    end(holder, "b")
    assert [child.args for child in children(store)] == [{"period": None}]


def test_a_key_of_several_fields_and_of_the_correlation_id(store: Store) -> None:
    when(store, "a", "b", key=("args.at.year", "correlation_id"), args={"year": "args.at.year"})
    for kind, year, request in (("a", 1, "x"), ("a", 1, "y"), ("a", 2, "x"), ("b", 1, "y")):
        one(store, kind, args={"at": {"year": year}}, correlation_id=request)
    holder = store.join()
    holder.record([Completed(lease) for kind in "ab" for lease in holder.claim(kind, 9)])
    (child,) = children(store)
    assert (child.args, child.correlation_id) == ({"year": 1}, "y")
    assert sorted(tuple(seen.key) for seen in store.rules.open()) == [(1, "x"), (2, "x")]


def test_a_group_of_a_hundred_kinds(store: Store) -> None:
    kinds = [f"k{n}" for n in range(100)]
    when(store, *kinds, name="wide")
    for kind in kinds:
        period(store, kind)
    holder = store.join()
    for start in (0, 50):
        assert children(store) == []
        leases = [lease for kind in kinds[start : start + 50] for lease in holder.claim(kind, 1)]
        holder.record([Completed(lease) for lease in leases])
    assert len(children(store)) == 1


def test_what_a_child_gets_outlives_its_parents_history(store: Store, clock: ManualClock) -> None:
    """A parent is pruned while the others are waited for."""
    when(store, "a", "b", args={"period": "args.period", "n": ("a", "result")})
    parent = period(store, "a")
    later = period(store, "b", delay=timedelta(days=30))
    holder = store.join()
    end(holder, "a", result=42)
    clock.advance(timedelta(days=31))
    store.upkeep.prune(Retention())
    assert not every_job(store, kind="a")
    assert [part.job_id for part in store.rules.open()[0].complete] == [parent]
    store.upkeep.maintain()
    store.upkeep.promote()
    other = store.join()
    assert end(other, "b") == later
    assert [child.args for child in children(store)] == [{"period": "07", "n": 42}]


# ------------------------------------------------------------------------------------------------ children that cannot be made


@pytest.mark.parametrize("shape", ["one parent", "several"])
def test_a_child_that_cannot_be_made_is_seen_and_made_by_a_better_rule(store: Store, shape: str) -> None:
    """Its parents end all the same. Each result alone may be stored, all of them together are too much for arguments."""
    parents = ["a"] if shape == "one parent" else ["a", "b"]
    args = {f"copy{n}": ("a", "result") for n in range(20)}
    bad = when(
        store, *parents, args={name: path[1] for name, path in args.items()} if len(parents) == 1 else args
    )
    holder = store.join()
    for kind in parents:
        period(store, kind)
        end(holder, kind, result="x" * 100_000)
    assert children(store) == [] and store.phases.counts()["a"].completed == 1
    (seen,) = store.rules.open()
    assert seen.error is not None and "args" in seen.error and seen.missing == []
    assert {part.kind for part in seen.complete} == set(parents)
    assert shape == "one parent" or (seen.key, seen.round) == (["07"], 1)
    store.rules.put(replace(bad, args={"kept": ("a", "args")}))
    assert [child.args for child in children(store)] == [{"kept": {"period": "07"}}]
    assert store.rules.open() == []


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


# ------------------------------------------------------------------------------------------------ what it costs


def test_the_end_of_a_plain_job_asks_for_no_rules(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement ends it on PostgreSQL, and none of the rules' on either, although other kinds have some."""
    when(store, "a", "b")
    enqueue(store, "plain", 5)
    holder = store.join()
    leases = holder.claim("plain", 5)
    asked: list[str] = []
    run = type(store.db).run

    def note(self: Any, verb: str, **parameters: object) -> Any:
        asked.append(verb)
        return run(self, verb, **parameters)

    def no_transaction(_self: Any, _work: Any) -> Any:
        raise AssertionError("it took the long way")

    monkeypatch.setattr(type(store.db), "run", note)
    if store.db.dialect == "postgres":
        monkeypatch.setattr(type(store.db), "transact", no_transaction)
    outcomes: list[Outcome] = [Completed(lease) for lease in leases[:4]]
    holder.record([*outcomes, Failed(leases[4], BOOM)])
    monkeypatch.undo()
    assert asked == (["step"] if store.db.dialect == "postgres" else [])
    assert state(store, leases[0].id) is State.COMPLETED
