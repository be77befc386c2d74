"""Principals are erased some time after their job's end, in pages, and only those that are due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, claim_one, enqueue, one, state
from tests.principals.captured import DAY, KEYS, OTHER, USER, asked, captured, ended
from windlass.clock import ManualClock
from windlass.errors import ConfigError, PrincipalErasedError
from windlass.features import Store
from windlass.model import (
    After,
    Flag,
    NewJob,
    Retention,
    State,
)
from windlass.store.ids import new_id

# ------------------------------------------------------------------------------------------------------------ erasure


def test_a_principal_is_erased_some_time_after_its_jobs_end(store: Store, clock: ManualClock) -> None:
    """Nothing of it is left but that there was one."""
    job_id = new_id()
    sealed = KEYS.seal("raw", job_id=job_id, tenant="acme")
    store.enqueue([NewJob(kind="work", id=job_id, principal=USER, sealed=sealed)])
    holder = store.join(lease=3 * DAY)
    clock.advance(DAY / 2)
    holder.complete(claim_one(holder))
    clock.advance(DAY)
    assert store.principals.erase(DAY) == 0, "exactly as old as it may get"
    clock.advance(timedelta(microseconds=1))
    assert store.principals.erase(DAY) == 1 and captured(store) == set()
    (row,) = rows(store, "job_done")
    assert row["flags"] & Flag.PRINCIPAL and "u-7" not in str(row)
    assert store.principals.get(job_id) is None and store.principals.erase(DAY) == 0


@pytest.mark.parametrize("place", ["queued", "held", "scheduled", "waiting", "retrying"])
def test_the_principal_of_a_job_that_lives_stays(store: Store, clock: ManualClock, place: str) -> None:
    holder = store.join(lease=1000 * DAY)
    parent = one(store, "parent")
    options: dict[str, Any] = {}
    if place == "scheduled":
        options = {"delay": 900 * DAY}
    elif place == "waiting":
        options = {"after": [After(parent)]}
    job_id = one(store, principal=USER, **options)
    if place in ("held", "retrying"):
        lease = claim_one(holder)
        if place == "retrying":
            holder.retry_later(lease, BOOM, 900 * DAY)
    for _ in range(3):
        clock.advance(100 * DAY)
        assert store.principals.erase(DAY) == 0 and asked(store, job_id) == USER
    assert store.principals.erase(timedelta(0)) == 0 and asked(store, job_id) == USER


def test_looking_costs_nothing_until_there_is_something_to_see(store: Store, clock: ManualClock) -> None:
    """A row is looked at about once per retention, however often the duty runs."""
    one(store, principal=USER)
    clock.advance(2 * DAY)
    assert store.db.is_worth("erase", before=store.now() - DAY)
    store.principals.erase(DAY)
    for _ in range(3):
        clock.advance(DAY / 4)
        assert not store.db.is_worth("erase", before=store.now() - DAY)
    clock.advance(DAY)
    assert store.db.is_worth("erase", before=store.now() - DAY)


@pytest.mark.owner
def test_what_ended_recently_is_met_again_when_its_time_has_come(store: Store, clock: ManualClock) -> None:
    job_id = one(store, principal=USER)
    holder = store.join(lease=100 * DAY)
    clock.advance(10 * DAY)
    holder.complete(claim_one(holder))
    clock.advance(DAY / 2)
    assert store.principals.erase(DAY) == 0
    (row,) = rows(store, "principal")
    assert store.db.moment(row["alive_at"]) == store.jobs.get(job_id).finished_at
    clock.advance(DAY / 2 + timedelta(microseconds=1))
    assert store.principals.erase(DAY) == 1


def test_erasing_goes_in_batches_and_takes_only_what_is_due(store: Store, clock: ManualClock) -> None:
    old = [ended(store) for _ in range(7)]
    living = enqueue(store, "live", 5, principal=OTHER)
    clock.advance(2 * DAY)
    new = [ended(store) for _ in range(3)]
    free = one(store, "free")
    assert store.principals.erase(DAY, page=2) == 7
    assert captured(store) == {*living, *new} and state(store, old[0]) is State.COMPLETED
    assert asked(store, free) is None and all(asked(store, job_id) == OTHER for job_id in living)
    with pytest.raises(ConfigError, match="after"):
        store.principals.erase(-DAY)


def test_a_retry_by_hand_keeps_the_principal_and_is_refused_without_it(
    store: Store, clock: ManualClock
) -> None:
    """An operator's retry runs with the rights that were captured."""
    first, second = ended(store), ended(store)
    store.jobs.retry(first)
    clock.advance(2 * DAY)
    assert store.principals.erase(DAY) == 1 and captured(store) == {first}
    before = rows(store, "job_done")
    with pytest.raises(PrincipalErasedError, match=f"{second} was erased after its end"):
        store.jobs.retry(second)
    assert rows(store, "job_done") == before and state(store, second) is State.COMPLETED
    lease = claim_one(store.join())
    assert lease.id == first and store.principals.of(lease)


def test_a_lease_whose_principal_is_gone_is_told_so(store: Store) -> None:
    """Whoever removed it: the job may do nothing."""
    one(store, principal=USER)
    lease = claim_one(store.join())
    store.db.run("erase", ids=[lease.id])
    with pytest.raises(PrincipalErasedError):
        store.principals.of(lease)


