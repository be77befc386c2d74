"""The doctor on both databases: each finding provoked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.servers.plugin import FreshPostgres
from tests.servers.pooler import Pooler
from tests.waiting import eventually
from windlass import App
from windlass.config import Config, from_code
from windlass.control.actor import OPERATOR
from windlass.control.doctor.doctor import examine
from windlass.control.doctor.findings import Diagnosis, Severity
from windlass.control.doctor.tables import Thresholds
from windlass.errors import NotAllowedError
from windlass.features import Store, open_store
from windlass.model import NewJob
from windlass.model.principal import Principal
from windlass.store.postgres.inspection import CLOCK


@pytest.fixture(params=["sqlite", "postgresql"])
def url(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, fresh_sqlite: Callable[[], str]
) -> str:
    return fresh_sqlite() if request.param == "sqlite" else fresh_postgres()


def config(url: str, **more: object) -> Config:
    return from_code({"database.url": url, **{key.replace("__", "."): value for key, value in more.items()}})


def look(url: str, limits: Thresholds | None = None, **more: Any) -> Diagnosis:
    return examine(url, config(url, **more), limits=limits or Thresholds(), environ={})


def codes(found: Diagnosis) -> dict[str, Severity]:
    assert all(one.sentence and one.cure for one in found.findings)
    return {one.code: one.severity for one in found.findings}


def test_a_good_system_has_no_finding(url: str) -> None:
    found = look(url)
    assert codes(found) == {}
    assert found.is_good and found.is_reachable


def test_a_phase_with_jobs_and_no_instance(url: str) -> None:
    with open_store(url) as store:
        store.enqueue([NewJob(kind="report"), NewJob(kind="later", delay=timedelta(hours=1))])
        assert {one.code for one in look(url).findings} == {"phase.unserved"}
        severities = {one.sentence.split()[2]: one.severity for one in look(url).findings}
        assert severities == {"report": Severity.ERROR, "later": Severity.WARNING}
        holder = store.join(info={"phases": ["report", "later"]})
        assert codes(look(url)) == {}
        holder.leave()
        store.phases.pause("report", "a pause")
        assert codes(look(url))["phase.paused"] is Severity.NOTE


def test_a_lease_that_ran_out_and_jobs_of_a_dead_instance(url: str) -> None:
    with open_store(url) as store:
        store.enqueue([NewJob(kind="report")])
        holder = store.join(lease=timedelta(seconds=60), info={"phases": ["report"], "host": "h", "pid": 7})
        assert holder.claim("report", limit=1)
        _age(url, "heartbeat_at")
        found = [one for one in look(url).findings if one.code == "lease.expired"]
        assert found[0].severity is Severity.ERROR, "no other instance lives"
        assert "(h, process 7)" in found[0].sentence and "1 claims" in found[0].sentence
        store.db.run("recover.declare_dead", own=None)
        _age(url, "dead_at")
        assert codes(look(url))["recovery.due"] is Severity.ERROR


def _age(url: str, column: str) -> None:
    """Move a time of the one instance two minutes back."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(f"UPDATE windlass_instance SET {column} = {column} - 120000000")
        connection.close()
    else:
        with psycopg.connect(url) as postgres:
            postgres.execute(
                f"UPDATE windlass.instance SET {column} = {column} - interval '2 minutes'".encode()
            )


def test_a_database_without_tables_and_one_that_is_away(
    postgres_empty_dsn: str, tmp_path: Path, own_postgres: Callable
) -> None:
    assert codes(look(postgres_empty_dsn)) == {"schema.pending": Severity.ERROR}
    missing = f"sqlite:///{tmp_path}/none.db"
    assert codes(look(missing)) == {"schema.pending": Severity.ERROR}
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("this is no database, and long enough to be read as one. " * 20)
    assert codes(look(f"sqlite:///{tmp_path}/text.db")) == {"store.error": Severity.ERROR}
    away = look("postgresql://u:secret@127.0.0.1:1/none")
    assert codes(away) == {"store.unreachable": Severity.ERROR}
    assert not away.is_reachable
    assert "secret" not in json.dumps([dict(one.record) for one in away.findings])


