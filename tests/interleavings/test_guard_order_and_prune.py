"""Two guards that only an unusual plan, or somebody else's lock, can show."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest

from tests.waiting import PATIENCE
from windlass.clock import ManualClock
from windlass.features import open_store
from windlass.model import NewJob, Retention

pytestmark = pytest.mark.timing


def test_the_oldest_is_claimed_first_under_a_plan_that_reads_in_another_order(postgres_dsn: str) -> None:
    """The order is asked for, not left to the index that happens to give it."""
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        for setting in ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"):
            admin.execute(f"ALTER DATABASE {admin.info.dbname} SET {setting} = off")
    clock = ManualClock()
    with open_store(postgres_dsn, clock=clock) as store:
        store.upkeep.maintain()
        clock.advance(60)
        younger = [store.enqueue([NewJob(kind="work")])[0].id for _ in range(3)]
        clock.advance(-30)
        older = store.enqueue([NewJob(kind="work")])[0].id
        clock.advance(60)
        holder = store.join()
        assert [lease.id for lease in holder.claim("work", 1)] == [older]
        assert [lease.id for lease in holder.claim("work", 5)] == younger


def test_pruning_waits_for_nobody(postgres_dsn: str) -> None:
    """A job that somebody is just retrying by hand is left for the next time."""
    with open_store(postgres_dsn) as store, psycopg.connect(postgres_dsn) as other:
        store.enqueue([NewJob(kind="work") for _ in range(3)])
        holder = store.join()
        leases = holder.claim("work", 3)
        for lease in leases:
            holder.complete(lease)
        other.execute("SELECT id FROM windlass.job_done WHERE id = %s FOR UPDATE", (leases[1].id,))
        removed: list[int] = []
        keep = Retention(completed=timedelta(0), failed=None, cancelled=None)
        pruning = threading.Thread(target=lambda: removed.append(store.upkeep.prune(keep)), daemon=True)
        pruning.start()
        pruning.join(PATIENCE)
        assert removed == [2]
        other.rollback()
        assert store.upkeep.prune(keep) == 1
