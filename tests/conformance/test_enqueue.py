"""Enqueueing: what is accepted, where it goes, in which order it is served."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, every_job, one, state
from tests.interleavings.sessions import blocked_sessions
from tests.waiting import PATIENCE, eventually
from windlass.clock import ManualClock
from windlass.errors import (
    KeyConflictError,
)
from windlass.features import Store, open_store
from windlass.model import Json, Key, KeyScope, NewJob, State
from windlass.store.ids import new_id

pytestmark = pytest.mark.older_postgres


def test_a_job_is_stored_with_all_it_was_given(store: Store, clock: ManualClock) -> None:
    """What was submitted is what is found again."""
    job_id = one(
        store,
        "report",
        args={"county": "Ada", "pages": [1, 2]},
        phase="report:fetch",
        priority=7,
        max_attempts=5,
        correlation_id="order-7",
    )
    job = store.jobs.get(job_id)
    assert job.kind == "report" and job.phase == "report:fetch"
    assert job.state is State.QUEUED
    assert job.args == {"county": "Ada", "pages": [1, 2]}
    assert (job.priority, job.max_attempts, job.attempt, job.generation, job.crashes) == (7, 5, 0, 1, 0)
    assert job.correlation_id == "order-7"
    assert job.created_at == clock.now()
    assert job.started_at is None and job.finished_at is None and job.result is None and job.error is None


def test_without_a_correlation_id_the_job_has_its_own(store: Store) -> None:
    """A correlation id comes with the submission or is made."""
    job_id = one(store)
    assert store.jobs.get(job_id).correlation_id == job_id
    lease = claim_one(store.join())
    assert lease.correlation_id == job_id


def test_nothing_to_enqueue_is_no_error(store: Store) -> None:
    assert store.enqueue([]) == []


def test_many_jobs_keep_their_order(store: Store) -> None:
    ids = [answer.id for answer in store.enqueue([NewJob(kind="work", args={"n": n}) for n in range(500)])]
    claimed = store.join().claim("work", 500)
    assert [lease.id for lease in claimed] == ids
    assert [lease.args["n"] for lease in claimed] == list(range(500))


def test_a_large_batch_is_stored_like_a_small_one(store: Store, clock: ManualClock) -> None:
    """PostgreSQL streams it (COPY), which has an escaping of its own: nothing of it may show."""
    odd = {
        "tab": "a\tb",
        "line": "a\nb",
        "back": "a\\b\\N\\.",
        "quote": '"',
        "uni": "é\U0001f600",
        "null": None,
    }
    jobs = [
        NewJob(
            kind="bulk" if n % 2 else "work",
            phase="bulk:a" if n % 3 else None,
            args={"n": n, **odd},
            priority=n % 10,
            max_attempts=1 + n % 5,
            correlation_id=f"c\\{n} ü" if n % 4 else None,
        )
        for n in range(1200)
    ]
    answers = store.enqueue(jobs)
    assert all(answer.created for answer in answers)
    for n in (0, 1, 2, 3, 5, 598, 1199):
        stored = store.jobs.get(answers[n].id)
        assert stored.args == {"n": n, **odd} and stored.kind == jobs[n].kind
        assert stored.phase == (jobs[n].phase or jobs[n].kind)
        assert (stored.priority, stored.max_attempts) == (n % 10, 1 + n % 5)
        assert stored.correlation_id == (f"c\\{n} ü" if n % 4 else stored.id)
        assert stored.created_at == clock.now() and stored.state is State.QUEUED
    assert sum(counts.queued for counts in store.phases.counts().values()) == 1200
    assert len(store.join().claim("bulk:a", 1000)) == 800
    assert_counts_are_true(store)


def test_a_large_batch_with_delays_is_stored_too(store: Store) -> None:
    store.enqueue([NewJob(kind="work", delay=timedelta(seconds=n % 2)) for n in range(600)])
    counts = store.phases.counts()["work"]
    assert (counts.queued, counts.scheduled) == (300, 300)


def test_higher_priority_is_served_first_then_older(store: Store, clock: ManualClock) -> None:
    """Priority high to low, then oldest first, whatever order they came in."""
    served = []
    for number, priority in enumerate([5, 0, 9, 5, 9, 1]):
        clock.advance(0.001)
        served.append((one(store, priority=priority), priority, number))
    expected = [job_id for job_id, _, _ in sorted(served, key=lambda row: (-row[1], row[2]))]
    holder = store.join()
    got = [lease.id for _ in range(3) for lease in holder.claim("work", 2)]
    assert got == expected


def test_a_delayed_job_is_served_when_due_and_not_before(store: Store, clock: ManualClock) -> None:
    job_id = one(store, delay=timedelta(seconds=10))
    holder = store.join()
    assert state(store, job_id) is State.SCHEDULED
    assert store.jobs.get(job_id).run_at == clock.now() + timedelta(seconds=10)
    clock.advance(9.9)
    assert store.upkeep.promote() == {} and not holder.claim("work", 1)
    clock.advance(0.1)
    assert store.upkeep.promote() == {"work": 1}
    assert state(store, job_id) is State.QUEUED
    assert claim_one(holder).id == job_id
    assert_counts_are_true(store)


def test_a_run_at_in_the_past_means_now(store: Store, clock: ManualClock) -> None:
    job_id = one(store, run_at=clock.now() - timedelta(days=1))
    assert state(store, job_id) is State.QUEUED
    future = one(store, run_at=clock.now() + timedelta(days=1))
    assert store.jobs.get(future).run_at == clock.now() + timedelta(days=1)


def test_due_jobs_are_promoted_oldest_due_first_and_in_batches(store: Store, clock: ManualClock) -> None:
    late = one(store, delay=timedelta(seconds=3))
    early = one(store, delay=timedelta(seconds=1))
    middle = one(store, delay=timedelta(seconds=2))
    never = one(store, delay=timedelta(seconds=60))
    clock.advance(5)
    assert store.upkeep.promote(limit=2) == {"work": 2}
    assert [state(store, job_id) for job_id in (early, middle, late)] == ["queued", "queued", "scheduled"]
    clock.advance(1)
    assert store.upkeep.promote(limit=2) == {"work": 1}
    assert store.upkeep.promote(limit=2) == {}
    assert [lease.id for lease in store.join().claim("work", 9)] == [early, middle, late]
    assert state(store, never) is State.SCHEDULED
    assert_counts_are_true(store)


def test_jobs_of_a_callers_transaction_pass_through_the_inbox(store: Store, clock: ManualClock) -> None:
    """I-2: claimable if and only if that transaction committed, at the time it committed."""
    with pytest.raises(RuntimeError), store.db.effect(5) as tx:
        store.enqueuer.enqueue_in(tx, [NewJob(kind="work")])
        raise RuntimeError
    assert every_job(store) == []
    with store.db.effect(5) as tx:
        (answer,) = store.enqueuer.enqueue_in(tx, [NewJob(kind="work")])
        store.enqueuer.enqueue_in(tx, [NewJob(kind="work", delay=timedelta(seconds=5))])
    job = store.jobs.get(answer.id)
    assert job.state is State.QUEUED and job.reason == "inbox"
    assert [found.id for found in every_job(store, state=State.QUEUED)] == [answer.id]
    assert_counts_are_true(store)
    clock.advance(2)
    holder = store.join()
    assert not holder.claim("work", 5)
    assert store.upkeep.promote() == {"work": 1}
    lease = claim_one(holder)
    assert lease.id == answer.id and lease.ready_at == clock.now()
    assert_counts_are_true(store)


# ---------------------------------------------------------------------------------------------- repeated ids and keys


def test_an_enqueue_repeated_with_the_same_id_makes_no_second_job(store: Store) -> None:
    """Wherever the first one is by now: queued, held, waiting, ended."""
    job = NewJob(kind="work", id=new_id())
    assert store.enqueue([job])[0].created
    holder = store.join()
    assert not store.enqueue([job])[0].created
    lease = claim_one(holder)
    assert not store.enqueue([job])[0].created
    holder.complete(lease)
    assert not store.enqueue([job])[0].created
    later = NewJob(kind="work", id=new_id(), delay=timedelta(hours=1))
    assert [store.enqueue([later])[0].created, store.enqueue([later])[0].created] == [True, False]
    assert len(every_job(store)) == 2
    assert_counts_are_true(store)


def test_repeated_and_new_ids_may_stand_in_one_call(store: Store) -> None:
    first = NewJob(kind="work", id=new_id())
    store.enqueue([first])
    answers = store.enqueue([first, NewJob(kind="work", id=new_id()), NewJob(kind="work")])
    assert [answer.created for answer in answers] == [False, True, True]
    assert len(every_job(store)) == 3


def test_a_live_key_is_free_again_when_its_job_ended(store: Store) -> None:
    """I-24: at most one live job per key; the second caller is given the first one's job."""
    job = NewJob(kind="work", key=Key("order-7"), args={"order": 7})
    first = store.enqueue([job])[0]
    again = store.enqueue([job])[0]
    assert first.created and not again.created and again.id == first.id
    holder = store.join()
    holder.complete(claim_one(holder))
    third = store.enqueue([job])[0]
    assert third.created and third.id != first.id
    assert_counts_are_true(store)