@pytest.mark.owner
def test_tables_that_differ_from_the_migrations(url: str) -> None:
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute("DROP TABLE windlass_board")
        connection.close()
    else:
        with psycopg.connect(url) as postgres:
            postgres.execute("DROP TABLE windlass.board")
    found = look(url)
    assert codes(found) == {"schema.drift": Severity.ERROR}
    assert "board" in found.findings[0].sentence and "column" not in found.findings[0].sentence


def test_a_migration_with_another_text_and_one_of_a_later_release(url: str) -> None:
    def change(sqlite_text: str, postgres_text: str) -> None:
        if url.startswith("sqlite"):
            with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
                connection.execute(sqlite_text)
            connection.close()
        else:
            with psycopg.connect(url) as postgres:
                postgres.execute(postgres_text.encode())

    later = "(version, name, checksum) VALUES (9999, 'later', 'x')"
    change(f"INSERT INTO windlass_migration {later}", f"INSERT INTO windlass.migration {later}")
    assert codes(look(url)) == {"schema.newer": Severity.NOTE}
    assert look(url).is_good
    text = "SET checksum = 'other' WHERE version = 1"
    change(f"UPDATE windlass_migration {text}", f"UPDATE windlass.migration {text}")
    assert codes(look(url)) == {"schema.changed": Severity.ERROR}


