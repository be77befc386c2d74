"""Where and when each attempt of a job ran: instance, processor, waiting and running time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.bystanders import prefix, rows
from tests.conformance.life import BOOM, LEASE, claim_one, enqueue, one
from windlass.clock import ManualClock
from windlass.errors import JobNotFoundError
from windlass.features import Store
from windlass.model import (
    Advanced,
    Attempt,
    Cancelled,
    Completed,
    Failed,
    JobError,
    Lease,
    Outcome,
    Released,
    Retention,
    Retried,
    Run,
    Span,
    Verdict,
)
from windlass.store.ids import new_id
from windlass.store.jobs.holder import Holder

RUN = Run(3, 250, 1750)
NOBODY_SAID = (None, timedelta(0), None)

OUTCOMES: dict[str, Callable[[Lease, Run | None], Outcome]] = {
    "completed": lambda lease, run: Completed(lease, "done", run),
    "failed": lambda lease, run: Failed(lease, BOOM, run),
    "cancelled": lambda lease, run: Cancelled(lease, "enough", run),
    "retried": lambda lease, run: Retried(lease, BOOM, timedelta(0), run=run),
    "advanced": lambda lease, run: Advanced(lease, "next", run=run),
    "recovered": lambda lease, run: Released(lease, counted=True, run=run),
}


@pytest.fixture
def others(store: Store, opened: Callable[[], Store]) -> list[Lease]:
    """Claims of other instances, before and after: whoever looks for a claim must find the right one."""
    first = opened().join(lease=timedelta(days=1))
    enqueue(store, "other", 2)
    return [claim_one(first, "other"), claim_one(first, "other")]


def where(span: Span) -> tuple[str | None, timedelta, timedelta | None]:
    return span.processor, span.started_at - span.claimed_at, span.ran


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("way", ["short", "long"])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_attempt_keeps_where_it_ran(store: Store, clock: ManualClock, outcome: str, way: str) -> None:
    """Whatever it came to, by the one-statement way and by the one for jobs with more to tidy."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    if way == "long":
        holder.checkpoint(lease, done=1)
    claimed = clock.now()
    clock.advance(2)
    assert holder.record([OUTCOMES[outcome](lease, RUN)]) == [Verdict.RECORDED]
    (span,) = store.jobs.timeline(job_id)
    assert (span.phase, span.generation, span.attempt, span.outcome) == ("work", 1, 1, outcome)
    assert (span.claimed_at, span.ended_at, span.instance) == (claimed, clock.now(), holder.id)
    assert where(span) == ("work-processor-3", timedelta(milliseconds=250), timedelta(milliseconds=1750))
    assert (span.error or {}).get("code") == {
        "failed": "boom",
        "retried": "boom",
        "cancelled": "cancelled",
    }.get(outcome)
    assert [(attempt.instance, attempt.processor) for attempt in store.jobs.attempts(job_id)] == (
        [] if outcome in ("completed", "failed", "cancelled") else [(holder.id, "work-processor-3")]
    )


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("way", ["short", "long"])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_attempt_of_which_nobody_says_where_keeps_its_instance(
    store: Store, outcome: str, way: str
) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    if way == "long":
        holder.checkpoint(lease, done=1)
    holder.record([OUTCOMES[outcome](lease, None)])
    (span,) = store.jobs.timeline(job_id)
    assert span.instance == holder.id and where(span) == NOBODY_SAID


UNSTORABLE = JobError(type="E", code="e", message="m", details={"x": object()})


@pytest.mark.parametrize(
    ("outcome", "becomes"),
    [
        (lambda lease: Retried(lease, BOOM, timedelta(0), run=RUN), "failed"),
        (lambda lease: Completed(lease, object(), RUN), "failed"),
        (lambda lease: Failed(lease, UNSTORABLE, RUN), "failed"),
        (lambda lease: Retried(lease, UNSTORABLE, timedelta(0), counted=False, run=RUN), "retried"),
        (lambda lease: Advanced(lease, "not a name", run=RUN), "failed"),
    ],
    ids=["out of attempts", "bad result", "bad details", "bad details of a retry", "bad phase"],
)
def test_an_outcome_that_is_mended_keeps_where_it_ran(
    store: Store, outcome: Callable[[Lease], Outcome], becomes: str
) -> None:
    holder = store.join()
    job_id = one(store, max_attempts=1)
    holder.record([outcome(claim_one(holder))])
    (span,) = store.jobs.timeline(job_id)
    assert (span.outcome, span.processor) == (becomes, "work-processor-3")


