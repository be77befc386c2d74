"""A child is stored while its parent is being pruned: it reads the parent's result, or finds that the parent is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.interleavings.sessions import Open, Waiting, claim, enqueue, until_blocked
from tests.interleavings.slow_ends import slowly
from tests.interleavings.test_partitions import OLD, make_old_history
from windlass.dependencies.parents import ParentReader
from windlass.features import Store
from windlass.model import After, Json, Retention, State, StoredParent
from windlass.store.jobs.pruning import Pruning
from windlass.store.postgres import partitions, transaction
from windlass.store.postgres.database import PostgresDatabase

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("patient_removals")]

NOW = Retention(completed=timedelta(0), failed=None, cancelled=None)
PAUSE = 0x7061757365
"""The advisory lock that a paused statement waits for."""


def child_of(store: Store, parent: str) -> str:
    return enqueue(store, kind="child", after=[After(parent)])[0]


def parent_of(store: Store, child: str) -> StoredParent:
    (parent,) = ParentReader(store.db).page(child).parents
    return parent


def completed(store: Store) -> str:
    enqueue(store)
    holder = store.join()
    (lease,) = claim(holder)
    holder.complete(lease, Json('{"pages": 7}'))
    return lease.id


# ------------------------------------------------------------------------------------------------------------ row by row


@contextmanager
def page_paused_behind_its_snapshot(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, ``prune.page`` has a snapshot and no row lock."""
    ((text, names),) = transaction.STATEMENTS["prune.page"]
    paused = text.replace(
        b"FROM windlass.job_done AS d",
        b"FROM (SELECT pg_advisory_xact_lock_shared(%d) OFFSET 0) AS pause CROSS JOIN windlass.job_done AS d"
        % PAUSE,
        1,
    ).replace(b"FOR UPDATE", b"FOR UPDATE OF d")
    monkeypatch.setitem(transaction.STATEMENTS, "prune.page", [(paused, names)])
    with psycopg.connect(dsn) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (PAUSE,))
        yield
        other.rollback()


