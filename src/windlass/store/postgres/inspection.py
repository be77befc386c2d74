"""Inspects a PostgreSQL database over connections of its own, which only read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

import psycopg

from windlass.model.inspection import DeadRows, Inspection, OpenTransaction, Pooler, TableSize
from windlass.store.postgres import partitions
from windlass.store.postgres.errors import translated
from windlass.store.schema.declared import declared
from windlass.store.schema.migrations import available

_NAMES = """
SELECT CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' WHEN 'i' THEN 'index ' WHEN 'I' THEN 'index ' ELSE 'table ' END || c.relname
FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace('windlass')
UNION ALL
SELECT 'column ' || c.relname || '.' || a.attname
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = to_regnamespace('windlass') AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'trigger ' || t.tgname
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = to_regnamespace('windlass') AND NOT t.tgisinternal AND t.tgenabled <> 'D'
UNION ALL
SELECT 'function ' || p.proname
FROM pg_proc AS p
WHERE p.pronamespace = to_regnamespace('windlass')
"""
_INVALID = """
SELECT c.relname
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = to_regnamespace('windlass') AND NOT i.indisvalid
ORDER BY c.relname
"""
_DEAD = """
SELECT s.relname, s.n_live_tup, s.n_dead_tup
FROM pg_stat_user_tables AS s
WHERE s.schemaname = 'windlass'
ORDER BY s.n_dead_tup DESC, s.relname
"""
_OPEN = """
SELECT a.pid, EXTRACT(epoch FROM clock_timestamp() - a.xact_start)::double precision, a.application_name
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()
    AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
ORDER BY a.xact_start
"""
_SIZES = """
SELECT COALESCE(p.relname, c.relname), sum(greatest(c.reltuples, 0))::bigint, sum(pg_total_relation_size(c.oid))::bigint
FROM pg_class AS c
LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
LEFT JOIN pg_class AS p ON p.oid = i.inhparent
WHERE c.relnamespace = to_regnamespace('windlass') AND c.relkind = 'r'
GROUP BY 1
ORDER BY 3 DESC, 1
"""
CLOCK = "SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8"  # a number: the driver reads times in the DateStyle ISO only
_CLOCK_TRIES = 5


def inspect_postgres(url: str, *, timeout: float) -> Inspection:
    """Read the facts of a database that has the tables of this release; changes nothing."""
    with translated(), _connect(url, timeout) as connection:
        found = [row[0] for row in connection.execute(_NAMES).fetchall()]
        there = partitions.attached(connection)
        return Inspection(
            missing=declared(available("postgres")).missing(found),
            invalid=[row[0] for row in connection.execute(_INVALID).fetchall()],
            dead_rows=[DeadRows(*row) for row in connection.execute(_DEAD).fetchall()],
            transactions=[OpenTransaction(*row) for row in connection.execute(_OPEN).fetchall()],
            autovacuum=connection.execute("SELECT current_setting('autovacuum')").fetchone() == ("on",),
            partitions=len(there),
            left=partitions.left_by_owner(connection),
            may_make=partitions.may_make(connection),
            clock_ahead=_clock_ahead(connection),
            pooler=_pooler(url, timeout, connection),
        )


def table_sizes(url: str, *, timeout: float) -> Sequence[TableSize]:
    """The size of each table with its indexes, the largest first."""
    with translated(), _connect(url, timeout) as connection:
        return [TableSize(*row) for row in connection.execute(_SIZES).fetchall()]


def pooler_of(url: str, *, timeout: float) -> Pooler:
    """Whether a URL leads to a server or to a pooler."""
    with translated(), _connect(url, timeout) as connection:
        return _pooler(url, timeout, connection)


def _connect(url: str, timeout: float) -> psycopg.Connection:
    # Nothing is prepared: behind a transaction pooler the next statement may reach another session.
    connection = psycopg.connect(url, autocommit=True, connect_timeout=max(1, int(timeout)))
    connection.prepare_threshold = None
    return connection


def _clock_ahead(connection: psycopg.Connection) -> float:
    """The difference of the clocks in seconds, of the try with the shortest way to the database and back."""
    tries = []
    for _ in range(_CLOCK_TRIES):
        before = time.time()
        row = connection.execute(CLOCK).fetchone()
        took = time.time() - before
        assert row is not None
        tries.append((took, row[0] - (before + took / 2)))
    _, ahead = min(tries)
    return float(ahead)


def _pooler(url: str, timeout: float, first: psycopg.Connection) -> Pooler:
    """A pooler gives its client another process id than that of the session. One that pools transactions gives the first client another session
    while the second client holds the first client's session, or the second client the session of the first."""
    own = _pid(first)
    if own == first.info.backend_pid:
        return Pooler.NONE
    with ExitStack() as stack:
        second = stack.enter_context(_connect(url, timeout))
        stack.enter_context(second.transaction())
        if _pid(second) == own:
            return Pooler.TRANSACTION
        return Pooler.SESSION if _pid(first) == own else Pooler.TRANSACTION


def _pid(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    pid: int = row[0]
    return pid
