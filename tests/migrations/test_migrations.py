"""Migrations: numbered, one migrator at a time, never queueing others behind a lock."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from tests.waiting import PATIENCE
from windlass.errors import StoreError
from windlass.features import open_store
from windlass.model import NewJob
from windlass.store.ids import new_id
from windlass.store.migrate import migrate, status
from windlass.store.postgres.migrate import migrate_postgres
from windlass.store.schema.migrations import NO_TRANSACTION, Migration, available
from windlass.store.sqlite.migrate import migrate_sqlite

pytestmark = pytest.mark.timing

LATEST = available("postgres")[-1].version
NEXT = Migration(LATEST + 1, "next", "ALTER TABLE windlass.job ADD COLUMN colour text;\n")
AFTER_NEXT = Migration(
    LATEST + 2,
    "after_next",
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
        assert not now.pending and now.version == LATEST
    assert not (tmp_path / "asked.db").exists()
    status(f"sqlite:///{tmp_path}/asked.db")
    assert not (tmp_path / "asked.db").exists(), "asking creates nothing"


def test_ten_migrators_at_once_apply_each_migration_once(postgres_empty_dsn: str, tmp_path: Path) -> None:
    for url in (postgres_empty_dsn, f"sqlite:///{tmp_path}/new.db"):
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(migrate, [url] * 10))
        names = [name for answer in answers for name in answer]
        assert sorted(names) == sorted(step.name for step in available("sqlite"))


def test_later_migrations_run_on_a_database_in_use(postgres_dsn: str) -> None:
    """I-34: the release that does not know the newest version still works on the new schema."""
    steps = (*available("postgres"), NEXT, AFTER_NEXT)
    with open_store(postgres_dsn) as store:
        store.enqueue([NewJob(kind="work")])
        assert migrate_postgres(postgres_dsn, migrations=steps) == ["next", "after_next"]
        assert migrate_postgres(postgres_dsn, migrations=steps) == []
        holder = store.join()
        store.enqueue([NewJob(kind="work")])
        assert len(holder.claim("work", 5)) == 2
    with open_store(postgres_dsn) as store:
        assert store.enqueue([NewJob(kind="work")])[0].created


def test_history_of_the_first_version_is_read_by_this_one(postgres_empty_dsn: str, tmp_path: Path) -> None:
    """What later versions write beside it is unknown there, and said to be."""
    sqlite_url = f"sqlite:///{tmp_path}/old.db"
    migrate_postgres(postgres_empty_dsn, migrations=available("postgres")[:1])
    migrate_sqlite(sqlite_url, migrations=available("sqlite")[:1])
    job_id, at = new_id(), datetime.now(UTC)
    done = (
        "INSERT INTO {}job_done (id, created_at, finished_at, claimed_at, token, lane, generation, attempt, crashes, "
        "max_attempts, flags, state, kind, phase, args) "
        "VALUES ('{}', {at}, {at}, {at}, 2, 4, 1, 1, 0, 3, 0, 'completed', 'work', 'b', '{{}}')"
    )
    tried = (
        "INSERT INTO {}attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase) "
        "VALUES ('{}', 1, {at}, {at}, 1, 1, 'advanced', 'a')"
    )
    with psycopg.connect(postgres_empty_dsn) as postgres, sqlite3.connect(tmp_path / "old.db") as sqlite:
        for text in (done, tried):
            postgres.execute(text.format("windlass.", job_id, at=f"'{at.isoformat()}'").encode())
            sqlite.execute(text.format("windlass_", job_id, at=int(at.timestamp() * 1_000_000)))
    sqlite.close()
    for url in (postgres_empty_dsn, sqlite_url):
        assert migrate(url) == [step.name for step in available("sqlite")[1:]]
        with open_store(url) as store:
            spans = store.jobs.timeline(job_id)
            assert [(span.phase, span.outcome) for span in spans] == [("a", "advanced"), ("b", "completed")]
            assert {(span.instance, span.processor, span.ran) for span in spans} == {(None, None, None)}
            assert all(span.started_at == span.claimed_at for span in spans)
            assert store.jobs.retry(job_id).generation == 2


def test_a_long_transaction_delays_the_migration_and_nobody_else(postgres_dsn: str) -> None:
    """lock_timeout: while the migrator waits for its turn, enqueues go on; behind one that waited for the report they would for ever."""
    steps = (*available("postgres"), NEXT)
    with psycopg.connect(postgres_dsn) as report, open_store(postgres_dsn) as store:
        report.execute("SELECT count(*) FROM windlass.job")
        migrator = threading.Thread(
            target=migrate_postgres, args=(postgres_dsn,), kwargs={"migrations": steps}
        )
        migrator.start()
        until = time.monotonic() + 3
        while time.monotonic() < until:
            store.enqueue([NewJob(kind="work")])
        assert migrator.is_alive()
        report.rollback()
        migrator.join(PATIENCE)
    assert migrate_postgres(postgres_dsn, migrations=steps) == []


def test_a_migration_that_never_gets_its_lock_gives_up_and_says_so(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as report:
        report.execute("SELECT count(*) FROM windlass.job")
        with pytest.raises(StoreError, match="pg_stat_activity"):
            migrate_postgres(postgres_dsn, patience=0.1, migrations=(*available("postgres"), NEXT))
        report.rollback()
    assert status(postgres_dsn).version == LATEST


def test_a_migration_that_fails_leaves_nothing_behind(postgres_dsn: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    migrate(url)
    broken = Migration(
        LATEST + 1, "broken", "CREATE TABLE windlass_x (n INTEGER);\nCREATE TABLE windlass_x (n INTEGER);\n"
    )
    with pytest.raises(StoreError):
        migrate_sqlite(url, migrations=(*available("sqlite"), broken))
    mended = Migration(LATEST + 1, "broken", "CREATE TABLE windlass_x (n INTEGER);\n")
    assert migrate_sqlite(url, migrations=(*available("sqlite"), mended)) == ["broken"]
    broken = Migration(
        LATEST + 1, "broken", "CREATE TABLE windlass.x (n int);\nCREATE TABLE windlass.x (n int);\n"
    )
    with pytest.raises(StoreError):
        migrate_postgres(postgres_dsn, migrations=(*available("postgres"), broken))
    mended = Migration(LATEST + 1, "broken", "CREATE TABLE windlass.x (n int);\n")
    assert migrate_postgres(postgres_dsn, migrations=(*available("postgres"), mended)) == ["broken"]


def test_history_has_partitions_ahead_of_time(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        rows = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'windlass.job_done'::regclass"
        ).fetchone()
    assert rows is not None and rows[0] >= 9