def test_a_child_that_is_linked_while_a_page_is_found_reads_its_parent(
    postgres_dsn_every: str, stores: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's condition is that of its snapshot, which is older than its locks: it is checked again under the locks."""
    store = stores(postgres_dsn_every)
    parent, other = completed(store), completed(store)
    with page_paused_behind_its_snapshot(postgres_dsn_every, monkeypatch):
        pruning = Waiting(lambda: store.upkeep.prune(NOW))
        until_blocked(postgres_dsn_every, pruning)
        child = child_of(store, parent)
        assert store.dependencies.link() == 1
        assert claim(store.join(), 1, "child")[0].id == child
    assert pruning.result() == 1, f"{other} alone"
    found = parent_of(store, child)
    assert (found.is_gone, found.result) == (False, Json('{"pages": 7}'))


def test_a_child_that_is_stored_after_the_check_finds_its_parent_gone(
    postgres_dsn: str, stores: Open
) -> None:
    """It is linked to no row that is about to go: the linker passes over the locked row, and the child is cancelled once that is gone."""
    store = stores(postgres_dsn)
    parent = completed(store)
    with slowly(postgres_dsn, lambda db: Pruning(db, NOW).step()):
        child = child_of(store, parent)
        assert store.dependencies.link() == 0
        assert store.jobs.get(child).state is State.WAITING
    assert store.dependencies.link() == 1
    assert store.jobs.get(child).state is State.CANCELLED
    assert parent_of(store, child).is_gone


# ------------------------------------------------------------------------------------------------------------ whole days


@contextmanager
def locked(dsn: str, table: str) -> Iterator[None]:
    """Inside, nobody else changes the table's definition; its rows are read and written as ever."""
    with psycopg.connect(dsn) as other:
        other.execute(f"LOCK TABLE ONLY windlass.{table} IN SHARE UPDATE EXCLUSIVE MODE")
        yield
        other.rollback()


def old_day(dsn: str) -> str:
    """A day of completed jobs past their retention, without the empty day before it, which would be the first to go."""
    name = make_old_history(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        partitions.drop_before(connection, datetime.now(UTC) - OLD / 2, only_empty=True)
    return name


def job_of(dsn: str, partition: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(f"SELECT id::text FROM windlass.{partition} LIMIT 1").fetchone()
    assert row is not None
    return str(row[0])


def comment_of(dsn: str, partition: str) -> str | None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT obj_description(%s::regclass, 'pg_class')", (f"windlass.{partition}",)
        ).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def drop_old(store: Store) -> int:
    assert isinstance(store.db, PostgresDatabase)
    return store.db.drop_history(Retention(completed=OLD / 2, failed=OLD / 2, cancelled=OLD / 2))


def test_a_day_stays_that_a_child_came_to_need_before_its_mark(postgres_dsn: str, stores: Open) -> None:
    store = stores(postgres_dsn)
    old = old_day(postgres_dsn)
    parent = job_of(postgres_dsn, old)
    with locked(postgres_dsn, old):
        dropping = Waiting(lambda: drop_old(store))
        until_blocked(postgres_dsn, dropping)
        child = child_of(store, parent)
        assert store.dependencies.link() == 1
    assert dropping.result() == 0
    assert not parent_of(store, child).is_gone
    assert comment_of(postgres_dsn, old) is None, "the mark is removed"
    holder = store.join()
    holder.complete(claim(holder, 1, "child")[0])
    assert drop_old(store) == 3


def test_no_child_is_linked_to_a_day_that_is_about_to_go(postgres_dsn_every: str, stores: Open) -> None:
    """Its child is cancelled once the day is gone; children of other days are linked meanwhile, whatever comment these have."""
    store = stores(postgres_dsn_every)
    old = old_day(postgres_dsn_every)
    parent, recent = job_of(postgres_dsn_every, old), completed(store)
    with psycopg.connect(postgres_dsn_every, autocommit=True) as admin:
        today = partitions.name_of(datetime.now(UTC).date())
        for name in {today, *partitions.attached(admin)} - {old}:
            admin.execute(f"COMMENT ON TABLE windlass.{name} IS 'ours'")
    with locked(postgres_dsn_every, "job_done"):
        dropping = Waiting(lambda: drop_old(store))
        until_blocked(postgres_dsn_every, dropping)
        child, other = child_of(store, parent), child_of(store, recent)
        assert store.dependencies.link() == 1
        assert [store.jobs.get(job).state for job in (child, other)] == [State.WAITING, State.QUEUED]
    assert dropping.result() == 3
    assert store.dependencies.link() == 1
    assert store.jobs.get(child).state is State.CANCELLED


def test_a_day_whose_removal_was_given_up_is_linked_to_again(postgres_dsn: str, stores: Open) -> None:
    store = stores(postgres_dsn)
    old = old_day(postgres_dsn)
    with psycopg.connect(postgres_dsn, autocommit=True) as upkeep:
        upkeep.execute("SET lock_timeout = '500ms'")
        with locked(postgres_dsn, "job_done"):
            assert partitions.drop_before(upkeep, datetime.now(UTC) - OLD / 2) == {}
        child = child_of(store, job_of(postgres_dsn, old))
        assert store.dependencies.link() == 1 and not parent_of(store, child).is_gone


@pytest.mark.parametrize("way", ["maintain", "prune"])
def test_the_mark_of_a_killed_removal_is_taken_off(postgres_dsn: str, stores: Open, way: str) -> None:
    """Else the children of that day would wait for ever where nobody prunes whole days any more."""
    store = stores(postgres_dsn)
    old = old_day(postgres_dsn)
    with psycopg.connect(postgres_dsn, autocommit=True) as killed:
        killed.execute(f"COMMENT ON TABLE windlass.{old} IS '{partitions.LEAVING}'")
        killed.execute("SELECT pg_advisory_lock(%s)", (partitions.REMOVING,))
        child = child_of(store, job_of(postgres_dsn, old))
        store.upkeep.maintain()
        assert store.dependencies.link() == 0, "the removal is still under way"
        killed.execute(
            "SELECT pg_advisory_unlock_all()"
        )  # as the end of its session does, some time after the kill
    if way == "maintain":
        store.upkeep.maintain()
    else:
        assert drop_old(store) == 0
    assert store.dependencies.link() == 1 and not parent_of(store, child).is_gone
