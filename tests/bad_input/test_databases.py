"""Databases that cannot be used: a clear WindlassError says what happened and what to do, and nothing is lost."""

from __future__ import annotations

import os
import pwd
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from windlass.app.app import App
from windlass.errors import (
    ConfigError,
    SchemaError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnreachableError,
    WindlassError,
)
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import open_store
from windlass.model import NewJob
from windlass.store.migrate import migrate
from windlass.store.schema.migrations import available
from windlass.urls import database_name, dialect_of, is_readable, shown_url, without_secrets

pytestmark = pytest.mark.timing

BIG = {"text": "x" * 200_000}


@pytest.mark.parametrize(
    "url",
    [
        "mysql://root:secret@localhost/jobs",
        "nonsense",
        "",
        "sqlite:",
        "sqlite://jobs.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "redis://localhost",
    ],
)
def test_an_unknown_url_is_refused_with_the_forms_that_work(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(url)
    assert caught.value.key == "url" and "sqlite:///" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        {"password": "secret"},
        ["postgresql://u:secret@h/d"],
        "secret",
        "postgresql://u:secret more@127.0.0.1:1/d",
        "postgresql://u:secret%zz@127.0.0.1:1/d",
        "postgresql://u:more@secret@127.0.0.1:1/d",
        "postgresql://u:secret/more@127.0.0.1:1/d",
        "postgresql://u@127.0.0.1:1/d?password=secret%zz",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_before_the_driver_quotes_its_password(url: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(url)
    assert "secret" not in f"{caught.value} {caught.value.__cause__!r}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql:///d",
        "postgresql://h",
        "postgresql://u@h/d",
        "postgresql://u:p%40%2F%20x@h:5432/d",
        "postgresql://u:p?#:x@h:5432/d",
        "postgresql://u@h:1,h2:,[::1]:3,[fe80::1]/d?target_session_attrs=any",
        "postgresql://%2Fvar%2Frun/d",
        "postgresql:///d?host=/var/run&options=-c x=y",
        "postgresql://h?user=a@b",
    ],
)
def test_forms_that_the_driver_reads_are_readable(url: str) -> None:
    assert is_readable(url) and dialect_of(url) == "postgres"


def test_a_password_with_quotes_and_spaces_is_not_shown() -> None:
    for url in (
        "redis://:se cr'et@h/0",
        "rediss://u:a/secret@h",
        "postgresql://u:x'secret@h/d",
        "postgresql://h/d?sslpassword=a'secret&x=1",
    ):
        assert "secret" not in shown_url(url) and "cr'et" not in shown_url(url)
    assert shown_url("postgresql://u:p@h/d") == "postgresql://u:***@h/d"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://u:secret@h:5432/shop?sslmode=require", "shop"),
        ("postgresql://u:secret@a,b/caf%C3%A9", "café"),
        ("postgresql://u:secret@h", ""),
        ("sqlite:////var/lib/shop/jobs.db", "jobs.db"),
        ("sqlite:///jobs.db", "jobs.db"),
    ],
)
def test_the_name_of_a_database_has_no_password_and_no_folder(url: str, name: str) -> None:
    assert database_name(url) == name


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(StoreUnreachableError, match="check that it runs") as caught:
        open_store(f"postgresql://me:hush@127.0.0.1:{port}/x", connect_timeout=1)
    assert "hush" not in str(caught.value)


def test_a_wrong_password_and_a_missing_database_are_named(postgres_dsn: str) -> None:
    head, _, name = postgres_dsn.rpartition("/")
    with pytest.raises(StoreUnreachableError, match="does not exist"):
        open_store(f"{head}/no_such_database")
    user, _, rest = head.removeprefix("postgresql://").partition("@")
    with pytest.raises(StoreUnreachableError) as caught:
        open_store(f"postgresql://{user.partition(':')[0]}:wrong-hush@{rest}/{name}")
    assert "wrong-hush" not in str(caught.value)


def test_a_server_that_goes_away_is_unreachable_and_comes_back(
    own_postgres: Callable[..., PostgresServer],
) -> None:
    """Nothing is lost, and the same store goes on when the server is back."""
    server = own_postgres(durable=True)
    migrate(server.dsn())
    with open_store(server.dsn(), connect_timeout=2) as store:
        first = store.enqueue([NewJob(kind="work")])[0]
        server.crash()
        with pytest.raises(StoreUnreachableError):
            store.enqueue([NewJob(kind="work")])
        server.start()
        second = None
        for _ in range(50):
            try:
                second = store.enqueue([NewJob(kind="work")])[0]
                break
            except StoreUnreachableError:
                continue
        assert second is not None
        assert {job.id for job in store.jobs.list().jobs} == {first.id, second.id}


