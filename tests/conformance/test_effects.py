"""Transactions of handlers: they end with the job's outcome and in no other way, and their errors stay the handler's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import psycopg
import pytest

from tests.conformance.life import claim_one, one, state
from windlass.clock import ManualClock
from windlass.errors import ConfigError, StoreError
from windlass.features import Store, open_store
from windlass.model import State, Verdict


@pytest.mark.parametrize("way", ["commit", "with", "script", "sql"])
def test_a_handler_cannot_end_its_transaction_behind_the_fence(
    store: Store, opened: Callable[[], Store], clock: ManualClock, way: str
) -> None:
    """Its job's end belongs to that commit: on SQLite a stale holder's effect stayed, although it was told LeaseLost."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    with store.db.effect(5) as tx:
        tx.connection.execute("CREATE TABLE effects (n integer)")
    is_sqlite = store.db.dialect == "sqlite"
    with pytest.raises((StoreError, psycopg.Error)), holder.transaction(lease) as tx:
        tx.connection.execute("INSERT INTO effects VALUES (1)")
        tx.complete()
        match way:
            case "commit":
                tx.connection.commit()
            case "with" if is_sqlite:
                with tx.connection:
                    pass
            case "script" if is_sqlite:
                tx.connection.executescript("SELECT 1;")
            case _:
                tx.connection.execute("COMMIT")
    assert state(store, job_id) is State.PROCESSING


def test_a_handlers_own_errors_stay_its_own(store: Store) -> None:
    one(store)
    holder = store.join()
    lease = claim_one(holder)
    with (
        pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable)),
        holder.transaction(lease) as tx,
    ):
        tx.connection.execute("SELECT * FROM no_such_table_of_mine")
    assert holder.complete(lease) is Verdict.RECORDED


def test_a_chunk_that_was_committed_before_is_not_committed_again(store: Store) -> None:
    """Repeated after an unknown commit, the same checkpoint would carry the same effects twice."""
    one(store)
    holder = store.join()
    lease = claim_one(holder)
    with holder.transaction(lease) as tx:
        tx.checkpoint(done=10, total=20)
    with pytest.raises(ConfigError, match="never goes back"), holder.transaction(lease) as tx:
        tx.checkpoint(done=10, total=20)
    holder.checkpoint(lease, done=10, total=20)


@pytest.mark.owner
def test_a_missing_partition_heals_inside_an_effect_too(postgres_dsn: str) -> None:
    with open_store(postgres_dsn) as store:
        one(store)
        holder = store.join()
        lease = claim_one(holder)
        with psycopg.connect(postgres_dsn, autocommit=True) as admin:
            admin.execute("CREATE TABLE effects (n integer)")
            names = admin.execute(
                "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
                "WHERE i.inhparent = 'windlass.job_done'::regclass"
            ).fetchall()
            for (name,) in names:
                admin.execute(f"DROP TABLE windlass.{name}")
        with holder.transaction(lease) as tx:
            tx.connection.execute("INSERT INTO effects VALUES (1)")
            tx.complete("healed")
        assert store.jobs.get(lease.id).result == "healed"
