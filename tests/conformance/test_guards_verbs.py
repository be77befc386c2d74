"""Each verb takes what it is asked for and no more, tested where there is more to take."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import pytest

from tests.conformance.bystanders import Crowd, gather, prefix, rows, rows_without
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
from windlass.errors import LeaseLost
from windlass.features import Store
from windlass.model import (
    After,
    Archived,
    DependencyPolicy,
    Flag,
    Job,
    JobFilter,
    Key,
    KeyScope,
    NewJob,
    Retention,
    State,
)
from windlass.store.ids import LARGEST, SMALLEST, new_id

IDEMPOTENT = Key("k", KeyScope.IDEMPOTENT)


@pytest.fixture
def crowd(store: Store, opened: Callable[[], Store]) -> Crowd:
    return gather(store, opened())


# ------------------------------------------------------------------------------------------------------------- lists


def test_every_filter_shows_exactly_what_it_says(store: Store, crowd: Crowd) -> None:
    """Each state with each kind, phase and correlation that there is, and with one that there is not."""
    own = one(store, "mine", correlation_id="corr", phase="shared")
    holder = store.join()
    for end in ("complete", "fail", "cancel", "release", "retry"):
        one(store, "mine", correlation_id="corr", phase=f"shared.{end}")
        lease = claim_one(holder, f"shared.{end}")
        match end:
            case "complete":
                holder.complete(lease)
            case "fail":
                holder.fail(lease, BOOM)
            case "cancel":
                holder.cancel(lease)
            case "release":
                holder.release(lease)
            case "retry":
                holder.retry_later(lease, BOOM, timedelta(hours=1))
    everything = [store.jobs.get(job_id) for job_id in {*crowd.ids.values(), *_ids(every_job(store))}]
    newest_first = sorted(everything, key=lambda job: job.id, reverse=True)
    kinds, phases = ({getattr(job, name) for job in everything} | {"none"} for name in ("kind", "phase"))
    for state_ in (None, *State):
        filters: list[dict[str, Any]] = [{}]
        filters += [{"kind": kind} for kind in kinds]
        filters += [{"phase": phase} for phase in phases]
        filters += [
            {"correlation_id": name} for name in ("corr", own, crowd.ids["scheduled"], crowd.ids["failed"])
        ]
        for only in filters:
            expected = [
                job.id
                for job in newest_first
                if state_ in (None, job.state)
                and all(getattr(job, name) == value for name, value in only.items())
            ]
            assert _ids(every_job(store, state=state_, **only)) == expected, (state_, only)


@pytest.mark.parametrize("size", [1, 3])
def test_pages_follow_each_other_without_gap_or_repetition(store: Store, crowd: Crowd, size: int) -> None:
    for state_ in (None, *State):
        whole = _ids(store.jobs.list(JobFilter(state=state_), limit=1000).jobs)
        assert len(whole) >= (1 if state_ is State.CANCELLED else 2)
        seen: list[str] = []
        cursor = None
        for _ in range(len(whole) + 1):
            page = store.jobs.list(JobFilter(state=state_), cursor=cursor, limit=size)
            seen += _ids(page.jobs)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == whole, state_


def test_a_list_reads_no_more_than_it_needs(store: Store, crowd: Crowd) -> None:
    common = {"before": LARGEST, "limit": 1, "kind": None, "phase": None, "correlation": None}
    assert len(store.db.read("list.live", held=None, **common)) == 1
    assert len(store.db.read("list.later", reasons=["scheduled", "retry", "waiting"], **common)) == 1
    assert len(store.db.read("list.completed", **common)) == 1
    one_more = one(store, "crowd.failed2")
    crowd.keeper.fail(claim_one(crowd.keeper, "crowd.failed2"), BOOM)
    assert [row[0] for row in store.db.read("list.ended_badly", state="failed", **common)] == [one_more]


# ---------------------------------------------------------------------------------------------------------- presence


def test_only_the_jobs_asked_about_are_found(store: Store, crowd: Crowd) -> None:
    asked = [crowd.ids[name] for name in ("queued", "scheduled", "completed")]
    for verb in ("enqueue.parents", "enqueue.present"):
        assert sorted(row[0] for row in store.db.read(verb, ids=[*asked, new_id()])) == sorted(asked)
        for job_id in asked:
            assert [row[0] for row in store.db.read(verb, ids=[job_id])] == [job_id]
    assert [row[0] for row in store.db.read("link.ended", parents=asked)] == asked[2:]
    peeked = {
        name: store.db.run("retry.peek", id=crowd.ids[name]) for name in ("queued", "scheduled", "failed")
    }
    assert peeked == {"queued": [], "scheduled": [], "failed": [("failed",)]}


# ------------------------------------------------------------------------------------------------------------- claims


@pytest.mark.owner
def test_the_order_of_claims_does_not_rest_on_an_index(store: Store, clock: ManualClock) -> None:
    """Highest priority first, then oldest first; whatever plan the database may choose."""
    holder = store.join()
    middle, late = one(store, priority=5), one(store, priority=9)
    clock.advance(-1)  # a machine whose clock is behind
    early = one(store, priority=9)
    high = one(store, priority=8)
    clock.advance(1)
    with store.db.effect(5) as tx:
        index = "windlass_job_ready" if store.db.dialect == "sqlite" else "windlass.job_ready"
        tx.connection.execute(f"DROP INDEX {index}")
    order = [lease.id for _ in range(4) for lease in holder.claim("work", 1)]
    assert order == [early, late, high, middle]


@pytest.mark.owner
def test_promotion_takes_the_longest_due_first(store: Store, clock: ManualClock) -> None:
    """And gives them their places in that order, whatever order they lie in."""
    ids = [one(store, delay=timedelta(seconds=9 - n)) for n in range(6)]
    with store.db.effect(5) as tx:
        index = "windlass_job_later_due" if store.db.dialect == "sqlite" else "windlass.job_later_due"
        tx.connection.execute(f"DROP INDEX {index}")
    clock.advance(10)
    assert store.upkeep.promote(limit=4) == {"work": 4}
    holder = store.join()
    assert [lease.id for _ in range(4) for lease in holder.claim("work", 1)] == ids[:1:-1]
    assert_counts_are_true(store)
    clock.advance(1)
    one(store, "other", delay=timedelta(seconds=2))
    assert store.upkeep.promote(limit=1) == {"work": 1}
    assert [lease.id for lease in holder.claim("work", 2)] == [ids[1]]
    one(store, "third", delay=timedelta(seconds=1))
    store.jobs.cancel(ids[0])
    clock.advance(10)
    assert store.upkeep.promote(limit=1) == {"third": 1}
    assert_counts_are_true(store)
    assert store.upkeep.promote(limit=1) == {"other": 1}


def test_an_instance_that_is_forgotten_claims_nothing(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """Though others live."""
    gone = opened().join(lease=LEASE)
    clock.advance(LEASE + timedelta(seconds=1))
    living = store.join()
    store.recovery.recover()
    clock.advance(timedelta(hours=2))
    living.beat()
    store.recovery.recover()
    assert [instance.id for instance in store.instances.list()] in ([], [living.id])
    other = opened().join()
    one(store)
    assert not gone.claim("work", 1)
    assert other.claim("work", 1)


# ---------------------------------------------------------------------------------------------------------- instances


def test_the_dead_stay_as_dead_as_they_were(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """Neither a late beat nor a late goodbye changes when an instance was last alive or when it was declared dead."""
    dying = opened().join(lease=LEASE)
    one(store)
    claim_one(dying)
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    (before,) = rows(store, "instance")
    clock.advance(1)
    store.db.run("recover.declare_dead", own=None)
    with pytest.raises(LeaseLost):
        dying.beat()
    store.db.run("leave", instance=dying.id)
    assert rows(store, "instance") == [before]


def test_a_beat_answers_claims_that_are_old_own_and_unknown(store: Store, clock: ManualClock) -> None:
    mine, other = store.join(), store.join()
    enqueue(store, n=4)
    known, lost = claim_one(mine).token, claim_one(mine).token
    claim_one(other)
    clock.advance(6)
    claim_one(mine)
    ((_, unknown),) = store.db.run("beat", instance=mine.id, known=[known], grace=5.0)
    assert unknown == str(lost)


def test_only_the_late_are_buried(store: Store, opened: Callable[[], Store], clock: ManualClock) -> None:
    late, fresh = opened().join(lease=LEASE), opened().join(lease=2 * LEASE)
    clock.advance(LEASE + timedelta(seconds=1))
    assert [row[0] for row in store.db.run("recover.declare_dead", own=None)] == [late.id]
    assert {item.id: item.dead_at is None for item in store.instances.list()} == {
        late.id: False,
        fresh.id: True,
    }


def test_a_dead_instance_is_remembered_while_it_has_claims(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    dying = opened().join(lease=LEASE)
    enqueue(store, n=2)
    dying.claim("work", 2)
    clock.advance(LEASE + timedelta(hours=2))
    store.recovery.recover(limit=1)
    clock.advance(timedelta(hours=2))
    store.db.run("recover.sweep")
    assert [item.id for item in store.instances.list()] == [dying.id]
    for _ in range(2):  # first its claims go, then the instance
        store.recovery.recover()
    assert store.instances.list() == []


def test_an_instance_that_died_lately_is_still_shown(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    dying = opened().join(lease=LEASE)
    clock.advance(LEASE + timedelta(seconds=1))
    store.recovery.recover()
    clock.advance(timedelta(minutes=59))
    store.recovery.recover()
    assert [item.id for item in store.instances.list()] == [dying.id]


def test_jobs_of_an_instance_nobody_knows_are_recovered(
    store: Store, opened: Callable[[], Store], crowd: Crowd
) -> None:
    """Its row is gone, the claim is not. Others live."""
    lost = opened().join()
    job_id, named = one(store, "s"), one(store, "n")
    claim_one(lost, "s")
    with store.db.effect(5) as tx:
        tx.connection.execute(f"DELETE FROM {prefix(store)}instance WHERE id = '{lost.id}'")
    token = claim_one(crowd.keeper, "n").token
    picked = store.db.run("recover.pick", tokens=[token], limit=9)
    assert [row[0] for row in picked] == [named], "asked by token, nobody else's dead matter"
    assert [item.job_id for item in store.recovery.recover()] == [job_id]
    assert lost.id not in [str(row["instance"]) for row in rows(store, "claim")]


def test_a_holder_is_told_of_its_own_cancels_once(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """Also where others hold jobs of the same phase, lane and moment, and where its claim covers several lanes."""
    mine, theirs = opened().join(lease=LEASE), store.join()
    low, high = one(store, priority=1), one(store, priority=8)
    held = mine.claim("work", 2)
    assert {lease.id for lease in held} == {low, high} and len({lease.token for lease in held}) == 1
    other = one(store, priority=1)
    claim_one(theirs)
    store.jobs.cancel(other)
    assert (mine.beat().cancelled, theirs.beat().cancelled) == ([], [(other, ANY)])
    store.jobs.cancel(low)
    store.jobs.cancel(high)
    assert sorted(mine.beat().cancelled) == sorted((job, held[0].token) for job in (low, high))
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    picked = store.db.run("recover.pick", tokens=[held[0].token], limit=9)
    assert sorted(row[0] for row in picked) == sorted([low, high])


def test_with_tokens_given_other_peoples_dead_are_left_out(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    dying, living = opened().join(lease=LEASE), store.join(lease=timedelta(days=1))
    one(store, "dead"), one(store, "alive")
    claim_one(dying, "dead")
    lease = claim_one(living, "alive")
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    assert [row[0] for row in store.db.run("recover.pick", tokens=[lease.token], limit=9)] == [lease.id]
    assert store.db.run("recover.pick", tokens=[], limit=9) == []


def test_empty_claims_of_the_living_are_not_swept(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """They go with their holder's next step; of the dead, only those that cover nothing."""
    living, dying = store.join(lease=timedelta(days=1)), opened().join(lease=LEASE)
    one(store, "a"), one(store, "b"), one(store, "c")
    tokens = {name: claim_one(holder, name) for name, holder in {"a": living, "b": dying, "c": dying}.items()}
    for name in ("a", "b"):
        lease = tokens[name]
        store.db.run(
            "record.finish",
            outcomes=json.dumps([{"id": lease.id, "token": lease.token, "state": "completed"}]),
        )
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    store.db.run("recover.sweep")
    assert {row["token"] for row in rows(store, "claim")} == {tokens["a"].token, tokens["c"].token}