@pytest.mark.parametrize("outcome", ["retried", "advanced", "recovered"])
def test_an_outcome_that_a_cancel_overtook_keeps_where_it_ran(store: Store, outcome: str) -> None:
    holder = store.join()
    job_id = one(store)
    lease = claim_one(holder)
    store.jobs.cancel(job_id)
    assert holder.record([OUTCOMES[outcome](lease, RUN)]) == [Verdict.CANCELLED]
    (span,) = store.jobs.timeline(job_id)
    assert (span.outcome, span.processor) == ("cancelled", "work-processor-3")


def test_numbers_no_column_holds_become_the_nearest(store: Store, clock: ManualClock) -> None:
    """One bad clock must not take its neighbours' outcomes down."""
    ids = enqueue(store, n=3)
    holder = store.join()
    first, second, third = holder.claim("work", 3)
    runs = [Run(-1, -5, -7), Run(10**9, 10**12, 10**12), RUN]
    holder.record(
        [Completed(lease, run=run) for lease, run in zip((first, second, third), runs, strict=True)]
    )
    spans = [store.jobs.timeline(job_id)[0] for job_id in ids]
    most = timedelta(milliseconds=2**31 - 1)
    assert [where(span) for span in spans] == [
        ("work-processor-0", timedelta(0), timedelta(0)),
        ("work-processor-32767", most, most),
        ("work-processor-3", timedelta(milliseconds=250), timedelta(milliseconds=1750)),
    ]


def test_a_timeline_is_every_attempt_in_order(store: Store, opened: Callable[[], Store]) -> None:
    """Through two phases, a retry, two instances, a failure and a retry by hand, up to the one under way."""
    first, second = store.join(), opened().join()
    job_id = one(store, phase="fetch", max_attempts=5)
    assert store.jobs.timeline(job_id) == []
    first.record([Retried(claim_one(first, "fetch"), BOOM, timedelta(0), run=Run(1, 1, 1))])
    assert len(store.jobs.timeline(job_id)) == 1
    store.upkeep.promote()
    second.record([Released(claim_one(second, "fetch"), counted=True)])
    second.record([Advanced(claim_one(second, "fetch"), "parse", max_attempts=5, run=Run(2, 2, 2))])
    first.record([Failed(claim_one(first, "parse"), BOOM, Run(3, 3, 3))])
    store.jobs.retry(job_id)
    assert len(store.jobs.timeline(job_id)) == 4
    claim_one(second, "parse")
    seen = [
        (span.phase, span.generation, span.attempt, span.outcome, span.instance, span.processor)
        for span in store.jobs.timeline(job_id)
    ]
    assert seen == [
        ("fetch", 1, 1, "retried", first.id, "fetch-processor-1"),
        ("fetch", 1, 2, "recovered", second.id, None),
        ("fetch", 1, 3, "advanced", second.id, "fetch-processor-2"),
        ("parse", 1, 1, "failed", first.id, "parse-processor-3"),
        ("parse", 2, 1, "processing", second.id, None),
    ]
    assert [span.ended_at is None for span in store.jobs.timeline(job_id)] == [False] * 4 + [True]


def test_a_retry_by_hand_keeps_where_the_last_attempt_ran(store: Store, clock: ManualClock) -> None:
    holder = store.join()
    job_id = one(store)
    holder.record([Completed(claim_one(holder), run=RUN)])
    (before,) = store.jobs.timeline(job_id)
    store.jobs.retry(job_id)
    assert store.jobs.timeline(job_id) == [before]
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.instance, attempt.processor) == (holder.id, "work-processor-3")


def test_a_timeline_is_of_one_job(store: Store, others: list[Lease]) -> None:
    """Beside a neighbour of the same claim, held, ended and tried jobs of others."""
    holder = store.join()
    ids = enqueue(store, n=2)
    mine, neighbour = holder.claim("work", 2)
    (span,) = store.jobs.timeline(mine.id)
    assert (span.outcome, span.instance, span.claimed_at) == ("processing", holder.id, mine.claimed_at)
    assert (span.ended_at, span.error, where(span)) == (None, None, NOBODY_SAID)
    holder.record([Failed(neighbour, BOOM)])
    holder.record([Retried(mine, BOOM, timedelta(hours=1))])
    assert [span.outcome for job_id in ids for span in store.jobs.timeline(job_id)] == ["retried", "failed"]
    assert [span.outcome for span in store.jobs.timeline(others[0].id)] == ["processing"]


