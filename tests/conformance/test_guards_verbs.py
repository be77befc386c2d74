"""Each verb takes what it is asked for and no more, tested where there is more to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import Crowd, prefix, rows
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
from windlass.features import Store
from windlass.model import (
    After,
    Archived,
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
        name: [row[0] for row in store.db.run("retry.peek", id=crowd.ids[name])]
        for name in ("queued", "scheduled", "failed")
    }
    assert peeked == {"queued": [], "scheduled": [], "failed": ["failed"]}


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


def test_only_a_job_that_waits_for_its_time_is_made_due(store: Store, crowd: Crowd) -> None:
    """That one and no other; not one that waits for its parent first and for its time then."""
    child = one(store, "crowd.child", after=[After(crowd.ids["parent"])], delay=timedelta(hours=1))
    store.dependencies.link()
    before = rows(store, "job_later")
    others = [
        crowd.ids[name] for name in ("left waiting", "limited, waiting", "both, paced", "queued", "failed")
    ]
    assert [store.upkeep.make_due(job_id) for job_id in (child, *others)] == [False] * 6
    assert rows(store, "job_later") == before
    for name in ("retrying", "scheduled"):
        assert store.upkeep.make_due(crowd.ids[name]) is True
        assert store.upkeep.make_due(crowd.ids[name]) is False, "it is due already"
    changed = {row["id"] for row in rows(store, "job_later") if row not in before}
    assert changed == {crowd.ids["retrying"], crowd.ids["scheduled"]}


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
    assert store.upkeep.prune(Retention(completed=timedelta(0)), archive=pages.append, page=1) == 3
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


def test_a_page_that_was_read_is_checked_again_under_the_write_lock(store: Store, clock: ManualClock) -> None:
    """What was retried, ended again, or is needed meanwhile stays; only the jobs of the page are removed."""
    if store.db.dialect == "postgres":
        return  # which finds and locks a page with one statement
    holder = store.join()
    ids = {end: one(store, end) for end in ("completed", "failed", "cancelled", "other")}
    for end, job_id in ids.items():
        lease = claim_one(holder, end)
        if end == "failed":
            holder.fail(lease, BOOM)
        elif end == "cancelled":
            holder.cancel(lease)
        else:
            holder.complete(lease)
        assert lease.id == job_id
    holder.step()
    ended_at = store.now()

    def found(**times: timedelta) -> set[str]:
        before = {
            f"{end}_before": ended_at + times.get(end, timedelta(0))
            for end in ("completed", "failed", "cancelled")
        }
        return {
            row[0] for row in store.db.run("prune.again", ids=[ids[end] for end in list(ids)[:3]], **before)
        }

    just_after = timedelta(microseconds=1)
    assert found() == set()
    for end in ("completed", "failed", "cancelled"):
        assert found(**{end: just_after}) == {ids[end]}
    child = one(store, "child", after=[After(ids["completed"])])
    assert found(completed=just_after) == set(), "a child waits for it"
    store.jobs.cancel(child)
    assert found(completed=just_after) == {ids["completed"]}


def test_a_turn_has_one_holder_until_it_ends(store: Store, clock: ManualClock) -> None:
    take = store.upkeep.take_turn
    assert take("prune", "a", 60) and take("merge", "b", 60), "each work has a turn of its own"
    assert not take("prune", "b", 60) and not store.db.run("turn.take", name="prune", holder="b", seconds=60)
    assert not store.db.is_worth("turn.take", name="prune", holder="b"), "a read that says so"
    clock.advance(30)
    assert take("prune", "a", 60), "which begins again"
    clock.advance(59)
    assert not take("prune", "b", 60) and not store.db.run("turn.take", name="prune", holder="b", seconds=60)
    clock.advance(1)
    assert take("prune", "b", 60) and not take("prune", "a", 60)
    assert not store.db.run("turn.take", name="prune", holder="a", seconds=60)
