"""Pruning by policy."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, every_job, one, state
from windlass.clock import ManualClock
from windlass.errors import ConfigError, JobNotFoundError
from windlass.features import Store, open_store
from windlass.model import (
    After,
    CancelResult,
    DependencyPolicy,
    Key,
    KeyScope,
    NewJob,
    Retention,
    Retried,
    State,
    Throttle,
)
from windlass.store.database import Transaction

DAY = timedelta(days=1)
KEEP = Retention(completed=DAY, failed=3 * DAY, cancelled=2 * DAY)
WHOLE_DAYS = Retention(completed=DAY, failed=DAY, cancelled=DAY)
ROW_BY_ROW = Retention(completed=DAY, failed=DAY, cancelled=None)


def ended(store: Store, end: str, n: int = 1) -> list[str]:
    ids = enqueue(store, end, n)
    holder = store.join()
    for lease in holder.claim(end, n):
        if end == "completed":
            holder.complete(lease)
        elif end == "failed":
            holder.fail(lease, BOOM)
        else:
            holder.cancel(lease)
    holder.step()
    holder.leave()
    return ids


def left(store: Store) -> set[str]:
    return {str(job.state) for job in every_job(store)}


@pytest.mark.owner
def test_each_end_state_has_its_own_time(store: Store, clock: ManualClock) -> None:
    for end in ("completed", "failed", "cancelled"):
        ended(store, end, 3)
    live = one(store)
    clock.advance(DAY)
    assert store.upkeep.prune(KEEP) == 0, "exactly as old as it may get"
    clock.advance(1)
    store.upkeep.maintain()
    assert store.upkeep.prune(KEEP, page=2) == 3
    assert left(store) == {"failed", "cancelled", "queued"}
    clock.advance(DAY)
    assert store.upkeep.prune(KEEP) == 3 and left(store) == {"failed", "queued"}
    clock.advance(DAY)
    assert store.upkeep.prune(KEEP) == 3 and left(store) == {"queued"}
    assert state(store, live) is State.QUEUED
    assert_counts_are_true(store)


def test_none_keeps_for_ever(store: Store, clock: ManualClock) -> None:
    for end in ("completed", "failed", "cancelled"):
        ended(store, end)
    clock.advance(1000 * DAY)
    assert store.upkeep.prune(Retention(completed=None, failed=None, cancelled=None)) == 0
    assert store.upkeep.prune(Retention(completed=None, failed=DAY, cancelled=None)) == 1
    assert left(store) == {"completed", "cancelled"}


def test_a_pruned_job_leaves_nothing_behind(store: Store, clock: ManualClock) -> None:
    parent = one(store, "a")
    job_id = one(store, after=[After(parent)], key=Key("k", KeyScope.IDEMPOTENT, timedelta(hours=1)))
    store.dependencies.link()
    holder = store.join()
    holder.complete(claim_one(holder, "a"))
    lease = claim_one(holder)
    holder.checkpoint(lease, done=1)
    holder.put_output(lease, 1, name="x")
    holder.record([Retried(lease, BOOM, timedelta(0))])
    store.upkeep.promote()
    holder.complete(claim_one(holder))
    holder.step()
    clock.advance(2 * DAY)
    assert store.upkeep.prune(KEEP) == 2
    with pytest.raises(JobNotFoundError, match="pruned"):
        store.jobs.get(job_id)
    assert store.jobs.attempts(job_id) == [] and store.dependencies.of(job_id) == []
    assert store.dependencies.of(parent) == []
    for table in ("job_key", "output", "checkpoint", "attempt", "job_dep", "job_done", "claim"):
        assert _rows(store, table) == 0, table


def test_keys_and_attempts_of_others_stay(store: Store, clock: ManualClock) -> None:
    ended(store, "completed")
    kept = one(store, key=Key("k"), max_attempts=9)
    held = one(store, "b", key=Key("k", KeyScope.IDEMPOTENT, 9 * DAY))
    parent = one(store, "c")
    child = one(store, "d", after=[After(parent)])
    store.dependencies.link()
    holder = store.join()
    holder.record([Retried(claim_one(holder), BOOM, timedelta(0))])
    clock.advance(2 * DAY)
    assert store.upkeep.prune(KEEP) == 1
    assert len(store.jobs.attempts(kept)) == 1
    assert store.enqueue([NewJob(kind="work", key=Key("k"))])[0].id == kept
    again = NewJob(kind="b", key=Key("k", KeyScope.IDEMPOTENT, 9 * DAY))
    assert store.enqueue([again])[0].id == held
    assert len(store.dependencies.of(child)) == 1


@pytest.mark.owner
@pytest.mark.parametrize("keep", [WHOLE_DAYS, ROW_BY_ROW], ids=["whole days", "row by row"])
@pytest.mark.parametrize("place", ["unlinked", "waiting", "scheduled", "queued", "processing"])
def test_a_parent_is_kept_while_its_child_may_read_it(
    store: Store, clock: ManualClock, keep: Retention, place: str
) -> None:
    one(store, "bystander")
    one(store, "bystander", delay=900 * DAY)
    parent = one(store, "a")
    holder = store.join()
    other = [After(one(store, "other", delay=900 * DAY))] if place == "waiting" else []
    delay = 900 * DAY if place == "scheduled" else None
    child = one(store, "child", after=[After(parent), *other], delay=delay)
    if place != "unlinked":
        store.dependencies.link()
    holder.complete(claim_one(holder, "a"))
    leases = holder.claim("child", 1) if place == "processing" else []
    job = store.jobs.get(child)
    assert place in (job.state, job.reason)
    clock.advance(100 * DAY)
    assert store.upkeep.prune(keep) == 0
    if leases:
        store.upkeep.maintain()
        store.recovery.recover()
    store.jobs.cancel(child)
    assert store.upkeep.prune(keep) == 1, "its child has ended"


def test_an_edge_remembers_the_end_of_a_pruned_parent(store: Store, clock: ManualClock) -> None:
    """A child that is retried by hand after that sees which parents are missing."""
    gone, still = one(store, "a"), one(store, "b", delay=9 * DAY)
    child = one(store, "child", after=[After(gone, DependencyPolicy.WAIT), After(still)])
    store.dependencies.link()
    holder = store.join()
    holder.complete(claim_one(holder, "a"))
    store.jobs.cancel(child)
    clock.advance(timedelta(days=1, hours=1))
    assert store.upkeep.prune(KEEP) == 1
    assert {(edge.parent, edge.parent_state) for edge in store.dependencies.of(child)} == {
        (gone, "completed"),
        (still, None),
    }
    parents = store.parents.page(child).parents
    assert [(parent.id, parent.kind, parent.state, parent.is_gone) for parent in parents] == [
        (gone, None, "completed", True),
        (still, "b", "scheduled", False),
    ]


def test_a_senseless_batch_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError):
        store.upkeep.prune(KEEP, page=0)


def _rows(store: Store, table: str) -> int:
    prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
    with store.db.effect(5) as tx:
        return int(tx.connection.execute(f"SELECT count(*) FROM {prefix}{table}").fetchone()[0])


@pytest.mark.owner
@pytest.mark.parametrize("keep", [WHOLE_DAYS, ROW_BY_ROW], ids=["whole days", "row by row"])
@pytest.mark.parametrize("is_linked", [True, False])
def test_a_parent_that_a_child_waits_to_have_retried_is_not_pruned(
    store: Store, clock: ManualClock, keep: Retention, is_linked: bool
) -> None:
    """A child with policy `wait` waits for the retry of its failed parent. Without the parent it would wait for ever."""
    holder = store.join()
    parent = one(store, "parent", max_attempts=1)
    child = one(store, "child", after=[After(parent, DependencyPolicy.WAIT)])
    if is_linked:
        store.dependencies.link()
    holder.fail(claim_one(holder, "parent"), BOOM)
    store.dependencies.link()
    clock.advance(timedelta(days=100))
    assert store.upkeep.prune(keep) == 0
    assert state(store, child) is State.WAITING
    store.upkeep.maintain()
    store.jobs.retry(parent)
    other = store.join()
    other.complete(claim_one(other, "parent"))
    other.complete(claim_one(other, "child"))
    clock.advance(timedelta(days=100))
    assert store.upkeep.prune(keep) == 2, "once its child has ended, it goes"


def test_a_failed_parent_goes_once_its_waiting_child_is_cancelled(store: Store, clock: ManualClock) -> None:
    holder = store.join()
    parent = one(store, "parent", max_attempts=1)
    child = one(store, "child", after=[After(parent, DependencyPolicy.WAIT)])
    store.dependencies.link()
    holder.fail(claim_one(holder, "parent"), BOOM)
    store.jobs.cancel(child)
    clock.advance(timedelta(days=100))
    assert store.upkeep.prune(ROW_BY_ROW) == 1, "its child is in the history, which is kept"


def test_a_failed_parent_goes_where_no_child_of_its_own_may_read_it(store: Store, clock: ManualClock) -> None:
    """One child runs anyway and waits for another parent, one is cancelled, one was sent on its way by hand and waits for its own retry:
    only the cancelled child will never read its parent."""
    still = one(store, "still", delay=200 * DAY)
    parents = {name: one(store, name, max_attempts=1) for name in ("run", "cancel", "hand")}
    one(store, "waits", after=[After(parents["run"], DependencyPolicy.RUN), After(still)])
    children = [
        one(store, "child", after=[After(parents[n], DependencyPolicy.WAIT)]) for n in ("cancel", "hand")
    ]
    store.dependencies.link()
    holder = store.join()
    for name in parents:
        holder.fail(claim_one(holder, name), BOOM)
    for child in children:
        store.jobs.cancel(child)
    store.jobs.retry(children[1])
    holder.retry_later(claim_one(holder, "child"), BOOM, 200 * DAY)
    clock.advance(100 * DAY)
    assert store.upkeep.prune(ROW_BY_ROW) == 1
    assert not store.ends.present([parents["cancel"]])


@pytest.mark.owner
@pytest.mark.parametrize("keep", [WHOLE_DAYS, ROW_BY_ROW], ids=["whole days", "row by row"])
@pytest.mark.parametrize("way", ["key", "throttle"])
def test_a_job_that_a_key_leads_to_is_not_pruned(
    store: Store, clock: ManualClock, keep: Retention, way: str
) -> None:
    """`enqueue` answered an id that `get` and `after` refused."""
    lasts = timedelta(days=40)
    keyed = (
        NewJob(kind="work", key=Key("a", KeyScope.IDEMPOTENT, lasts))
        if way == "key"
        else NewJob(kind="work", throttle=Throttle("a", lasts))
    )
    (first,), (plain,) = store.enqueue([keyed]), store.enqueue([NewJob(kind="work")])
    holder = store.join()
    for lease in holder.claim("work", 5):
        holder.complete(lease)
    clock.advance(timedelta(days=30))
    assert store.upkeep.prune(keep) == 1
    (again,) = store.enqueue([keyed])
    assert (again.id, again.created) == (first.id, False)
    assert store.jobs.get(first.id).state is State.COMPLETED
    (child,) = store.enqueue([NewJob(kind="work", after=[After(first.id)])])
    assert child.created
    with pytest.raises(JobNotFoundError):
        store.jobs.get(plain.id)
    clock.advance(timedelta(days=30))
    assert store.upkeep.prune(keep) == 0, "the child that waits for it has to end first"
    store.jobs.cancel(child.id)
    assert store.upkeep.prune(keep) == 1, "its key has expired"


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_a_job_that_is_pruned_right_after_a_cancel_or_retry_was_cancelled_or_retried(
    store: Store,
    clock: ManualClock,
    verb: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the verbs say of the job (at DEBUG, or as their answer) is read before their commit."""
    caplog.set_level(logging.DEBUG, "windlass.store")
    job = one(store)
    if verb == "retry":
        store.jobs.cancel(job)
    transact = store.db.transact

    def then_prune(work: Callable[[Transaction], object], *, waits: bool = False) -> object:
        answer = transact(work, waits=waits)
        monkeypatch.undo()
        if verb == "retry":
            holder = store.join()
            holder.cancel(claim_one(holder))
            holder.leave()
        clock.advance(2 * DAY)
        store.upkeep.prune(WHOLE_DAYS)
        return answer

    monkeypatch.setattr(store.db, "transact", then_prune)
    if verb == "cancel":
        assert store.jobs.cancel(job) is CancelResult.CANCELLED
    else:
        assert store.jobs.retry(job).generation == 2
    with pytest.raises(JobNotFoundError):
        store.jobs.get(job)


@pytest.mark.owner
def test_instances_that_prune_at_once_do_not_trip_over_each_other(postgres_dsn: str) -> None:
    old = ManualClock(datetime.now(UTC) - timedelta(days=50))
    for _ in range(3):
        with open_store(postgres_dsn, clock=old) as store:
            store.upkeep.maintain()
            one(store)
            holder = store.join()
            holder.complete(claim_one(holder))
        old.advance(timedelta(days=1))
    keep = Retention(completed=timedelta(days=1), failed=timedelta(days=1), cancelled=timedelta(days=1))
    removed: list[int] = []
    errors: list[Exception] = []

    def prune() -> None:
        try:
            with open_store(postgres_dsn) as store:
                removed.append(store.upkeep.prune(keep))
        except Exception as error:  # noqa: BLE001  shown below
            errors.append(error)

    threads = [threading.Thread(target=prune) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_store(postgres_dsn) as store:
        store.upkeep.prune(keep)
        assert every_job(store) == []
        assert_counts_are_true(store)