def test_orphans_are_looked_for_a_page_at_a_time(store: Store) -> None:
    ids = sorted(enqueue(store, n=5))
    page = store.db.run("recover.orphans", after=SMALLEST, limit=2)
    assert [row[0] for row in page] == ids[:2]
    assert [row[0] for row in store.db.run("recover.orphans", after=ids[1], limit=9)] == ids[2:]


# ------------------------------------------------------------------------------------------------------- dependencies


def test_linking_goes_by_pages_and_marks_only_its_own_edges(store: Store) -> None:
    parent = one(store, "a")
    holder = store.join()
    holder.complete(claim_one(holder, "a"))
    children = sorted(one(store, "child", after=[After(parent)], delay=timedelta(hours=1)) for _ in range(2))
    assert [row[0] for row in store.db.run("link.pick", after=SMALLEST, limit=1)] == children[:1]
    assert [row[0] for row in store.db.run("link.pick", after=children[0], limit=9)] == children[1:]
    edge = {
        "parent": parent,
        "child": children[0],
        "state": "completed",
        "ended_at": store.db.stamp(store.now()),
    }
    store.db.run("link.mark", edges=json.dumps([edge]))
    marked = [[edge.parent_state for edge in store.dependencies.of(child)] for child in children]
    assert marked == [[State.COMPLETED], [None]]
    assert store.dependencies.link(limit=1) == 2 and store.dependencies.link(limit=1) == 0