@pytest.mark.owner
def test_pruned_jobs_take_their_principals_with_them(store: Store, clock: ManualClock) -> None:
    gone, kept = ended(store), one(store, "live", principal=OTHER)
    clock.advance(10 * DAY)
    failed = one(store, "bad", principal=USER, max_attempts=1)
    holder = store.join()
    holder.fail(claim_one(holder, "bad"), BOOM)
    store.upkeep.maintain()
    assert store.upkeep.prune(Retention(completed=DAY, failed=None, cancelled=None)) == 1
    assert captured(store) == {kept, failed} and asked(store, gone) is None


@pytest.mark.owner
def test_principals_go_with_whole_days_of_history(store: Store, clock: ManualClock) -> None:
    """On PostgreSQL a day is dropped as a table; nothing of it stays behind."""
    ended(store)
    kept = one(store, "live", principal=OTHER)
    clock.advance(10 * DAY)
    store.upkeep.maintain()
    assert store.upkeep.prune(Retention(completed=DAY, failed=DAY, cancelled=DAY)) == 1
    assert captured(store) == {kept}


def test_a_principal_without_a_job_is_swept(store: Store, clock: ManualClock) -> None:
    """Its history was removed by hand, say."""
    job_id, kept = ended(store), one(store, "live", principal=OTHER)
    with store.db.effect(5) as tx:
        prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
        tx.connection.execute(f"DELETE FROM {prefix}job_done WHERE id = '{job_id}'")
    assert store.principals.erase(DAY) == 0
    clock.advance(2 * DAY)
    assert store.principals.erase(DAY) == 1 and captured(store) == {kept}


def test_a_retry_that_is_under_way_keeps_the_principal(
    store: Store, clock: ManualClock, opened: Callable[[], Store]
) -> None:
    """On PostgreSQL the row of an ended job that somebody has locked is left for the next time."""
    job_id, other = ended(store), ended(store)
    clock.advance(2 * DAY)
    if store.db.dialect == "sqlite":
        assert store.principals.erase(DAY) == 2  # one writer: nothing can be under way
        return
    with store.db.effect(5) as tx:
        tx.run("retry.peek", id=job_id)
        assert opened().principals.erase(DAY, page=2) == 1 and captured(store) == {job_id}
    assert store.principals.erase(DAY) == 1 and captured(store) == set()
    assert state(store, other) is State.COMPLETED


def test_two_instances_erase_side_by_side(
    store: Store, clock: ManualClock, opened: Callable[[], Store]
) -> None:
    """On PostgreSQL neither waits for the other: a row that one looks at is left out by the other."""
    for _ in range(2):
        ended(store)
    clock.advance(2 * DAY)
    if store.db.dialect == "postgres":
        with store.db.effect(5) as tx:
            assert len(tx.run("erase.pick", before=clock.now() - DAY, limit=1)) == 1
            assert opened().principals.erase(DAY) == 1
    assert store.principals.erase(DAY) == (1 if store.db.dialect == "postgres" else 2)


# ------------------------------------------------------------------------------------------ each verb takes its own


def alive(store: Store) -> dict[str, Any]:
    return {row["job"]: store.db.moment(row["alive_at"]) for row in rows(store, "principal")}


def test_what_is_picked_is_older_and_no_more_than_asked_for(store: Store, clock: ManualClock) -> None:
    made = []
    for _ in range(4):
        made.append(one(store, principal=USER))
        clock.advance(DAY)

    def picked(before: Any, limit: int) -> list[str]:
        return [
            row[0] for row in store.db.transact(lambda tx: tx.run("erase.pick", before=before, limit=limit))
        ]

    third = alive(store)[made[2]]
    assert picked(third, 10) == made[:2] and picked(third, 1) == made[:1]
    assert picked(third + timedelta(microseconds=1), 10) == made[:3]


def test_only_what_lives_and_was_asked_about_is_noted_to_live(store: Store, clock: ManualClock) -> None:
    over, queued, later = ended(store), one(store, principal=USER), one(store, principal=USER, delay=90 * DAY)
    others = [one(store, principal=USER), one(store, principal=USER, delay=90 * DAY)]
    before = alive(store)
    clock.advance(DAY)

    def living(*ids: str) -> set[str]:
        return {row[0] for row in store.db.transact(lambda tx: tx.run("erase.living", ids=list(ids)))}

    assert living(over) == set() and alive(store) == before
    assert living(queued, over) == {queued} and living(later, over) == {later}
    assert alive(store) == {**before, queued: clock.now(), later: clock.now()}
    assert {before[job_id] for job_id in others} == {before[over]}


def test_each_end_is_noted_with_its_own_job(store: Store, clock: ManualClock) -> None:
    holder = store.join(lease=100 * DAY)
    made = enqueue(store, n=3, principal=USER)
    leases = {lease.id: lease for lease in holder.claim("work", 3)}
    clock.advance(3 * DAY)
    for job_id in made[:2]:
        holder.complete(leases[job_id])
        clock.advance(timedelta(hours=1))
    store.principals.erase(DAY)
    told = alive(store)
    assert [told[job_id] for job_id in made[:2]] == [
        store.jobs.get(job_id).finished_at for job_id in made[:2]
    ]
    assert told[made[2]] == clock.now()
    store.db.run("erase", ids=[made[0]])
    assert captured(store) == set(made[1:])