@pytest.mark.owner
def test_bloat_of_postgresql(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE windlass.job SET (autovacuum_enabled = off)")
        with open_store(postgres_dsn) as store:
            store.enqueue([NewJob(kind="report") for _ in range(200)])
        with connection.transaction():
            connection.execute("DELETE FROM windlass.job")
            connection.execute("DELETE FROM windlass.delta")
        limits = Thresholds(dead_rows=100)
        found = eventually(
            lambda: [one for one in look(postgres_dsn, limits).findings if one.code == "bloat"]
        )
        assert found[0].severity is Severity.WARNING and "windlass.job " in found[0].sentence
        with connection.transaction():
            connection.execute("SELECT txid_current()")
            old = look(postgres_dsn, Thresholds(transaction=0.0))
        assert codes(old)["transaction.old"] is Severity.WARNING


@pytest.mark.owner
def test_an_index_that_is_not_valid(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO windlass.delta (phase) VALUES ('a'), ('a')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("CREATE UNIQUE INDEX CONCURRENTLY twice ON windlass.delta (phase)")
        found = look(postgres_dsn)
        assert codes(found) == {"schema.invalid_index": Severity.WARNING}
        assert found.findings[0].cure == "REINDEX INDEX CONCURRENTLY windlass.twice;"


def test_autovacuum_that_is_off(own_postgres: Callable) -> None:
    server = own_postgres(durable=False, settings={"autovacuum": "off"})
    with open_store(server.dsn(), auto_migrate=True):
        pass
    assert codes(look(server.dsn())) == {"bloat.autovacuum": Severity.WARNING}


@pytest.mark.owner
def test_partitions_that_are_missing_or_too_many(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.model.history.MANY", 3)
    assert codes(look(postgres_dsn)) == {"history.partitions": Severity.WARNING}
    monkeypatch.undo()
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid "
            "WHERE i.inhparent = 'windlass.job_done'::regclass ORDER BY 1 DESC"
        ).fetchall()
        for (name,) in rows[:3]:
            connection.execute(f"DROP TABLE windlass.{name}".encode())
        assert codes(look(postgres_dsn)) == {"history.ahead": Severity.WARNING}
        for (name,) in rows[3:]:
            connection.execute(f"DROP TABLE windlass.{name}".encode())
        assert codes(look(postgres_dsn)) == {"history.ahead": Severity.ERROR}


def test_bloat_of_sqlite(fresh_sqlite: Callable[[], str]) -> None:
    url = fresh_sqlite()
    with open_store(url) as store:
        store.enqueue([NewJob(kind="report", args={"text": "x" * 2000}) for _ in range(300)])
        store.db.run("board.sweep")
        path = url.removeprefix("sqlite:///")
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM windlass_job")
        connection.close()
        found = codes(look(url, Thresholds(free_bytes=1000, log_bytes=1000)))
        assert found["bloat.file"] is Severity.NOTE
        assert found["bloat.log"] is Severity.WARNING


def test_clocks_that_differ(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = psycopg.Connection.execute

    def execute(self: psycopg.Connection, query: Any, *args: Any, **kwargs: Any) -> object:
        if query == CLOCK:
            query = CLOCK.replace("clock_timestamp()", f"clock_timestamp() + interval '{seconds} seconds'")
        return real(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    seconds = 10
    found = look(postgres_dsn)
    assert codes(found) == {"clock": Severity.WARNING}
    assert "s ahead of" in found.findings[0].sentence
    seconds = -90
    found = look(postgres_dsn)
    assert codes(found) == {"clock": Severity.ERROR}
    assert "s behind" in found.findings[0].sentence


@pytest.fixture
def pooler(postgres_dsn: str) -> Iterator[Callable[[str], str]]:
    made: list[Pooler] = []

    def start(mode: str) -> str:
        made.append(Pooler(postgres_dsn, mode))
        return made[-1].url

    yield start
    for one in made:
        one.close()


def test_poolers(postgres_dsn: str, pooler: Callable[[str], str]) -> None:
    transaction = pooler("transaction")
    assert codes(look(transaction)) == {"pooler.transaction": Severity.ERROR}
    pooled: dict[str, Any] = {"database__pooled": True}
    assert codes(look(transaction, **pooled)) == {"pooler.no_direct_url": Severity.WARNING}
    assert codes(look(transaction, **pooled, database__direct_url=postgres_dsn)) == {}
    wrong = look(transaction, **pooled, database__direct_url=transaction)
    assert codes(wrong) == {"pooler.direct_url": Severity.ERROR}
    assert codes(look(pooler("session"))) == {"pooler.session": Severity.NOTE}
    unneeded = look(postgres_dsn, **pooled, database__direct_url=postgres_dsn)
    assert codes(unneeded) == {"pooler.none": Severity.NOTE}


def test_redis(fresh_sqlite: Callable[[], str], valkey_url: str) -> None:
    url = fresh_sqlite()
    assert codes(look(url, redis__url=valkey_url)) == {}
    away = "redis://:secret@127.0.0.1:1/0"
    found = look(url, redis__url=away)
    assert codes(found) == {"redis.unreachable": Severity.WARNING}
    assert "secret" not in found.findings[0].sentence
    required: dict[str, Any] = {"background__redis_lock_required": True}
    assert codes(look(url, redis__url=away, **required)) == {"redis.unreachable": Severity.ERROR}
    assert codes(look(url, **required)) == {"redis.missing": Severity.ERROR}


def test_settings(fresh_sqlite: Callable[[], str]) -> None:
    url = fresh_sqlite()
    direct: dict[str, Any] = {"database__direct_url": "postgresql://u@127.0.0.1/jobs"}
    assert codes(look(url, **direct)) == {"settings.invalid": Severity.ERROR}
    assert codes(look(url, database__pooled=True)) == {"settings.pooled": Severity.WARNING}
    ignored = examine(url, config(url), environ={"WINDLASS_SOMETHING_ELSE": "1"})
    assert codes(ignored) == {"settings.ignored": Severity.NOTE}
    assert ignored.is_good


def test_the_control_service_examines_for_people_who_see_everything(store: Store) -> None:
    with App(store=store) as app:
        assert app.doctor.examine().is_reachable
        tenant = Principal("olga", tenant="acme", roles=frozenset({OPERATOR}))
        with pytest.raises(NotAllowedError):
            app.acting_as(tenant).doctor.examine()
