"""Instances that die, and what they claimed."""

from __future__ import annotations

from datetime import timedelta

from tests.conformance.life import LEASE
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import Recovered
from windlass.store.jobs.recovery import DEATH_CAP, LONGEST_WAIT

LATER = LEASE + timedelta(milliseconds=1)


def die(
    store: Store,
    clock: ManualClock,
    phase: str = "work",
    *,
    entered: bool = True,
    orphan: bool = False,
    death_cap: int = DEATH_CAP,
) -> Recovered:
    """An instance claims the one job, enters its handler (or not) and dies; what recovery makes of it, once that is due. As an ``orphan``
    the job is found by the sweep."""
    holder = store.join(lease=LEASE)
    (lease,) = holder.claim(phase, 1, starting=0)
    if entered:
        holder.start([lease])
    if orphan:
        with store.db.effect(5) as tx:
            prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
            tx.connection.execute(f"DELETE FROM {prefix}claim WHERE token = {lease.token}")
    clock.advance(LATER)
    recover = store.recovery.sweep_orphans if orphan else store.recovery.recover
    (item,) = recover(death_cap=death_cap)
    clock.advance(2 * LONGEST_WAIT)
    store.upkeep.promote()
    return item
