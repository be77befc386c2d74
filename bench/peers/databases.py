"""A fresh place for each measurement: a database on the given server, or a folder."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

PREFIX = "windlass_bench"
_numbers = itertools.count(1)


@contextmanager
def fresh_database(admin_dsn: str) -> Iterator[str]:
    """The URL of an empty database on that server, which goes away afterwards; the role needs CREATEDB."""
    if not admin_dsn.startswith(("postgresql://", "postgres://")):
        raise ValueError(
            "the server must be given as a URL, postgresql://...: not every peer reads other forms"
        )
    name = f"{PREFIX}_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    try:
        yield urlunsplit(urlsplit(admin_dsn)._replace(path=f"/{quote(name, safe='')}"))
    finally:
        with psycopg.connect(admin_dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def fresh_file(folder: str | Path) -> Iterator[str]:
    """A file name in a new folder under the given one, which goes away afterwards."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="peer-") as made:
        yield str(Path(made) / "peer.db")


def settle(dsn: str) -> None:
    """What a queue that was filled a while ago looks like: statistics are there and the pages are written."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        with suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute("CHECKPOINT")