def test_a_database_without_tables_asks_for_the_migration(postgres_empty_dsn: str) -> None:
    with pytest.raises(SchemaError, match="windlass db migrate") as caught:
        open_store(postgres_empty_dsn)
    assert f"the database {without_secrets(postgres_empty_dsn)} has no Windlass tables" in str(caught.value)
    assert (caught.value.found, caught.value.expected) == (None, len(available("postgres")))
    with open_store(postgres_empty_dsn, auto_migrate=True) as store:
        assert store.enqueue([NewJob(kind="work")])[0].created


@pytest.mark.parametrize("is_there", [False, True])
def test_so_does_a_sqlite_file_without_tables_where_none_are_to_be_made(
    tmp_path: Path, is_there: bool
) -> None:
    file = tmp_path / "jobs.db"
    if is_there:
        sqlite3.connect(file).execute("CREATE TABLE mine (id INTEGER)").connection.close()
    url = f"sqlite:///{file}"
    with pytest.raises(SchemaError, match="windlass db migrate") as caught:
        open_store(url, auto_migrate=False)
    assert f"the database {url} has no Windlass tables" in str(caught.value)
    assert (caught.value.found, caught.value.expected) == (None, len(available("sqlite")))
    assert file.exists() is is_there, "asking makes no file"
    migrate(url)
    with open_store(url, auto_migrate=False) as store:
        assert store.enqueue([NewJob(kind="work")])[0].created


def test_a_migration_that_was_changed_after_the_fact_is_refused(store_url: str) -> None:
    migrate(store_url)
    _write(store_url, "UPDATE {p}migration SET checksum = 'other'")
    with pytest.raises(SchemaError, match="0001_start was applied with another text"):
        open_store(store_url)


def test_a_database_of_a_newer_release_still_works(store_url: str) -> None:
    """I-34: version N-1 runs on schema N."""
    migrate(store_url)
    _write(
        store_url, "INSERT INTO {p}migration (version, name, checksum) VALUES (99, 'from_the_future', 'x')"
    )
    with open_store(store_url) as store:
        assert store.enqueue([NewJob(kind="work")])[0].created


