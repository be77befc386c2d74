"""Headers carried with a job: stored with it, inherited from it, removed with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import rows
from tests.conformance.life import assert_counts_are_true, claim_one, one, state
from windlass.clock import ManualClock
from windlass.errors import ConfigError, PayloadError, WindlassError
from windlass.features import Store
from windlass.model import (
    ASIDE,
    After,
    Completed,
    Debounce,
    Flag,
    Key,
    NewJob,
    Retention,
    State,
    has_flag,
)
from windlass.model.rule import Rule
from windlass.store.ids import new_id
from windlass.store.jobs.outcome_rows import split_plain

TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tenant": "Võru"}
OTHER = {"tenant": "acme"}
DAY = timedelta(days=1)


def stored(store: Store) -> set[str]:
    return {row["job"] for row in rows(store, "job_headers")}


def test_headers_are_stored_with_their_job_and_read_by_its_lease(store: Store) -> None:
    job_id, plain = one(store, headers=TRACE), one(store)
    assert store.headers.get(job_id) == TRACE and store.headers.list([job_id, plain, "no id"]) == {
        job_id: TRACE
    }
    assert store.headers.get(plain) == {} and store.headers.get("no id") == {} and stored(store) == {job_id}
    other = one(store, "other", headers=OTHER)
    assert store.headers.list([job_id]) == {job_id: TRACE} and store.headers.list([other]) == {other: OTHER}
    holder = store.join()
    leases = {lease.id: lease for lease in holder.claim("work", 2)}
    assert store.headers.of(leases[job_id]) == TRACE and store.headers.of(leases[plain]) == {}
    assert has_flag(leases[job_id].flags, Flag.HEADERS) and not has_flag(leases[plain].flags, Flag.HEADERS)
    assert_counts_are_true(store)


def test_headers_do_not_send_the_end_of_a_job_the_long_way(store: Store) -> None:
    job_id = one(store, headers=TRACE)
    holder = store.join()
    lease = claim_one(holder)
    assert not has_flag(ASIDE, Flag.HEADERS) and split_plain([Completed(lease)]) == ([Completed(lease)], [])
    holder.complete(lease)
    assert state(store, job_id) is State.COMPLETED and store.headers.get(job_id) == TRACE


def test_empty_headers_are_none(store: Store) -> None:
    one(store, headers={})
    assert stored(store) == set() and not has_flag(claim_one(store.join()).flags, Flag.HEADERS)


@pytest.mark.parametrize(
    "options",
    [
        {"key": Key("k")},
        {"delay": timedelta(0)},
        {"id": "01890a5d-ac96-774b-bcce-b302099a8057"},
        {"correlation_id": "c"},
    ],
    ids=str,
)
def test_headers_go_with_every_option(store: Store, options: dict[str, Any]) -> None:
    assert store.headers.get(one(store, headers=TRACE, **options)) == TRACE


def test_many_jobs_of_one_call_have_each_their_own(store: Store) -> None:
    """More than a bulk enqueue begins with."""
    kinds = [None, TRACE, OTHER]
    jobs = [NewJob(kind="work", headers=kinds[n % 3]) for n in range(600)]
    made = store.enqueue(jobs)
    found = store.headers.list([item.id for item in made])
    assert [found.get(item.id) for item in made] == [job.headers for job in jobs]
    assert_counts_are_true(store)


def test_a_repeated_call_and_a_taken_key_change_nothing(store: Store) -> None:
    job_id = new_id()
    for headers in (TRACE, OTHER, None):
        store.enqueue([NewJob(kind="work", id=job_id, headers=headers)])
        assert store.headers.get(job_id) == TRACE
    first = one(store, headers=TRACE, key=Key("k"))
    assert one(store, headers=OTHER, key=Key("k")) == first
    assert store.headers.get(first) == TRACE and stored(store) == {job_id, first}


def test_headers_exist_if_and_only_if_their_job_does(store: Store) -> None:
    with pytest.raises(RuntimeError, match="no"), store.db.effect(5) as tx:
        store.enqueuer.enqueue_in(tx, [NewJob(kind="work", headers=TRACE)])
        raise RuntimeError("no")
    assert stored(store) == set()
    with store.db.effect(5) as tx:
        (made,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work", headers=TRACE)])
    store.upkeep.promote()
    assert store.headers.of(claim_one(store.join())) == TRACE and stored(store) == {made.id}


def test_a_replaced_request_has_the_headers_of_the_last(store: Store) -> None:
    bystander = one(store, "other", headers=TRACE)
    first = one(store, headers=TRACE, debounce=Debounce("d", 60))
    for headers in (OTHER, None, TRACE):
        assert one(store, headers=headers, debounce=Debounce("d", 60)) == first
        assert store.headers.get(first) == (headers or {}) and store.headers.get(bystander) == TRACE
    one(store, debounce=Debounce("d", 60))
    store.upkeep.make_due(first)
    store.upkeep.promote()
    assert not has_flag(claim_one(store.join()).flags, Flag.HEADERS)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (["a"], "a mapping of texts"),
        ("a=b", "a mapping of texts"),
        ({"a": 1}, r"headers\['a'\] = 'int'.*a text"),
        ({"a": None}, "a text"),
        ({1: "a"}, "printable characters"),
        ({"": "a"}, "printable characters"),
        ({"a\n": "a"}, "printable characters"),
        ({f"h{n}": "" for n in range(65)}, "at most 64"),
    ],
    ids=repr,
)
def test_bad_headers_are_named_and_nothing_is_stored(shared_store: Store, headers: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        one(shared_store, headers=headers)
    assert stored(shared_store) == set()


def test_headers_that_no_database_holds_are_refused(shared_store: Store) -> None:
    for headers in ({"a": "x" * 17_000}, {"a": "\x00"}, {"a": "\ud800"}):
        with pytest.raises(PayloadError, match="headers"):
            one(shared_store, headers=headers)
    with pytest.raises(ConfigError, match="headers_of"):
        one(shared_store, headers_of="no id")


# ------------------------------------------------------------------------------------------------------------ passed on


def test_a_job_takes_over_the_headers_of_the_job_it_comes_from(store: Store) -> None:
    parent, bare = one(store, headers=TRACE), one(store)
    heir = one(store, headers_of=parent)
    mixed = one(store, headers_of=parent, headers={**OTHER, "own": "1"})
    assert store.headers.get(heir) == TRACE
    assert store.headers.get(mixed) == {**TRACE, **OTHER, "own": "1"}
    assert (
        store.headers.get(one(store, headers_of=bare))
        == {}
        == store.headers.get(one(store, headers_of=new_id()))
    )
    flags = {lease.id: lease.flags for lease in store.join().claim("work", 9)}
    assert has_flag(flags[heir], Flag.HEADERS) and not has_flag(flags[bare], Flag.HEADERS)
    assert sum(has_flag(flag, Flag.HEADERS) for flag in flags.values()) == 3


def test_a_job_that_waits_for_another_has_only_its_own(store: Store) -> None:
    """Its submitter has a context of its own."""
    parent = one(store, headers=TRACE)
    assert store.headers.get(one(store, after=[After(parent)])) == {}


@pytest.mark.parametrize("inherit", [True, False])
def test_children_of_rules_have_the_headers_of_the_parent_that_ended_last(
    store: Store, inherit: bool
) -> None:
    store.rules.define(
        [
            Rule(name="one", parents=("work",), create="child", phase="child", inherit=inherit),
            Rule(
                name="all",
                parents=("left", "right"),
                create="both",
                phase="both",
                key=("args.n",),
                inherit=inherit,
            ),
        ]
    )
    holder = store.join()
    for kind, headers in (("work", TRACE), ("left", OTHER), ("right", TRACE)):
        one(store, kind, args={"n": 1}, headers=headers)
        holder.complete(claim_one(holder, kind))
        holder.step()
    for kind in ("child", "both"):
        lease = claim_one(holder, kind)
        assert store.headers.of(lease) == (TRACE if inherit else {}), kind
    one(store, "work", args={"n": 2})
    holder.complete(claim_one(holder, "work"))
    holder.step()
    assert not has_flag(claim_one(holder, "child").flags, Flag.HEADERS)


# ------------------------------------------------------------------------------------------------------------ kept and removed


def test_headers_survive_retries_and_go_with_the_pruned_job(store: Store, clock: ManualClock) -> None:
    store.upkeep.maintain()
    holder = store.join(lease=timedelta(days=9))
    old, living = one(store, headers=TRACE), one(store, "other", headers=OTHER)
    holder.complete(claim_one(holder))
    holder.step()
    store.jobs.retry(old)
    lease = claim_one(holder)
    assert store.headers.of(lease) == TRACE and lease.generation == 2
    holder.complete(lease)
    holder.step()
    clock.advance(timedelta(days=2))
    store.upkeep.maintain()
    young = one(store, headers=OTHER)
    holder.complete(claim_one(holder))
    holder.step()
    assert store.upkeep.prune(Retention(completed=DAY), page=1, pause=0) == 1
    assert stored(store) == {living, young}
    clock.advance(timedelta(days=40))
    assert store.upkeep.prune(Retention(completed=DAY, failed=DAY, cancelled=DAY)) == 1, (
        "a whole day, where the database can"
    )
    assert stored(store) == {living}


def test_errors_of_many_jobs_say_which(shared_store: Store) -> None:
    with pytest.raises(WindlassError, match=r"jobs\[1\]: headers"):
        shared_store.enqueue([NewJob(kind="work"), NewJob(kind="work", headers={"a": 1})])  # type: ignore[dict-item]