def test_a_job_that_never_ran_has_an_empty_timeline_and_an_unknown_one_none(store: Store) -> None:
    ids = [one(store), one(store, delay=timedelta(hours=1)), one(store)]
    store.jobs.cancel(ids[2])
    assert [store.jobs.timeline(job_id) for job_id in ids] == [[], [], []]
    for unknown in (new_id(), "x"):
        with pytest.raises(JobNotFoundError):
            store.jobs.timeline(unknown)


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(
    ("how", "outcome"),
    [("released", "recovered"), ("failed", "failed"), ("retried", "recovered"), ("cancelled", "cancelled")],
)
def test_what_recovery_decides_names_the_instance_that_died(
    store: Store, opened: Callable[[], Store], clock: ManualClock, how: str, outcome: str
) -> None:
    dying = opened().join(lease=LEASE)
    job_id = one(store, max_attempts=1 if how == "failed" else 9)
    claim_one(dying)
    for _ in range(2 if how == "retried" else 0):  # the third death is followed by a wait
        clock.advance(LEASE + timedelta(seconds=1))
        store.recovery.recover()
        dying = opened().join(lease=LEASE)
        dying.start([claim_one(dying)])
    if how == "cancelled":
        store.jobs.cancel(job_id)
    clock.advance(LEASE + timedelta(seconds=1))
    assert [item.verdict for item in store.recovery.recover()] == [how]
    span = store.jobs.timeline(job_id)[-1]
    assert (span.outcome, span.instance, where(span)) == (outcome, dying.id, NOBODY_SAID)


@pytest.mark.parametrize("next_phase", [None, "next"])
def test_a_job_recovered_by_its_output_names_the_instance_that_died(
    store: Store, opened: Callable[[], Store], clock: ManualClock, next_phase: str | None
) -> None:
    dying = opened().join(lease=LEASE)
    job_id = one(store)
    dying.put_output(claim_one(dying), 1, next_phase=next_phase)
    clock.advance(LEASE + timedelta(seconds=1))
    store.recovery.recover()
    (span,) = store.jobs.timeline(job_id)
    assert (span.outcome, span.instance) == ("recovered" if next_phase else "completed", dying.id)


def test_an_orphans_attempt_names_nobody(store: Store) -> None:
    """Its claim row is gone, and with it the knowledge of who held it."""
    holder = store.join()
    job_id = one(store)
    lease = claim_one(holder)
    with store.db.effect(5) as tx:
        tx.connection.execute(f"DELETE FROM {prefix(store)}claim WHERE token = {lease.token}")
    assert [span.instance for span in store.jobs.timeline(job_id)] == [None]
    store.recovery.sweep_orphans()
    assert [(span.outcome, span.instance) for span in store.jobs.timeline(job_id)] == [("recovered", None)]


@pytest.mark.parametrize("end", ["complete", "advance"])
def test_an_effect_says_where_it_ran_when_it_commits(store: Store, end: str) -> None:
    holder = store.join()
    job_id = one(store)
    asked: list[Run] = []

    def run() -> Run:
        asked.append(RUN)
        return RUN

    with holder.transaction(claim_one(holder), run=run) as tx:
        tx.complete() if end == "complete" else tx.advance("next")
        assert asked == [], "the attempt is not over yet"
    (span,) = store.jobs.timeline(job_id)
    assert (span.instance, span.processor) == (holder.id, "work-processor-3")


def test_the_archive_says_where_attempts_ran(store: Store, clock: ManualClock) -> None:
    holder = store.join()
    one(store, phase="first")
    holder.record([Advanced(claim_one(holder, "first"), "second", run=RUN)])
    holder.record([Completed(claim_one(holder, "second"))])
    clock.advance(1)
    attempts: list[Attempt] = []
    store.upkeep.prune(
        Retention(completed=timedelta(0)),
        archive=lambda page: attempts.extend(attempt for item in page for attempt in item.attempts),
    )
    assert [(attempt.instance, attempt.processor) for attempt in attempts] == [
        (holder.id, "first-processor-3")
    ]


def test_rows_of_a_holder_that_says_nothing_are_as_before(store: Store) -> None:
    """Nothing is written where there is nothing to say; a job cancelled in its queue was nowhere."""
    holder: Holder = store.join()
    kept, cancelled = one(store), one(store, "never")
    holder.complete(claim_one(holder))
    store.jobs.cancel(cancelled)
    told = {
        str(row["id"]): (row["instance"], row["processor"], row["waited_ms"], row["ran_ms"])
        for row in rows(store, "job_done")
    }
    assert told == {kept: (holder.id, None, None, None), cancelled: (None, None, None, None)}
