"""The fence: a holder whose lease ran out and whose job was claimed again changes nothing and is told so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, LEASE, claim_one, one
from windlass.clock import ManualClock
from windlass.errors import LeaseLost
from windlass.features import Store
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Failed,
    Job,
    Lease,
    Released,
    Retried,
    Verdict,
)
from windlass.store.jobs.holder import Holder

pytestmark = pytest.mark.older_postgres


@pytest.fixture
def zombie(store: Store, opened: Callable[[], Store], clock: ManualClock) -> tuple[Holder, Lease, Lease]:
    """A holder that slept past its lease; its job was recovered and is held by another."""
    one(store, args={"n": 1})
    sleeper = opened().join(lease=LEASE)
    old = claim_one(sleeper)
    clock.advance(LEASE + timedelta(seconds=1))
    store.recovery.recover()
    new = claim_one(store.join())
    assert new.id == old.id and new.token > old.token
    return sleeper, old, new


WRITES: dict[str, Callable[[Holder, Lease], object]] = {
    "beat": lambda holder, lease: holder.beat(),
    "checkpoint": lambda holder, lease: holder.checkpoint(lease, done=1, total=2, position=1),
    "complete": lambda holder, lease: holder.complete(lease, "stale"),
    "fail": lambda holder, lease: holder.fail(lease, BOOM),
    "retry": lambda holder, lease: holder.retry_later(lease, BOOM, timedelta(0)),
    "cancel": lambda holder, lease: holder.cancel(lease),
    "advance": lambda holder, lease: holder.advance(lease, "next", "stale"),
    "release": lambda holder, lease: holder.release(lease),
    "output": lambda holder, lease: holder.put_output(lease, "stale", name="x"),
    "phase output": lambda holder, lease: holder.put_output(lease, "stale", next_phase="next"),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_stale_holder_is_refused_with_lease_lost(
    store: Store, zombie: tuple[Holder, Lease, Lease], write: str
) -> None:
    """I-5: each write is tried, each is refused, nothing changes."""
    sleeper, old, new = zombie
    before = _everything(store, old.id)
    with pytest.raises(LeaseLost):
        WRITES[write](sleeper, old)
    assert _everything(store, old.id) == before
    other = store.join()
    assert other.complete(new, "fresh") is Verdict.RECORDED
    assert store.jobs.get(old.id).result == "fresh"


@pytest.mark.parametrize("last", ["complete", "advance", "checkpoint", "nothing"])
def test_a_stale_effect_is_rolled_back(store: Store, zombie: tuple[Holder, Lease, Lease], last: str) -> None:
    """I-5: the fence is the last statement of the effect transaction."""
    sleeper, old, _ = zombie
    with store.db.effect(5) as tx:
        tx.connection.execute("CREATE TABLE effects (n integer)")
    before = _everything(store, old.id)
    with pytest.raises(LeaseLost), sleeper.transaction(old) as effect:
        effect.connection.execute("INSERT INTO effects VALUES (1)")
        if last == "complete":
            effect.complete("stale")
        elif last == "advance":
            effect.advance("next")
        elif last == "checkpoint":
            effect.checkpoint(done=1)
    assert _everything(store, old.id) == before
    with store.db.effect(5) as tx:
        assert tx.connection.execute("SELECT count(*) FROM effects").fetchone()[0] == 0


def test_a_stale_start_is_not_noted(zombie: tuple[Holder, Lease, Lease]) -> None:
    sleeper, old, _ = zombie
    assert sleeper.start([old]) == set()


def test_a_batch_of_stale_outcomes_is_lost_one_by_one(
    zombie: tuple[Holder, Lease, Lease], store: Store
) -> None:
    sleeper, old, _ = zombie
    for outcome in (
        Completed(old),
        Failed(old, BOOM),
        Retried(old, BOOM, timedelta(0)),
        Advanced(old, "next"),
        Cancelled(old),
        Released(old),
    ):
        assert sleeper.record([outcome]) == [Verdict.LOST]


def test_a_stale_holder_is_lost_even_after_the_job_ended(
    store: Store, zombie: tuple[Holder, Lease, Lease]
) -> None:
    """The new holder's end is not the old holder's."""
    sleeper, old, new = zombie
    store.join().complete(new, "fresh")
    assert sleeper.record([Completed(old, "stale")]) == [Verdict.LOST]
    assert store.jobs.get(old.id).result == "fresh"


def test_an_end_decided_by_recovery_is_not_taken_for_the_holders_own(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """A job failed by recovery for its dead holder: that holder's late finish is lost, not "already recorded"."""
    job_id = one(store, max_attempts=1)
    sleeper = opened().join(lease=LEASE)
    lease = claim_one(sleeper)
    clock.advance(LEASE + timedelta(seconds=1))
    assert [item.verdict for item in store.recovery.recover()] == ["failed"]
    assert sleeper.record([Completed(lease)]) == [Verdict.LOST]
    assert store.jobs.get(job_id).state == "failed"


def _everything(store: Store, job_id: str) -> tuple[Job, object, object]:
    return store.jobs.get(job_id), store.jobs.attempts(job_id), store.phases.counts()
