"""How commands fail: one line, the right exit code, no password."""

from __future__ import annotations

import inspect
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Windlass
from windlass import errors
from windlass.cli.exit_codes import ExitCode, code_of
from windlass.examples.embedded.postgres import PostgresServer
from windlass.store.postgres.migrate import LOCK_KEY
from windlass.urls import without_secrets

SECRET = "pass-word-7"


def test_every_error_has_an_exit_code_that_is_documented() -> None:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.WindlassError):
            error = kind.__new__(kind)
            assert code_of(error) in ExitCode


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.ConfigError, 2),
        (errors.PayloadTooLargeError, 2),
        (errors.JobNotFoundError, 3),
        (errors.FilterError, 2),
        (errors.RuleNotFoundError, 3),
        (errors.OperationNotFoundError, 3),
        (errors.InstanceNotFoundError, 3),
        (errors.ActRefusedError, 4),
        (errors.EditConflictError, 4),
        (errors.NotAllowedError, 77),
        (errors.ResultTimeout, 124),
        (errors.KeyConflictError, 4),
        (errors.RuleCycleError, 4),
        (errors.IllegalTransitionError, 4),
        (errors.StoreUnreachableError, 69),
        (errors.StoreReadOnlyError, 77),
        (errors.StoreFullError, 1),
        (errors.SchemaError, 1),
    ],
)
def test_errors_have_their_exit_codes(kind: type[errors.WindlassError], code: int) -> None:
    assert code_of(kind.__new__(kind)) == code


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://joe:{SECRET}@host/db",
        f"postgresql:joe:{SECRET}@host/db",
        f"joe:{SECRET}@host",
        "redis://host",
        "",
    ],
)
@pytest.mark.parametrize("command", [["migrate"], ["status"], ["sql"], ["sql", "--all"], ["prune"]])
def test_an_unknown_url_is_a_usage_mistake(command: list[str], url: str, windlass: Windlass) -> None:
    answer = windlass("db", *command, "--url", url)
    _is_one_line(answer.err)
    assert (answer.code, answer.out) == (2, "")
    assert SECRET not in answer.err


@pytest.mark.parametrize("url", ["sqlite://host/file.db", "sqlite:///:memory:"])
@pytest.mark.parametrize("command", ["migrate", "status", "sql", "prune"])
def test_sqlite_needs_a_file(command: str, url: str, windlass: Windlass) -> None:
    answer = windlass("db", command, "--url", url)
    _is_one_line(answer.err)
    assert answer.code == 2


@pytest.mark.parametrize("command", ["migrate", "status", "sql", "prune"])
def test_a_server_that_is_not_there_is_69(command: str, windlass: Windlass) -> None:
    answer = windlass("db", command, "--url", f"postgresql://joe:{SECRET}@127.0.0.1:1/db")
    _is_one_line(answer.err)
    assert (answer.code, answer.out) == (69, "")
    assert SECRET not in answer.err


def test_a_folder_that_is_not_there_is_69(tmp_path: Path, windlass: Windlass) -> None:
    answer = windlass("db", "migrate", "--url", f"sqlite:///{tmp_path}/no/file.db")
    _is_one_line(answer.err)
    assert answer.code == 69


def test_what_a_role_may_not_do_is_77(
    own_postgres: Callable[..., PostgresServer], windlass: Windlass
) -> None:
    """A refused login is 69 like other failed connections: libpq says why only in words."""
    server = own_postgres(durable=False)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE weak LOGIN PASSWORD '{SECRET}'".encode())
    at = f"127.0.0.1:{server.port}/postgres"
    for url, code, word in (
        (f"postgresql://weak:{SECRET}@{at}", 77, "permission denied"),
        (f"postgresql://weak:not{SECRET}@{at}", 69, "authentication failed"),
        (f"postgresql://stranger:{SECRET}@{at}", 69, "authentication failed"),
    ):
        answer = windlass("db", "migrate", "--url", url)
        _is_one_line(answer.err)
        assert answer.code == code
        assert word in answer.err
        assert SECRET not in answer.err


def test_a_database_that_takes_no_writes_is_77(postgres_empty_dsn: str, windlass: Windlass) -> None:
    sign = "&" if "?" in postgres_empty_dsn else "?"
    url = f"{postgres_empty_dsn}{sign}options=-c%20default_transaction_read_only%3Don"
    answer = windlass("db", "migrate", "--url", url)
    _is_one_line(answer.err)
    assert answer.code == 77


def test_a_file_that_stays_locked_is_124(sqlite_path: Path, windlass: Windlass) -> None:
    holder = sqlite3.connect(sqlite_path, isolation_level=None)
    holder.execute("PRAGMA journal_mode = WAL")
    holder.execute("BEGIN IMMEDIATE")
    answer = windlass("db", "migrate", "--url", f"sqlite:///{sqlite_path}", "--wait", "0.1")
    holder.close()
    _is_one_line(answer.err)
    assert answer.code == 124


def test_another_migrator_that_does_not_end_is_124(postgres_empty_dsn: str, windlass: Windlass) -> None:
    with psycopg.connect(postgres_empty_dsn) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_KEY,))
        answer = windlass("db", "migrate", "--url", postgres_empty_dsn, "--wait", "0")
    _is_one_line(answer.err)
    assert answer.code == 124


def test_a_missing_driver_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; from windlass.cli import main; "
        "sys.exit(main(['db', 'status', '--url', 'postgresql://localhost/db']))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert answer.returncode == 2
    assert "pip install 'windlass[postgres]'" in answer.stderr
    _is_one_line(answer.stderr)


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m windlass db sql --all --url sqlite:///jobs.db | head -1"
    answer = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert "Traceback" not in answer.stderr
    assert len(answer.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"postgresql://joe:{SECRET}@host:1/db", "postgresql://joe:***@host:1/db"),
        (f"postgresql://joe:{SECRET}@x@host/db", "postgresql://joe:***@host/db"),
        (f'missing "=" after "mysql://joe:{SECRET}@h/db" in', 'missing "=" after "mysql://joe:***@h/db" in'),
        (f"host=a password={SECRET} user=b", "host=a password=*** user=b"),
        (f"postgresql://host/db?password={SECRET}&x=1", "postgresql://host/db?password=***&x=1"),
        (f"postgresql://host:1/db?password=x@{SECRET}&x=1", "postgresql://host:1/db?password=***&x=1"),
        (f"host=a password='it\\'s {SECRET}' user=b", "host=a password=*** user=b"),
        ("postgresql://joe@host/db", "postgresql://joe@host/db"),
        ("error: nothing to hide; ask joe@example.org", "error: nothing to hide; ask joe@example.org"),
    ],
)
def test_passwords_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def _is_one_line(stderr: str) -> None:
    (line,) = stderr.splitlines()
    assert line.startswith("error: ")