def test_only_an_unlinked_child_is_linked(store: Store, crowd: Crowd) -> None:
    before = rows_without(store)
    for name, pending in (("waits to run", 0), ("left waiting", 2), ("retrying", 1)):
        store.db.run("link.done", children=json.dumps([{"id": crowd.ids[name], "pending": pending}]))
    assert rows_without(store) == before
    assert_counts_are_true(store)
    children = json.dumps([{"id": crowd.ids["unlinked"], "pending": 1}])
    assert store.db.run("link.done", children=children) == [], "it still waits for one"
    assert_counts_are_true(store)


def test_only_a_waiting_child_is_counted_down(store: Store, crowd: Crowd) -> None:
    """To zero and no further; one that is not linked yet is counted by the linker."""
    before = rows_without(store)
    satisfied = {
        "unlinked": 2,
        "scheduled": 0,
        "retrying": 0,
    }  # just what would free them, if they were counted
    asked = json.dumps([{"id": crowd.ids[name], "satisfied": n} for name, n in satisfied.items()])
    assert {row[0] for row in store.db.run("settle.count", children=asked)} <= {crowd.ids["scheduled"]}
    assert rows_without(store) == before
    assert_counts_are_true(store)
    child = one(store, "child", after=[After(crowd.ids["parent"]), After(crowd.ids["queued"])])
    store.dependencies.link()
    asked = json.dumps([{"id": child, "satisfied": 1}])
    assert store.db.run("settle.count", children=asked) == [], "one of two"
    assert store.jobs.get(child).pending == 1
    assert_counts_are_true(store)