def test_a_read_only_postgres_says_so(postgres_dsn: str) -> None:
    with open_store(postgres_dsn) as store:
        kept = store.enqueue([NewJob(kind="work")])[0].id
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {admin.info.dbname} SET default_transaction_read_only = on")
    with open_store(postgres_dsn) as store:
        with pytest.raises(StoreReadOnlyError, match="connect to the primary"):
            store.enqueue([NewJob(kind="work")])
        assert [job.id for job in store.jobs.list().jobs] == [kept]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users reach. ``tmp_path`` is none: each start of pytest closes its parent to them."""
    with tempfile.TemporaryDirectory(prefix="windlass-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("folder_mode", [0o777, 0o555])
def test_a_read_only_sqlite_file_says_so(open_folder: Path, folder_mode: int) -> None:
    """Tried as an ordinary user, because root may write everywhere."""
    path = open_folder / "jobs.db"
    url = f"sqlite:///{path}"
    with open_store(url) as store:
        store.enqueue([NewJob(kind="work")])
    path.chmod(0o444)
    open_folder.chmod(folder_mode)
    try:
        assert (
            _as_ordinary_user(lambda: open_store(url).enqueue([NewJob(kind="work")])) == "StoreReadOnlyError"
        )
    finally:
        open_folder.chmod(0o755)
        path.chmod(0o644)
    with open_store(url) as store:
        assert len(store.jobs.list().jobs) == 1


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachableError, match="does its folder exist"):
        open_store(f"sqlite:///{tmp_path}/missing/jobs.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 100)
    with pytest.raises(StoreError, match="not a SQLite database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text().startswith("Dear Sir")


def test_a_full_sqlite_file_keeps_what_it_has(sqlite_path: Path) -> None:
    """SQLite's own limit on pages gives the very error of a full disk, on any machine."""
    with open_store(f"sqlite:///{sqlite_path}") as store:
        kept = store.enqueue([NewJob(kind="work")])[0].id
        writer = store.db._connections.writer  # type: ignore[attr-defined]
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreFullError, match="nothing of this call was stored"):
            store.enqueue([NewJob(kind="small"), NewJob(kind="big", args=BIG)])
        assert [job.id for job in store.jobs.list().jobs] == [kept]
        writer.execute("PRAGMA max_page_count = 1000000")
        assert store.enqueue([NewJob(kind="big", args=BIG)])[0].created


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 4 MB. Mounting needs root; an ordinary user cannot make a disk full without harm to others. Not below ``tmp_path``,
    for the same reason as ``open_folder``: the server is another user."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root; the full-file test above runs for everybody")
    folder = Path(tempfile.mkdtemp(prefix="windlass-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=777", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


def test_a_full_disk_under_sqlite_is_survived(small_disk: Path) -> None:
    with open_store(f"sqlite:///{small_disk}/jobs.db") as store:
        made = []
        with pytest.raises(StoreFullError):
            for _ in range(100):
                made.append(store.enqueue([NewJob(kind="big", args=BIG)])[0].id)  # noqa: PERF401  kept up to the failure
        assert made and {job.id for job in store.jobs.list(limit=1000).jobs} == set(made)
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        assert store.enqueue([NewJob(kind="big", args=BIG)])[0].created
    connection = sqlite3.connect(small_disk / "jobs.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_full_disk_under_postgres_is_survived(
    small_disk: Path, own_postgres: Callable[..., PostgresServer]
) -> None:
    """The tables lie on a small disk; it fills up, is made larger, and the store goes on."""
    server = own_postgres(durable=False)
    migrate(server.dsn())
    folder = small_disk / "space"
    folder.mkdir()
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        admin.execute("ALTER TABLE windlass.job SET TABLESPACE small")
    with open_store(server.dsn()) as store:
        made = []
        with pytest.raises(StoreFullError, match="nothing of this call was stored"):
            for number in range(2000):
                args = {"t": os.urandom(9000).hex(), "n": number}
                made.append(store.enqueue([NewJob(kind="big", args=args)])[0].id)
        listed = store.jobs.list(limit=1000).jobs
        assert made and {job.id for job in listed} == set(made[-1000:])
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        assert store.enqueue([NewJob(kind="work")])[0].created
    server.stop()


def _write(url: str, sql: str) -> None:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute(sql.format(p="windlass_"))
        connection.commit()
        connection.close()
    else:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(sql.format(p="windlass.").encode())


def _as_ordinary_user(work: Callable[[], object]) -> str:
    """The name of the WindlassError that ``work`` raises in a child process without root's rights."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "no error"
        try:
            if os.geteuid() == 0:
                os.setgid(pwd.getpwnam("nobody").pw_gid)
                os.setuid(pwd.getpwnam("nobody").pw_uid)
            work()
        except WindlassError as error:
            answer = type(error).__name__
        except BaseException as error:  # noqa: BLE001  the parent shows it
            answer = repr(error)
        finally:
            os.write(writer, answer.encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def test_an_enqueue_that_finds_no_connection_waits_once(
    own_postgres: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a connection, took the time-out for a lost reply, and waited as long again."""
    server = own_postgres(durable=False)
    migrate(server.dsn())
    monkeypatch.setenv("WINDLASS_DATABASE_CONNECT_TIMEOUT", "1.5")
    with App(server.dsn()) as app:
        work = app.job(name="work")(lambda: None)
        assert work.enqueue().created
        server.stop()
        with pytest.raises(StoreUnreachableError):
            work.enqueue()  # finds that the connection is broken, and that there is no other one
        pool = app.store.db._connections.verbs  # type: ignore[attr-defined]
        assert pool.timeout == 1.5
        asked = pool.get_stats()["requests_num"]
        with pytest.raises(StoreUnreachableError) as caught:
            work.enqueue()
        assert caught.value.is_unsent and pool.get_stats()["requests_num"] == asked + 1


def test_a_call_waits_five_seconds_for_a_connection_unless_it_is_told_otherwise(postgres_dsn: str) -> None:
    with App(postgres_dsn) as app:
        assert app.store.db._connections.verbs.timeout == 5.0  # type: ignore[attr-defined]
    with App(postgres_dsn, connect_timeout=2.0) as app:
        assert app.store.db._connections.verbs.timeout == 2.0  # type: ignore[attr-defined]
