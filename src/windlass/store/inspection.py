"""The front door of inspections: ``inspect(url)``, whichever database the URL names."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.model.inspection import Inspection, Pooler, TableSize
from windlass.urls import dialect_of

TIMEOUT = 3.0
"""Seconds to wait for a connection."""


def inspect(url: str, *, timeout: float = TIMEOUT) -> Inspection:
    """Read facts about the tables, the server and the way to it; changes nothing. The database has the tables of this release."""
    if dialect_of(url) == "sqlite":
        from windlass.store.sqlite.inspection import inspect_sqlite

        return inspect_sqlite(url)
    from windlass.store.postgres.inspection import inspect_postgres

    return inspect_postgres(url, timeout=timeout)


def table_sizes(url: str, *, timeout: float = TIMEOUT) -> Sequence[TableSize]:
    """The sizes of the tables of Windlass, the largest first. On SQLite every page of the file is visited."""
    if dialect_of(url) == "sqlite":
        from windlass.store.sqlite import inspection as of_sqlite

        return of_sqlite.table_sizes(url)
    from windlass.store.postgres import inspection as of_postgres

    return of_postgres.table_sizes(url, timeout=timeout)


def pooler_of(url: str, *, timeout: float = TIMEOUT) -> Pooler:
    """What a URL leads to; a SQLite file has no pooler."""
    if dialect_of(url) == "sqlite":
        return Pooler.NONE
    from windlass.store.postgres import inspection

    return inspection.pooler_of(url, timeout=timeout)
