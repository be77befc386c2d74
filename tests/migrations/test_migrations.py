"""Migrations: numbered, one migrator at a time, never queueing others behind a lock."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from windlass.errors import StoreError
from windlass.model import NewJob
from windlass.store import open_store
from windlass.store.migrate import migrate, status
from windlass.store.migrations import NO_TRANSACTION, Migration, available
from windlass.store.postgres_migrate import migrate_postgres
from windlass.store.sqlite_migrate import migrate_sqlite

SECOND = Migration(2, "second", "ALTER TABLE windlass.job ADD COLUMN colour text;\n")
THIRD = Migration(
    3,
    "third",
    f"{NO_TRANSACTION}\nCREATE INDEX CONCURRENTLY IF NOT EXISTS job_colour ON windlass.job_later (kind);\nSELECT 1;\n",
)


def test_both_dialects_have_the_same_versions() -> None:
    names = [[(step.version, step.name) for step in available(dialect)] for dialect in ("postgres", "sqlite")]
    assert names[0] == names[1]


def test_a_database_is_brought_up_to_date_once(postgres_empty_dsn: str, tmp_path: Path) -> None:
    for url in (postgres_empty_dsn, f"sqlite:///{tmp_path}/new.db"):
        assert status(url).version == 0 and len(status(url).pending) == len(available("sqlite"))
        assert migrate(url) == [step.name for step in available("sqlite")]
        assert migrate(url) == []
        now = status(url)
        assert not now.pending and now.version == len(available("sqlite"))
    assert not (tmp_path / "asked.db").exists()
    status(f"sqlite:///{tmp_path}/asked.db")
    assert not (tmp_path / "asked.db").exists(), "asking creates nothing"


def test_ten_migrators_at_once_apply_each_migration_once(postgres_empty_dsn: str, tmp_path: Path) -> None:
    for url in (postgres_empty_dsn, f"sqlite:///{tmp_path}/new.db"):
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(migrate, [url] * 10))
        assert sorted(name for answer in answers for name in answer) == [
            step.name for step in available("sqlite")
        ]


def test_later_migrations_run_on_a_database_in_use(postgres_dsn: str) -> None:
    """I-34: the release that knows only the first version still works on the new schema."""
    steps = (*available("postgres"), SECOND, THIRD)
    with open_store(postgres_dsn) as store:
        store.enqueue([NewJob(kind="work")])
        assert migrate_postgres(postgres_dsn, migrations=steps) == ["second", "third"]
        assert migrate_postgres(postgres_dsn, migrations=steps) == []
        holder = store.join()
        store.enqueue([NewJob(kind="work")])
        assert len(holder.claim("work", 5)) == 2
    with open_store(postgres_dsn) as store:
        assert store.enqueue([NewJob(kind="work")])[0].created


def test_a_long_transaction_delays_the_migration_and_nobody_else(postgres_dsn: str) -> None:
    """lock_timeout: while the migrator waits for its turn, enqueues go on within it."""
    steps = (*available("postgres"), SECOND)
    slowest = 0.0
    with psycopg.connect(postgres_dsn) as report, open_store(postgres_dsn) as store:
        report.execute("SELECT count(*) FROM windlass.job")
        migrator = threading.Thread(
            target=migrate_postgres, args=(postgres_dsn,), kwargs={"migrations": steps}
        )
        migrator.start()
        until = time.monotonic() + 3
        while time.monotonic() < until:
            began = time.monotonic()
            store.enqueue([NewJob(kind="work")])
            slowest = max(slowest, time.monotonic() - began)
        assert migrator.is_alive()
        report.rollback()
        migrator.join(30)
    assert slowest < 2.5, "an enqueue waited longer than the migrator's lock_timeout"
    assert migrate_postgres(postgres_dsn, migrations=steps) == []


def test_a_migration_that_never_gets_its_lock_gives_up_and_says_so(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as report:
        report.execute("SELECT count(*) FROM windlass.job")
        with pytest.raises(StoreError, match="pg_stat_activity"):
            migrate_postgres(postgres_dsn, patience=0.1, migrations=(*available("postgres"), SECOND))
        report.rollback()
    assert [version for version, _ in status(postgres_dsn).applied] == [1]


def test_a_migration_that_fails_leaves_nothing_behind(postgres_dsn: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    migrate(url)
    broken = Migration(
        2, "broken", "CREATE TABLE windlass_x (n INTEGER);\nCREATE TABLE windlass_x (n INTEGER);\n"
    )
    with pytest.raises(StoreError):
        migrate_sqlite(url, migrations=(*available("sqlite"), broken))
    mended = Migration(2, "broken", "CREATE TABLE windlass_x (n INTEGER);\n")
    assert migrate_sqlite(url, migrations=(*available("sqlite"), mended)) == ["broken"]
    broken = Migration(2, "broken", "CREATE TABLE windlass.x (n int);\nCREATE TABLE windlass.x (n int);\n")
    with pytest.raises(StoreError):
        migrate_postgres(postgres_dsn, migrations=(*available("postgres"), broken))
    mended = Migration(2, "broken", "CREATE TABLE windlass.x (n int);\n")
    assert migrate_postgres(postgres_dsn, migrations=(*available("postgres"), mended)) == ["broken"]


def test_history_has_partitions_ahead_of_time(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        rows = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'windlass.job_done'::regclass"
        ).fetchone()
    assert rows is not None and rows[0] >= 9
