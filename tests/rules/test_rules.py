"""Rules: children made by the commit that ends their parents, once, of what the parents left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.life import (
    BOOM,
    LEASE,
    assert_counts_are_true,
    claim_one,
    enqueue,
    one,
    state,
)
from tests.rules.ruled import RUN, WAIT, children, end, period, when
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    After,
    Completed,
    DependencyPolicy,
    Failed,
    Flag,
    NewJob,
    Outcome,
    Retention,
    State,
)
from windlass.model.principal import NOBODY, Principal

# ------------------------------------------------------------------------------------------------ one parent


def test_a_child_is_made_by_the_commit_of_its_parent(store: Store) -> None:
    """With what the rule says it gets, in its queue at once, under its parent's correlation id."""
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


@pytest.mark.owner
def test_a_child_may_do_what_its_parents_may(store: Store, clock: ManualClock) -> None:
    """Of one parent and of several; nothing where they are different people's, or where one is not there any more."""
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
    """No child; one all the same; or none yet, which is to be seen. A retry that completes makes one in each case."""
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
