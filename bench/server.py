"""A durable PostgreSQL of our own (or the one of WINDLASS_BENCH_PG_DSN), with a fresh database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from windlass.examples.embedded.binaries import find_postgres
from windlass.examples.embedded.postgres import PostgresServer
from windlass.store.migrate import migrate

SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "synchronous_commit": "on",
}


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a migrated database; fsync is on."""
    given = os.environ.get("WINDLASS_BENCH_PG_DSN")
    if given:
        with psycopg.connect(given, autocommit=True) as admin:
            admin.execute("DROP SCHEMA IF EXISTS windlass CASCADE")
        migrate(given)
        yield given
        return
    with PostgresServer(find_postgres()[0], durable=True, settings=SETTINGS) as server:
        migrate(server.dsn())
        yield server.dsn()


def version(url: str) -> str:
    with psycopg.connect(url) as connection:
        return str(connection.execute("SHOW server_version").fetchone()[0])  # type: ignore[index]
