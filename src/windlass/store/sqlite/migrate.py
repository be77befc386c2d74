"""Migrations on SQLite: all that are missing in one transaction, under the one write lock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from windlass.store.schema.migrations import Migration, Status, available, compare
from windlass.store.sqlite.connection import BUSY_TIMEOUT, connect, connect_read_only, path_of
from windlass.store.sqlite.errors import translated

BOOKKEEPING = """
CREATE TABLE IF NOT EXISTS windlass_migration (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT
"""


def migrate_sqlite(
    url: str, *, busy_timeout: float = BUSY_TIMEOUT, migrations: tuple[Migration, ...] | None = None
) -> list[str]:
    """Apply what is missing, in one transaction under the write lock; returns the names."""
    with translated(path_of(url)):
        connection = connect(url, busy_timeout)
        try:
            return migrate_connection(connection, migrations=migrations)
        finally:
            connection.close()


def migrate_connection(
    connection: sqlite3.Connection, *, migrations: tuple[Migration, ...] | None = None
) -> list[str]:
    """Apply what is missing on an open connection that is in no transaction and begins none by itself."""
    steps = available("sqlite") if migrations is None else migrations
    if not compare(_applied(connection), steps).pending:
        return []
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(BOOKKEEPING)
        pending = compare(_applied(connection), steps).pending
        for step in pending:
            for statement in _split(step.sql):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO windlass_migration (version, name, checksum) VALUES (?, ?, ?)",
                (step.version, step.name, step.checksum),
            )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return [step.name for step in pending]


def status_sqlite(url: str) -> Status:
    """Which migrations a file has and lacks; a file that is not there has none, and is not created."""
    if not Path(path_of(url)).exists():
        return compare([], available("sqlite"))
    with translated(path_of(url)):
        connection = connect_read_only(url)
        try:
            return compare(_applied(connection), available("sqlite"))
        finally:
            connection.close()


def _applied(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'windlass_migration'").fetchone()
    if there is None:
        return []
    return connection.execute(
        "SELECT version, name, checksum FROM windlass_migration ORDER BY version"
    ).fetchall()


def _split(sql: str) -> Iterator[str]:
    """The statements of a migration; a trigger's body has semicolons of its own, so SQLite itself finds their ends."""
    text = ""
    for line in sql.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            if text.strip():
                yield text
            text = ""
