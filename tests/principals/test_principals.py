"""Who asked for a job: captured with it, inherited from it, kept across every move of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, LEASE, assert_counts_are_true, claim_one, one, state
from tests.principals.captured import DAY, KEYS, OTHER, USER, asked, captured, ended
from windlass.clock import ManualClock
from windlass.errors import ConfigError, PayloadError, PrincipalErasedError, UnknownParentError
from windlass.features import Store
from windlass.model import (
    ASIDE,
    After,
    Completed,
    DependencyPolicy,
    Flag,
    Key,
    KeyScope,
    NewJob,
    NewSchedule,
    State,
    has_flag,
)
from windlass.model.principal import NOBODY, Principal, Sealed
from windlass.store.ids import new_id
from windlass.store.jobs.outcome_rows import split_plain

# ------------------------------------------------------------------------------------------------------------ capture


def test_a_principal_is_captured_with_its_job(store: Store, clock: ManualClock) -> None:
    until = clock.now() + DAY
    job_id = one(store, principal=replace(USER, expires_at=until))
    found = store.principals.get(job_id)
    assert found is not None and found.principal == replace(USER, expires_at=until)
    assert (found.is_expired, found.at, found.sealed) == (False, clock.now(), None)
    assert store.principals.list([job_id, new_id(), "no id"]) == {job_id: found.principal}
    assert store.principals.get(new_id()) is None and store.principals.get("no id") is None
    lease = claim_one(store.join())
    assert lease.flags & Flag.PRINCIPAL and store.principals.of(lease) == found


def test_a_job_that_nobody_asked_for_has_no_row_and_no_flag(store: Store) -> None:
    job_id = one(store)
    lease = claim_one(store.join())
    assert store.principals.get(job_id) is None and not lease.flags & Flag.PRINCIPAL
    assert store.principals.of(lease) is None and captured(store) == set()


def test_a_principal_does_not_send_the_end_of_a_job_the_long_way(store: Store) -> None:
    job_id = one(store, principal=USER)
    holder = store.join()
    lease = claim_one(holder)
    assert not has_flag(ASIDE, Flag.PRINCIPAL) and split_plain([Completed(lease)]) == ([Completed(lease)], [])
    holder.complete(lease, "done")
    assert state(store, job_id) is State.COMPLETED and asked(store, job_id) == USER


@pytest.mark.parametrize(
    "options",
    [
        {"key": Key("k")},
        {"key": Key("k", KeyScope.IDEMPOTENT)},
        {"delay": timedelta(hours=1)},
        {"id": "01890a5d-ac96-774b-bcce-b302099a8057"},
        {"correlation_id": "c"},
    ],
    ids=str,
)
def test_every_way_to_enqueue_captures(store: Store, options: dict[str, Any]) -> None:
    first, second = one(store, principal=USER, **options), one(store)
    assert asked(store, first) == USER and asked(store, second) is None
    assert_counts_are_true(store)


def test_many_jobs_of_one_call_have_each_their_own(store: Store) -> None:
    """More than a bulk enqueue begins with."""
    askers = [None, USER, OTHER]
    jobs = [NewJob(kind="work", principal=askers[n % 3]) for n in range(600)]
    answers = store.enqueue(jobs)
    found = store.principals.list([answer.id for answer in answers])
    assert [found.get(answer.id) for answer in answers] == [job.principal for job in jobs]
    assert_counts_are_true(store)


def test_a_repeated_call_captures_once_and_changes_nothing(store: Store) -> None:
    job_id = new_id()
    for asker in (USER, OTHER, None):
        (answer,) = store.enqueue([NewJob(kind="work", id=job_id, principal=asker)])
        assert answer.created == (asker is USER) and asked(store, job_id) == USER


def test_a_job_whose_key_is_taken_captures_nothing(store: Store) -> None:
    first = one(store, principal=USER, key=Key("k"))
    (second,) = store.enqueue([NewJob(kind="work", key=Key("k"), principal=OTHER)])
    assert second.id == first and captured(store) == {first} and asked(store, first) == USER


def test_a_principal_is_there_if_and_only_if_its_job_is(store: Store) -> None:
    with pytest.raises(RuntimeError, match="no"), store.db.effect(5) as tx:
        store.enqueuer.enqueue_in(tx, [NewJob(kind="work", principal=USER)])
        raise RuntimeError("no")
    assert captured(store) == set()
    with store.db.effect(5) as tx:
        (answer,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work", principal=USER)])
    assert asked(store, answer.id) == USER
    store.upkeep.promote()
    assert claim_one(store.join()).flags & Flag.PRINCIPAL
    with pytest.raises(UnknownParentError):
        store.enqueue([NewJob(kind="work", principal=USER), NewJob(kind="work", after=[After(new_id())])])
    assert captured(store) == {answer.id}


def test_bad_principals_are_named_and_nothing_is_stored(store: Store) -> None:
    large = Principal("u", attributes={"x": [f"{n:0200}" for n in range(100)]})
    sealed = Sealed("k", "text")
    for kind, options in (
        (ConfigError, {"principal": {"subject": "u-7"}}),
        (ConfigError, {"principal": "u-7"}),
        (PayloadError, {"principal": large}),
        (ConfigError, {"sealed": sealed}),
        (ConfigError, {"sealed": sealed, "id": new_id()}),
        (ConfigError, {"sealed": sealed, "principal": USER}),
        (ConfigError, {"sealed": "raw", "principal": USER, "id": new_id()}),
        (ConfigError, {"heir_of": new_id()}),
        (ConfigError, {"heir_of": ["x"]}),
        (UnknownParentError, {"heir_of": [new_id()]}),
    ):
        with pytest.raises(kind) as caught:
            store.enqueue([NewJob(kind="work"), NewJob(kind="work", **options)])
        assert "raw" not in str(caught.value)
    assert captured(store) == set() and store.phases.counts() == {}


def test_expiry_is_judged_by_the_databases_clock(store: Store, clock: ManualClock) -> None:
    """I-13."""
    job_id = one(store, principal=replace(USER, expires_at=clock.now() + DAY))
    for seconds, is_expired in ((0, False), (86_399.9, False), (0.1, True), (1, True)):
        clock.advance(timedelta(seconds=seconds))
        found = store.principals.get(job_id)
        assert found is not None and found.is_expired is is_expired, clock.now()


def test_a_kept_token_is_stored_sealed_and_for_its_job_only(store: Store) -> None:
    first, second = new_id(), new_id()
    for job_id in (first, second):
        sealed = KEYS.seal(f"raw token of {job_id}", job_id=job_id, tenant="acme")
        store.enqueue([NewJob(kind="work", id=job_id, principal=USER, sealed=sealed)])
    plain = one(store, principal=USER)
    found = store.principals.get(first)
    assert found is not None and found.sealed is not None and "raw token" not in str(rows(store, "principal"))
    assert KEYS.open(found.sealed, job_id=first, tenant="acme") == f"raw token of {first}"
    assert "raw token" not in repr(found) and found.sealed.text not in repr(found)
    other = store.principals.get(plain)
    assert other is not None and other.sealed is None


# -------------------------------------------------------------------------------------------------------- inheritance


def test_a_child_has_its_parents_principal_unless_it_brings_one(store: Store) -> None:
    parent = one(store, "parent", principal=USER)
    heir = one(store, after=[After(parent)])
    own = one(store, after=[After(parent)], principal=OTHER)
    assert asked(store, heir) == USER and asked(store, own) == OTHER
    free = one(store, "free")
    assert asked(store, one(store, after=[After(free)])) is None
    assert asked(store, one(store, after=[After(free), After(parent)])) == USER


def test_a_child_of_an_ended_parent_inherits_too(store: Store) -> None:
    parent = ended(store, "parent")
    child = one(store, after=[After(parent)])
    store.dependencies.link()
    lease = claim_one(store.join())
    assert lease.id == child and lease.flags & Flag.PRINCIPAL and asked(store, child) == USER


def test_jobs_of_one_call_inherit_from_each_other_in_any_order(store: Store) -> None:
    a, b, c, d, free = (new_id() for _ in range(5))
    jobs = [
        NewJob(kind="work", id=c, after=[After(b)]),
        NewJob(kind="work", id=d, after=[After(c), After(a)]),
        NewJob(kind="work", id=a, principal=USER),
        NewJob(kind="work", id=free),
        NewJob(kind="work", id=b, after=[After(a), After(free)]),
    ]
    store.enqueue(jobs)
    assert store.principals.list([a, b, c, d, free]) == dict.fromkeys((a, b, c, d), USER)


def test_a_child_of_several_parents_may_do_what_all_of_them_allow(store: Store) -> None:
    small = USER.narrowed(roles=["read"], attributes={"county": "Harju"})
    parents = [one(store, "parent", principal=asker) for asker in (USER, small)]
    child = asked(store, one(store, after=[After(parent) for parent in parents]))
    assert child == small and child.is_within(USER)


def test_a_job_that_waits_for_different_principals_must_bring_its_own(store: Store) -> None:
    parents = [After(one(store, "parent", principal=asker)) for asker in (USER, OTHER)]
    before = captured(store)
    with pytest.raises(ConfigError, match="different principals"):
        store.enqueue([NewJob(kind="work", after=parents)])
    assert captured(store) == before
    service = Principal.service("merge", roles=["read"])
    assert asked(store, one(store, after=parents, principal=service)) == service


def test_an_heir_does_not_wait_and_cannot_be_refused(store: Store) -> None:
    """What rules make when jobs have ended."""
    mine, theirs, nobodys = ended(store, "a"), one(store, "b", principal=OTHER), one(store, "c")
    small = one(store, "d", principal=USER.narrowed(roles=["read"]))
    heir = one(store, heir_of=[mine])
    assert state(store, heir) is State.QUEUED and asked(store, heir) == USER
    assert asked(store, one(store, heir_of=[nobodys])) is None
    assert asked(store, one(store, heir_of=[mine, small, nobodys])) == USER.narrowed(roles=["read"])
    assert asked(store, one(store, heir_of=[mine, theirs])) == NOBODY
    assert asked(store, one(store, heir_of=[mine], principal=OTHER)) == OTHER


def test_what_comes_from_an_erased_principal_is_refused_or_may_do_nothing(
    store: Store, clock: ManualClock
) -> None:
    parent = ended(store, "parent")
    clock.advance(2 * DAY)
    assert store.principals.erase(DAY) == 1
    with pytest.raises(PrincipalErasedError, match=parent):
        store.enqueue([NewJob(kind="work", after=[After(parent)])])
    assert asked(store, one(store, after=[After(parent)], principal=OTHER)) == OTHER
    assert asked(store, one(store, heir_of=[parent])) == NOBODY


def test_a_kept_token_is_not_inherited(store: Store) -> None:
    parent = new_id()
    sealed = KEYS.seal("raw", job_id=parent, tenant="acme")
    store.enqueue([NewJob(kind="work", id=parent, principal=USER, sealed=sealed)])
    found = store.principals.get(one(store, after=[After(parent)]))
    assert found is not None and found.principal == USER and found.sealed is None


def test_jobs_of_a_schedule_are_asked_for_by_a_service(store: Store, clock: ManualClock) -> None:
    """A named service, by default one without any rights; a change of it is a change of the schedule."""
    service = Principal.service("nightly", roles=["read"], attributes={"county": "Harju"})
    plain = NewSchedule(name="plain", kind="work", expression="@hourly")
    own = NewSchedule(name="own", kind="work", expression="@hourly", principal=service)
    assert store.schedules.put(plain).principal == Principal.service("cron:plain")
    assert store.schedules.put(own).principal == service == store.schedules.get("own").principal
    clock.advance(timedelta(hours=1))
    fired = {item.schedule: item.ticks[0].job_id for item in store.schedules.fire_due()}
    assert (
        asked(store, fired["plain"]) == Principal.service("cron:plain")
        and asked(store, fired["own"]) == service
    )
    assert asked(store, store.schedules.run_now("own").id) == service
    before = store.schedules.get("own").generation
    assert store.schedules.put(own).generation == before
    changed = store.schedules.put(replace(own, principal=service.narrowed(roles=[])))
    assert (changed.generation, changed.principal.roles) == (before + 1, frozenset())
    assert store.schedules.put(replace(own, principal=None)).principal == Principal.service("cron:own")
    for nobody in (USER, "nightly"):
        with pytest.raises(ConfigError, match="schedules do not run for a person"):
            store.schedules.put(replace(own, principal=nobody))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- moves of jobs


def test_every_move_of_a_job_keeps_its_principal(
    store: Store, clock: ManualClock, opened: Callable[[], Store]
) -> None:
    """Retried, released, recovered, advanced, cancelled, retried by hand: the flag is on every lease."""
    job_id = one(store, principal=USER, max_attempts=9)
    holder = store.join(lease=LEASE)

    def lease(phase: str = "work") -> Any:
        taken = claim_one(holder, phase)
        assert taken.id == job_id and taken.flags & Flag.PRINCIPAL and store.principals.of(taken)
        return taken

    holder.retry_later(lease(), BOOM, timedelta(0))
    store.upkeep.promote()
    holder.release(lease())
    dead = opened().join(lease=LEASE)
    claim_one(dead)
    clock.advance(LEASE + timedelta(seconds=1))
    holder = store.join(lease=LEASE)
    store.recovery.recover()
    holder.checkpoint(again := lease(), done=1)
    holder.put_output(again, 1, name="x")
    holder.advance(again, "second")
    holder.fail(lease("second"), BOOM)
    store.jobs.retry(job_id)
    holder.complete(lease("second"))
    store.jobs.retry(job_id)
    store.jobs.cancel(job_id)
    store.jobs.retry(job_id)
    holder.fail(lease("second"), BOOM)
    assert asked(store, job_id) == USER and captured(store) == {job_id}


def test_a_child_that_is_brought_back_keeps_its_principal(store: Store) -> None:
    parent = one(store, "parent", principal=OTHER, max_attempts=1)
    child = one(store, after=[After(parent)], principal=USER)
    while store.dependencies.link():
        pass
    holder = store.join()
    holder.fail(claim_one(holder, "parent"), BOOM)
    assert state(store, child) is State.CANCELLED
    store.jobs.retry(parent, dependents=True)
    holder.complete(claim_one(holder, "parent"))
    lease = claim_one(holder)
    assert lease.id == child and lease.flags & Flag.PRINCIPAL and asked(store, child) == USER


def test_a_dependency_that_is_to_run_all_the_same_inherits_like_others(store: Store) -> None:
    parent = one(store, "parent", principal=USER, max_attempts=1)
    child = one(store, after=[After(parent, DependencyPolicy.RUN)])
    while store.dependencies.link():
        pass
    holder = store.join()
    holder.fail(claim_one(holder, "parent"), BOOM)
    assert claim_one(holder).id == child and asked(store, child) == USER
