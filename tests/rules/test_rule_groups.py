"""Rules of several kinds: one child per key and round, of the last completion of each kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.life import (
    assert_counts_are_true,
    every_job,
    one,
)
from tests.rules.ruled import CANCEL, RUN, WAIT, children, end, period, when
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    Completed,
    DependencyPolicy,
    Retention,
)


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_a_child_is_made_when_all_kinds_with_its_key_completed(store: Store, order: str) -> None:
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
    """Whichever ends first. A retry that completes resumes it: nothing else has to be run again."""
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


@pytest.mark.owner
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
