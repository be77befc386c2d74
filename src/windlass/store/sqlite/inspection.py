"""Inspects a SQLite file: what the migrations made and is gone, and pages that hold nothing."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from windlass.model.inspection import Inspection, TableSize
from windlass.store.sqlite.connection import connect_read_only, path_of
from windlass.store.sqlite.errors import translated
from windlass.store.sqlite.migrate import migrate_connection

_OWNERS = """
SELECT m.name, m.tbl_name, m.type = 'table' AND m.sql NOT LIKE '%WITHOUT ROWID'
FROM sqlite_master AS m
WHERE m.type IN ('table', 'index') AND m.tbl_name LIKE 'windlass%'
"""
_SIZES = """
SELECT s.name, sum(s.pgsize), sum(s.ncell), sum(CASE WHEN s.pagetype = 'leaf' THEN s.ncell ELSE 0 END)
FROM dbstat AS s
GROUP BY s.name
"""

KEPT, LONGEST_KEPT = 100, 60.0
_walking = threading.Lock()
_walked: dict[str, tuple[float, Sequence[TableSize]]] = {}
"""What the last walk over a file found, and until when that is returned."""


def inspect_sqlite(url: str) -> Inspection:
    """Read the facts of a file that has the tables of this release; changes nothing."""
    path = path_of(url)
    log = Path(f"{path}-wal")
    with translated(path):
        connection = connect_read_only(url)
        try:
            found = _names(connection)
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        finally:
            connection.close()
    return Inspection(
        missing=_without_columns_of_lost_tables(_expected() - found),
        file_bytes=pages * size,
        free_bytes=free * size,
        log_bytes=log.stat().st_size if log.exists() else 0,
    )


def table_sizes(url: str) -> Sequence[TableSize]:
    """The size of each table with its indexes, the largest first; without sizes if this SQLite was built without ``dbstat``.

    SQLite walks over the whole file, a quarter of a second for a million jobs; so that any number of boards causes little of it, what was
    found is returned again for a hundred times as long as the walk took, and at most for a minute.
    """
    with _walking:
        began = time.monotonic()
        until, known = _walked.get(url, (began, ()))
        if began < until:
            return known
        found = tuple(_walk(url))
        ended = time.monotonic()
        _walked[url] = (ended + min(LONGEST_KEPT, KEPT * (ended - began)), found)
        return found


def _walk(url: str) -> Sequence[TableSize]:
    path = path_of(url)
    with translated(path):
        connection = connect_read_only(url)
        try:
            owners = connection.execute(_OWNERS).fetchall()
            try:
                found = {name: row for name, *row in connection.execute(_SIZES).fetchall()}
            except sqlite3.OperationalError:
                found = None
        finally:
            connection.close()
    sizes: dict[str, TableSize] = {}
    for name, table, has_row_ids in sorted(owners, key=lambda one: one[0] != one[1]):
        if found is None:
            sizes[table] = TableSize(table, None, None)
            continue
        size, cells, leaf_cells = found.get(name, (0, 0, 0))
        if name == table:  # without row ids the inner pages hold rows, too
            sizes[table] = TableSize(table, leaf_cells if has_row_ids else cells, size)
        else:
            sizes[table] = replace(sizes[table], bytes=(sizes[table].bytes or 0) + size)
    return sorted(sizes.values(), key=lambda one: (-(one.bytes or 0), one.table))


def _expected() -> set[str]:
    """What the migrations make, tried in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate_connection(connection)
        return _names(connection)
    finally:
        connection.close()


def _names(connection: sqlite3.Connection) -> set[str]:
    """Tables, columns, indexes, triggers and views of Windlass."""
    rows = connection.execute(
        "SELECT m.type, m.name FROM sqlite_master AS m WHERE m.name NOT LIKE 'sqlite_%' ORDER BY m.name"
    ).fetchall()
    names = {f"{kind} {name}" for kind, name in rows}
    for kind, name in rows:
        if kind == "table":
            columns = connection.execute("SELECT c.name FROM pragma_table_info(?) AS c", (name,)).fetchall()
            names.update(f"column {name}.{column}" for (column,) in columns)
    return names


def _without_columns_of_lost_tables(lacking: set[str]) -> list[str]:
    return sorted(
        name
        for name in lacking
        if not (name.startswith("column ") and f"table {name[7:].partition('.')[0]}" in lacking)
    )