def test_children_are_locked_by_name_and_by_what_they_wait_for(store: Store, crowd: Crowd) -> None:
    """On SQLite there is nothing to lock."""
    counted, doomed = (
        ["waits to run", "unlinked", "scheduled"],
        ["waits to cancel", "left waiting", "retrying"],
    )
    answer = store.db.run(
        "settle.lock",
        counted=[crowd.ids[name] for name in counted],
        doomed=[crowd.ids[name] for name in doomed],
        reasons=["waiting", "unlinked"],
    )
    expected = {crowd.ids[name] for name in ("waits to run", "waits to cancel", "left waiting")}
    assert {row[0] for row in answer} == (set() if store.db.dialect == "sqlite" else expected)


def test_only_children_that_are_due_and_named_are_queued(
    store: Store, crowd: Crowd, clock: ManualClock
) -> None:
    due = [one(store, "due", delay=timedelta(seconds=1)) for _ in range(2)]
    clock.advance(timedelta(days=30))
    crowd.keeper.beat()
    before = rows_without(store)
    store.db.run("settle.promote", ids=[crowd.ids[name] for name in ("waits to run", "unlinked", "retrying")])
    assert rows_without(store) == before
    store.db.run("settle.promote", ids=due[:1])
    assert [str(state(store, job_id)) for job_id in due] == ["queued", "scheduled"]
    assert rows_without(store, due[0]) == [row for row in before if due[0] not in row]
    assert_counts_are_true(store)