@pytest.mark.parametrize("end", ["fail", "cancel", "cancel_held"])
def test_every_end_frees_a_live_key(store: Store, end: str) -> None:
    job = NewJob(kind="work", key=Key("k"))
    first = store.enqueue([job])[0]
    holder = store.join()
    if end == "cancel":
        store.jobs.cancel(first.id)
    elif end == "fail":
        holder.fail(claim_one(holder), BOOM)
    else:
        holder.cancel(claim_one(holder))
    assert store.enqueue([job])[0].created


def test_an_idempotent_key_holds_until_it_expires(store: Store, clock: ManualClock) -> None:
    """I-25: the same key and body give the same job id, ended or not, until the key's time is over."""
    job = NewJob(kind="work", key=Key("req-1", KeyScope.IDEMPOTENT, timedelta(hours=1)))
    first = store.enqueue([job])[0]
    holder = store.join()
    holder.complete(claim_one(holder))
    clock.advance(timedelta(minutes=59))
    assert store.enqueue([job])[0].id == first.id
    clock.advance(timedelta(minutes=2))
    second = store.enqueue([job])[0]
    assert second.created and second.id != first.id
    clock.advance(timedelta(minutes=59))
    assert store.enqueue([job])[0].id == second.id


def test_the_same_key_with_another_body_is_a_conflict(store: Store) -> None:
    first = one(store, key=Key("k"), args={"a": 1})
    with pytest.raises(KeyConflictError) as caught:
        store.enqueue([NewJob(kind="work", key=Key("k"), args={"a": 2}), NewJob(kind="other")])
    assert caught.value.job_id == first and first in str(caught.value)
    assert len(every_job(store)) == 1, "nothing of the refused call may be left"
    assert one(store, key=Key("k"), args={"a": 1}) == first


