"""Migrations on PostgreSQL: one migrator at a time, never holding a lock that others queue behind for long."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace

import psycopg
from psycopg import IsolationLevel
from psycopg import errors as pg

from windlass.errors import StoreError
from windlass.store.postgres import partitions
from windlass.store.postgres.errors import translated
from windlass.store.postgres.sessions import ENCODING, refuse_encoding
from windlass.store.schema.migrations import CONNECT_TIMEOUT, PATIENCE, Migration, Status, available, compare

LOCK_TIMEOUT_MS = 2_000
# Serialises migrators; transaction-scoped, so that it cannot leak behind a pooler.
LOCK_KEY = 0x77696E646C617373

BOOKKEEPING = """
CREATE TABLE IF NOT EXISTS windlass.migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


def migrate_postgres(
    url: str, *, patience: float = PATIENCE, migrations: tuple[Migration, ...] | None = None
) -> list[str]:
    """Apply what is missing; returns the names. Waits up to ``patience`` seconds for other migrators and for locks."""
    steps = available("postgres") if migrations is None else migrations
    applied: list[str] = []
    deadline = time.monotonic() + patience
    with translated(), _connect(url) as connection:
        refuse_encoding(connection)
        # As it was read under the lock: another level would show what was applied before the lock came.
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        while (name := _apply_next(connection, steps, deadline)) is not None:
            applied.append(name)
        partitions.ensure(connection)
    return applied


def status_postgres(url: str, *, timeout: float = CONNECT_TIMEOUT) -> Status:
    """Which migrations a database has and lacks."""
    with translated(), _connect(url, timeout) as connection:
        refuse_encoding(connection)
        status = read_status(connection)
        return replace(status, partitions=len(partitions.attached(connection))) if status.applied else status


def _connect(url: str, timeout: float = CONNECT_TIMEOUT) -> psycopg.Connection:
    seconds = max(1, math.ceil(timeout))
    return psycopg.connect(url, autocommit=True, connect_timeout=seconds, client_encoding=ENCODING)


def read_status(connection: psycopg.Connection) -> Status:
    """Which migrations the connected database has and lacks."""
    return compare(_applied(connection), available("postgres"))


def _applied(connection: psycopg.Connection) -> list[tuple[int, str, str]]:
    if connection.execute("SELECT to_regclass('windlass.migration')").fetchone() == (None,):
        return []
    return connection.execute(
        "SELECT version, name, checksum FROM windlass.migration ORDER BY version"
    ).fetchall()


def _apply_next(connection: psycopg.Connection, steps: tuple[Migration, ...], deadline: float) -> str | None:
    """Apply the first missing migration; None when there is none. A lock time-out is repeated until the deadline."""
    while True:
        try:
            with connection.transaction():
                connection.execute(
                    f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}; SET LOCAL statement_timeout = 0"
                )
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_KEY,))
                pending = compare(_applied(connection), steps).pending
                if not pending:
                    return None
                step = pending[0]
                if step.in_transaction:
                    if step.version == 1:
                        connection.execute("CREATE SCHEMA IF NOT EXISTS windlass")
                        connection.execute(BOOKKEEPING)
                    connection.execute(step.sql.encode())
                    _note(connection, step)
                    return step.name
            # Outside of any transaction: two migrators may meet here, so the file must be safe to repeat.
            connection.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}; SET statement_timeout = 0")
            for statement in step.sql.split(";\n"):
                if statement.strip():
                    connection.execute(statement.encode())
            _note(connection, step)
            return step.name
        except (pg.LockNotAvailable, pg.DeadlockDetected, pg.UniqueViolation) as error:
            if time.monotonic() > deadline:
                raise StoreError(
                    "the migration could not get its locks: a session holds a transaction on Windlass's tables, or another "
                    "migrator is at work. Nothing was changed by the step that failed; check pg_stat_activity and repeat"
                ) from error
            time.sleep(0.2 + random.random() / 2)


def _note(connection: psycopg.Connection, step: Migration) -> None:
    connection.execute(
        "INSERT INTO windlass.migration (version, name, checksum) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (step.version, step.name, step.checksum),
    )
