"""Replies that never arrive (findings 4 and 5): a proxy lets the commit through and cuts the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from tests.acceptance.proxy import PostgresProxy, commit, execution_of
from tests.interleavings.sessions import BOOM, Open, assert_consistent, claim, enqueue
from tests.waiting import PATIENCE
from windlass.app.app import App
from windlass.engine.drain import Drain
from windlass.errors import StoreUnreachableError
from windlass.features import Store
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Failed,
    Flag,
    Key,
    KeyScope,
    Lease,
    NewJob,
    Outcome,
    Retried,
    State,
    Verdict,
    Want,
)
from windlass.store.ids import new_id
from windlass.store.jobs.holder import Holder

pytestmark = pytest.mark.timing

ROUNDS = 20
ENQUEUE_ONE = execution_of("AS moment, ")
STEP, ENQUEUE, BEAT = (
    execution_of("wanted AS MATERIALIZED"),
    execution_of("'unlinked'"),
    execution_of("WITH beaten"),
)


@pytest.fixture
def proxy(postgres_dsn: str) -> Iterator[PostgresProxy]:
    with PostgresProxy(postgres_dsn) as proxy:
        yield proxy


@pytest.fixture
def near(postgres_dsn: str, stores: Open) -> Store:
    """A store that reaches the server directly, for looking."""
    return stores(postgres_dsn)


@pytest.fixture
def far(proxy: PostgresProxy, stores: Open) -> Store:
    """The store under test, behind the proxy."""
    return stores(proxy.url)


OUTCOMES: dict[str, Callable[[Lease], Outcome]] = {
    "completed": lambda lease: Completed(lease, {"sent": True}),
    "failed": lambda lease: Failed(lease, BOOM),
    "cancelled": lambda lease: Cancelled(lease),
    "retried": lambda lease: Retried(lease, BOOM, timedelta(hours=1)),
    "advanced": lambda lease: Advanced(lease, "next", {"half": 1}),
}
STATES = {
    "completed": State.COMPLETED,
    "failed": State.FAILED,
    "cancelled": State.CANCELLED,
    "retried": State.SCHEDULED,
    "advanced": State.QUEUED,
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_outcome_repeated_after_a_lost_reply_is_already_recorded(
    postgres_dsn: str, proxy: PostgresProxy, near: Store, far: Store, name: str
) -> None:
    """Twenty times: the outcome is committed, its reply cut, the call fails; repeated, it answers ALREADY_RECORDED and
    changes nothing, whether it went the short way (one statement) or the long one (a transaction)."""
    ids = enqueue(near, ROUNDS)
    holder = far.join()
    is_short = name in ("completed", "failed", "cancelled")
    for round_ in range(ROUNDS):
        (lease,) = claim(holder)
        outcome = OUTCOMES[name](lease)
        proxy.cut_reply_to(STEP if is_short else commit)
        with pytest.raises(StoreUnreachableError):
            holder.record([outcome])
        assert proxy.cuts == round_ + 1
        before = near.jobs.get(lease.id)
        assert before.state is STATES[name]
        assert holder.record([outcome]) == [Verdict.ALREADY_RECORDED]
        assert near.jobs.get(lease.id) == before
    assert {near.jobs.get(job_id).state for job_id in ids} == {STATES[name]}
    holder.step()
    assert holder.beat(unknown_grace=timedelta(0)).released == 0
    assert_consistent(postgres_dsn, near)


def test_a_mixed_batch_repeated_after_a_lost_reply(
    postgres_dsn: str, proxy: PostgresProxy, near: Store, far: Store
) -> None:
    """A batch of all outcomes: whichever of its two commits lost its reply, the repetition has a verdict for each job
    that is not LOST, and every job is where it belongs."""
    holder = far.join()
    makers = list(OUTCOMES.items())
    for cut in (STEP, commit):
        enqueue(near, 10)
        leases = claim(holder, 10)
        named = [(makers[n % len(makers)][0], lease) for n, lease in enumerate(leases)]
        outcomes = [OUTCOMES[name](lease) for name, lease in named]
        proxy.cut_reply_to(cut)
        with pytest.raises(StoreUnreachableError):
            holder.record(outcomes)
        verdicts = holder.record(outcomes)
        assert set(verdicts) <= {Verdict.RECORDED, Verdict.ALREADY_RECORDED}
        assert Verdict.ALREADY_RECORDED in verdicts
        assert [near.jobs.get(lease.id).state for _, lease in named] == [STATES[name] for name, _ in named]
        assert holder.record(outcomes) == [Verdict.ALREADY_RECORDED] * len(outcomes)
    assert_consistent(postgres_dsn, near)


@pytest.mark.parametrize("kind", ["plain", "many", "given id", "live key", "idempotent key"])
def test_an_enqueue_whose_reply_was_cut_makes_no_second_job(
    postgres_dsn: str, proxy: PostgresProxy, near: Store, far: Store, kind: str
) -> None:
    """Twenty times: the insert is committed, its reply cut; the store finds its jobs and answers their ids once."""
    n = 5 if kind == "many" else 1
    seen: list[str] = []
    for round_ in range(ROUNDS):
        jobs = [NewJob(kind="work", args={"round": round_, "n": k}) for k in range(n)]
        if kind == "given id":
            jobs = [NewJob(kind="work", id=new_id())]
        elif kind.endswith("key"):
            scope = KeyScope.LIVE if kind.startswith("live") else KeyScope.IDEMPOTENT
            jobs = [NewJob(kind="work", key=Key(f"key-{round_}", scope))]
        proxy.cut_reply_to({"plain": ENQUEUE_ONE, "many": ENQUEUE}.get(kind, commit))
        answers = far.enqueue(jobs)
        assert proxy.cuts == round_ + 1
        seen += [answer.id for answer in answers]
    assert len(set(seen)) == n * ROUNDS
    assert near.phases.counts()["work"].queued == n * ROUNDS
    assert {lease.id for lease in claim(near.join(), n * ROUNDS)} == set(seen)
    assert_consistent(postgres_dsn, near)


def test_an_enqueue_repeated_after_its_job_has_run_makes_no_second_job(
    postgres_dsn: str, near: Store
) -> None:
    """The same id again, when the job is queued, processing, scheduled for a retry, and ended: it is found everywhere."""
    job_id = new_id()
    job = NewJob(kind="work", id=job_id)
    (first,) = near.enqueue([job])
    holder = near.join()

    def again() -> bool:
        (answer,) = near.enqueue([job])
        assert answer.id == job_id
        return answer.created

    assert first.created and not again()
    (lease,) = claim(holder)
    assert not again()
    holder.retry_later(lease, BOOM, timedelta(0))
    assert not again()
    near.upkeep.promote()
    (lease,) = claim(holder)
    holder.complete(lease)
    assert not again()
    assert near.phases.counts()["work"].completed == 1
    assert_consistent(postgres_dsn, near)


@pytest.mark.parametrize("with_finish", [False, True], ids=["claim", "finish and claim"])
def test_claims_whose_reply_was_cut_are_released_by_the_next_beat(
    postgres_dsn: str, proxy: PostgresProxy, near: Store, far: Store, with_finish: bool
) -> None:
    """Twenty times: a batch is claimed, nobody learns of it; the beat finds it under the own instance, gives the jobs
    back with their attempt, and leaves alone what the holder knows it holds."""
    enqueue(near, 5 + ROUNDS)
    holder = far.join()
    kept = claim(holder, 5)
    for round_ in range(ROUNDS):
        outcomes = [Completed(lease) for lease in claim(holder)] if with_finish else []
        proxy.cut_reply_to(STEP)
        with pytest.raises(StoreUnreachableError):
            holder.step(outcomes, Want("work", 3))
        assert proxy.cuts == round_ + 1
        counts = near.phases.counts()["work"]
        lost = min(3, ROUNDS - (round_ + 1 if with_finish else 0))
        assert counts.processing == 5 + lost
        assert holder.beat().released == 0, (
            "within the grace nothing is released: the reply may still be on its way"
        )
        assert holder.beat(unknown_grace=timedelta(0)).released == lost
        assert near.phases.counts()["work"].processing == 5
        assert holder.record(outcomes) == [Verdict.ALREADY_RECORDED] * len(outcomes)
    rest = ROUNDS - (ROUNDS if with_finish else 0)
    for lease in claim(holder, rest) if rest else []:
        assert lease.attempt == 1 and not lease.flags & Flag.SUSPECT and lease.crashes == 0
    assert holder.record([Completed(lease) for lease in kept]) == [Verdict.RECORDED] * 5
    assert_consistent(postgres_dsn, near)


def test_an_instance_runs_the_jobs_of_a_claim_whose_reply_was_cut_long_before_its_next_heartbeat(
    proxy: PostgresProxy, near: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds them and does not know it: the failed claim asks for a beat as soon as its jobs can be told apart."""
    grace = timedelta(seconds=0.5)
    monkeypatch.setattr("windlass.engine.heartbeat.UNKNOWN_GRACE", grace)
    monkeypatch.setattr(Holder.beat, "__kwdefaults__", {"unknown_grace": grace})
    ran: list[int] = []
    with closing(App(proxy.url)) as app:

        @app.job
        async def work(n: int) -> None:
            ran.append(n)

        near.enqueue([NewJob(kind="work", args={"n": n}) for n in range(3)])
        proxy.cut_reply_to(STEP)
        engine = app.worker(lease=1000.0, heartbeat=300.0, recovery=300.0)
        engine.start()
        try:
            assert Drain(engine, near).wait(PATIENCE)
        finally:
            engine.stop(grace=0)
    assert proxy.cuts == 1 and sorted(ran) == [0, 1, 2]
    assert near.phases.counts()["work"].completed == 3


def test_a_heartbeat_whose_reply_was_cut_is_just_repeated(
    proxy: PostgresProxy, near: Store, far: Store
) -> None:
    """A beat that was written but not heard of does no harm; the next one holds the leases as before."""
    enqueue(near, 3)
    holder = far.join()
    leases = claim(holder, 3)
    holder.beat()
    proxy.cut_reply_to(BEAT)
    with pytest.raises(StoreUnreachableError):
        holder.beat(unknown_grace=timedelta(0))
    assert holder.beat(unknown_grace=timedelta(0)).released == 0
    assert holder.record([Completed(lease) for lease in leases]) == [Verdict.RECORDED] * 3