def test_keys_of_two_kinds_and_scopes_do_not_meet(store: Store) -> None:
    ids = {
        one(store, "a", key=Key("k")),
        one(store, "b", key=Key("k")),
        one(store, "a", key=Key("k", KeyScope.IDEMPOTENT)),
    }
    assert len(ids) == 3


def test_the_same_key_twice_in_one_call_makes_one_job(store: Store) -> None:
    jobs = [NewJob(kind="work", key=Key("x")), NewJob(kind="work", key=Key("x")), NewJob(kind="work")]
    answers = store.enqueue(jobs)
    assert answers[0].id == answers[1].id and [a.created for a in answers] == [True, False, True]
    assert len(every_job(store)) == 2
    assert_counts_are_true(store)


def test_two_enqueues_of_one_id_in_two_transactions_make_one_job(postgres_dsn: str) -> None:
    """One went to the inbox of an open transaction, one to the queue: promotion stopped for everybody."""
    clock = ManualClock()
    with open_store(postgres_dsn, clock=clock) as store:
        job_id = new_id()
        one(store, "other", delay=timedelta(seconds=1))
        answers = []
        with store.db.effect(5) as tx:
            store.enqueuer.enqueue_in(tx, [NewJob(kind="work", id=job_id)])
            waiting = threading.Thread(
                target=lambda: answers.append(store.enqueue([NewJob(kind="work", id=job_id)])[0].created)
            )
            waiting.start()
            eventually(lambda: blocked_sessions(postgres_dsn) == 1)
        waiting.join(PATIENCE)
        assert answers == [False]
        clock.advance(2)
        assert store.upkeep.promote() == {"work": 1, "other": 1}
        assert len(every_job(store)) == 2


def test_a_job_that_stands_in_two_tables_stops_no_promotion(store: Store, clock: ManualClock) -> None:
    """It cannot happen any more, but one bad row must never stop a phase."""
    if store.db.dialect == "sqlite":
        pytest.skip("one writer at a time: the look before the insert is exact, and the row cannot be made")
    job_id = one(store, delay=timedelta(seconds=1))
    other = one(store, delay=timedelta(seconds=1))
    with store.db.effect(5) as tx:
        tx.connection.execute(
            "INSERT INTO windlass.job (id, created_at, ready_at, lane, max_attempts, kind, phase, args) "
            "SELECT id, created_at, created_at, lane, max_attempts, kind, phase, args FROM windlass.job_later WHERE id = %s",
            (job_id,),
        )
    clock.advance(2)
    store.upkeep.promote()
    assert sorted(lease.id for lease in store.join().claim("work", 5)) == sorted([job_id, other])


def test_json_over_several_lines_is_stored_in_bulk_too(store: Store) -> None:
    args = Json('{\n\t"a": "x\\ny",\r\n "b": [1,\n2]}')
    ids = enqueue(store, n=600, args=args)
    assert store.jobs.get(ids[0]).args == {"a": "x\ny", "b": [1, 2]}