def test_a_retried_parent_is_open_again_only_for_who_still_waits_for_it(store: Store) -> None:
    """Not for a child that ran anyway, nor for one that was sent on its way by hand."""
    holder = store.join()
    parent, other = one(store, "a"), one(store, "b", delay=timedelta(hours=1))
    ran = one(store, "ran", after=[After(parent, DependencyPolicy.RUN), After(other)])
    by_hand = one(store, "hand", after=[After(parent, DependencyPolicy.WAIT)])
    ended = one(store, "ended", after=[After(parent, DependencyPolicy.WAIT)])
    left = one(store, "left", after=[After(parent, DependencyPolicy.WAIT)])
    store.dependencies.link()
    holder.fail(claim_one(holder, "a"), BOOM)
    for job_id in (by_hand, ended):
        store.jobs.cancel(job_id)
    store.jobs.retry(by_hand)
    holder.retry_later(claim_one(holder, "hand"), BOOM, timedelta(hours=1))
    store.jobs.retry(parent)
    states = {
        name: [edge.parent_state for edge in store.dependencies.of(name) if edge.parent == parent]
        for name in (ran, by_hand, ended, left)
    }
    assert states == {ran: ["failed"], by_hand: ["failed"], ended: ["failed"], left: [None]}
    holder.complete(claim_one(holder, "a"))
    assert [str(state(store, name)) for name in (ran, by_hand, ended, left)] == [
        "waiting",
        "scheduled",
        "cancelled",
        "queued",
    ]
    assert store.jobs.get(ran).pending == 1


def test_only_a_cancel_because_of_a_parent_is_taken_back(store: Store) -> None:
    """A child that failed with the same words keeps its end and its edge, and so does one that somebody cancelled; also
    where it ended so only after it was looked for."""
    holder = store.join()
    parent = one(store, "a")
    failed, by_hand, mine = (one(store, name, after=[After(parent)]) for name in ("failed", "hand", "mine"))
    store.dependencies.link()
    store.jobs.cancel(by_hand)
    holder.fail(claim_one(holder, "a"), BOOM)
    store.jobs.retry(failed)
    holder.fail(claim_one(holder, "failed"), replace(BOOM, code="parent_not_completed"))
    store.jobs.retry(parent, dependents=True)
    states = {name: store.dependencies.of(name)[0].parent_state for name in (failed, by_hand, mine)}
    assert states == {failed: "failed", by_hand: "failed", mine: None}
    assert [str(state(store, job)) for job in (failed, by_hand, mine)] == ["failed", "cancelled", "waiting"]
    (row,) = rows(store, "job_later")
    assert row["flags"] == 0, "nobody waits for it"
    late = [{"id": job_id, "pending": 1} for job_id in (failed, by_hand)]
    assert store.db.run("revive.take", children=json.dumps(late)) == [] and rows(store, "job_later") == [row]
    assert_counts_are_true(store)


# ------------------------------------------------------------------------------------------------------ keys and ends


@pytest.mark.parametrize("how", ["finished", "cancelled while queued", "cancelled while scheduled"])
def test_an_idempotency_key_outlives_the_end_of_its_job(store: Store, how: str) -> None:
    """And is not taken for the live key that a retry would need again."""
    job = NewJob(kind="work", key=IDEMPOTENT, delay=timedelta(hours=1) if "scheduled" in how else None)
    job_id = store.enqueue([job])[0].id
    child = one(store, "child", after=[After(job_id)])
    store.dependencies.link()
    if how == "finished":
        holder = store.join()
        lease = claim_one(holder)
        holder.checkpoint(lease, done=1)
        holder.complete(lease)
    else:
        store.jobs.cancel(job_id)
    (row,) = (row for row in rows(store, "job_done") if str(row["id"]) == job_id)
    assert row["key"] is None
    again = store.enqueue([NewJob(kind="work", key=IDEMPOTENT)])[0]
    assert (again.id, again.created) == (job_id, False)
    assert state(store, child) in (State.QUEUED, State.CANCELLED)


def test_a_retried_job_is_flagged_for_what_it_has(store: Store, crowd: Crowd) -> None:
    """Flags cost: each sends the end of the job the long way."""
    holder = crowd.keeper
    plain, own_output = one(store, "p"), one(store, "o")
    holder.complete(claim_one(holder, "p"))
    lease = claim_one(holder, "o")
    holder.put_output(lease, 1, name="x")
    holder.complete(lease)
    for job_id in (plain, own_output, crowd.ids["completed"], crowd.ids["ended parent"]):
        store.jobs.retry(job_id)
    flags = {str(row["id"]): Flag(row["flags"]) for row in rows(store, "job")}
    aside = Flag.OUTPUT | Flag.DEPENDENTS | Flag.CHECKPOINT
    assert flags[plain] & aside == Flag(0) and flags[own_output] & aside == Flag(0)
    assert flags[crowd.ids["completed"]] & aside == Flag.OUTPUT
    assert flags[crowd.ids["ended parent"]] & aside == Flag.DEPENDENTS


def test_counts_are_folded_a_page_at_a_time(store: Store) -> None:
    for phase in "abcde":
        one(store, phase)
    store.db.run("fold", limit=2)
    assert len(rows(store, "delta")) == 3 and len(rows(store, "tally")) == 2
    assert_counts_are_true(store)


# -------------------------------------------------------------------------------------------------------------- prune


def test_the_archive_gets_each_page_with_its_own_attempts(store: Store, clock: ManualClock) -> None:
    holder = store.join()
    ids = []
    for n in range(3):
        ids.append(one(store, phase="first"))
        holder.advance(claim_one(holder, "first"), f"second.{n}")
        holder.complete(claim_one(holder, f"second.{n}"))
    assert [row[0] for row in store.db.run("prune.attempts", ids=ids[:1])] == ids[:1]
    pages: list[Sequence[Archived]] = []
    clock.advance(1)
    assert store.upkeep.prune(Retention(completed=timedelta(0)), archive=pages.append, batch=1) == 3
    assert [[item.job.id for item in page] for page in pages] == [[job_id] for job_id in sorted(ids)]
    assert [len(item.attempts) for page in pages for item in page] == [1, 1, 1]


def test_a_page_to_prune_begins_after_the_one_before(store: Store) -> None:
    ids = sorted(enqueue(store, n=3))
    for job_id in ids:
        store.jobs.cancel(job_id)
    later = store.now() + timedelta(hours=1)
    before = {f"{name}_before": later for name in ("completed", "failed", "cancelled")}
    assert [row[0] for row in store.db.run("prune.page", after=SMALLEST, limit=2, **before)] == ids[:2]
    assert [row[0] for row in store.db.run("prune.page", after=ids[1], limit=2, **before)] == ids[2:]


def test_consumed_edges_go_with_their_child_and_not_before(store: Store, crowd: Crowd) -> None:
    """Whichever table the child is in; an open edge is never removed."""
    holder = store.join()
    parents = {name: one(store, f"p.{name}") for name in ("done", "queued", "later", "gone", "open")}
    children = {name: one(store, f"c.{name}", after=[After(parents[name])]) for name in ("done", "queued")}
    children["later"] = one(store, "c.later", after=[After(parents["later"])], delay=timedelta(hours=1))
    store.dependencies.link()
    for name in ("done", "queued", "later"):
        holder.complete(claim_one(holder, f"p.{name}"))
    holder.complete(claim_one(holder, "c.done"))
    nobody = {name: new_id() for name in ("gone", "open")}
    with store.db.effect(5) as tx:
        for name, values in {"gone": ("'completed'", _at(store)), "open": ("NULL", "NULL")}.items():
            tx.connection.execute(
                f"INSERT INTO {prefix(store)}job_dep (parent, child, policy, parent_state, parent_ended_at) "
                f"VALUES ('{parents[name]}', '{nobody[name]}', 'cancel', {values[0]}, {values[1]})"
            )
    before = {str(row["child"]) for row in rows(store, "job_dep")}
    store.upkeep.prune(Retention(completed=None, failed=None, cancelled=None))
    assert {str(row["child"]) for row in rows(store, "job_dep")} == before - {nobody["gone"]}
    assert set(children.values()) <= before


def _ids(jobs: Sequence[Job]) -> list[str]:
    return [job.id for job in jobs]


def _at(store: Store) -> str:
    stamp = store.db.stamp(store.now())
    return str(stamp) if store.db.dialect == "sqlite" else f"'{stamp}'"
