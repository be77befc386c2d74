"""History partitions on PostgreSQL: one a day, made ahead of time, removed without stopping a single finish. Old days become months (months.py).

Measured with a reader open: ``CREATE TABLE … PARTITION OF`` and ``DROP TABLE`` of a partition block every finish behind
them; a plain table that is ATTACHed, and DETACH CONCURRENTLY followed by DROP, block none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import psycopg
from psycopg import errors as pg

from windlass.model.history import PartitionsLeft
from windlass.store.database import never
from windlass.store.schema.statements import expand

DAYS_AHEAD = 7
_LOCK_TIMEOUT = "2s"
_LOCK_KEY = 0x77696E6470617274
REMOVING = _LOCK_KEY + 1
"""The advisory lock of the session that detaches partitions."""
LEAVING = "windlass: past its retention, about to be dropped"
"""The comment of a partition that is about to be detached and dropped. The linker links no child to a job of such a partition (``stays`` in
sql/postgres/upkeep.sql)."""
_NAME = re.compile(r"job_done_(\d{4})(\d{2})(\d{2})?")

_ATTACHED = """
SELECT c.relname, i.inhdetachpending
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'windlass.job_done'::regclass
ORDER BY c.relname
"""
_MARKED = """
SELECT c.relname
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'windlass.job_done'::regclass
    AND NOT i.inhdetachpending
    AND obj_description(c.oid, 'pg_class') = %s
"""


def name_of(day: date) -> str:
    return f"job_done_{day:%Y%m%d}"


def month_of(day: date) -> str:
    return f"job_done_{day:%Y%m}"


def span_of(name: str) -> tuple[date, date] | None:
    """The first day of a partition, and the first one behind it; None if it is not one of ours."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    year, month = int(match[1]), int(match[2])
    if match[3] is None:
        return date(year, month, 1), date(year + month // 12, month % 12 + 1, 1)
    first = date(year, month, int(match[3]))
    return first, first + timedelta(days=1)


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def attached(connection: psycopg.Connection) -> dict[str, bool]:
    """The partitions that are attached, and whether a detach of each was left half done."""
    return dict(connection.execute(_ATTACHED).fetchall())


def ensure(
    connection: psycopg.Connection, *, days: int = DAYS_AHEAD, around: date | None = None
) -> list[str]:
    """Make the partitions from yesterday to ``days`` ahead of the database's day (or of ``around``); the new ones' names.

    The connection must be in autocommit mode. Repeating it, and racing another instance, is harmless.
    """
    return [name_of(day) for day in missing(connection, days=days, around=around) if _attach(connection, day)]


def missing(
    connection: psycopg.Connection, *, days: int = DAYS_AHEAD, around: date | None = None
) -> list[date]:
    """The days from yesterday to ``days`` ahead that have no partition."""
    there = attached(connection)
    today = around or today_of(connection)
    wanted = [today + timedelta(days=n) for n in range(-1, days + 1)]
    return [day for day in wanted if name_of(day) not in there and month_of(day) not in there]


def may_make(connection: psycopg.Connection) -> bool:
    """Whether the session's role may make partitions: it owns history, and may create tables beside it."""
    row = connection.execute(
        "SELECT pg_has_role(c.relowner, 'USAGE') AND has_schema_privilege(c.relnamespace, 'CREATE') "
        "FROM pg_class AS c WHERE c.oid = 'windlass.job_done'::regclass"
    ).fetchone()
    return bool(row and row[0])


def left_by_owner(connection: psycopg.Connection, *, around: date | None = None) -> PartitionsLeft:
    """How far ahead the partitions reach that the owner has made, for a role that may make none."""
    today = around or today_of(connection)
    ahead = [day for day in missing(connection, around=today) if day >= today]
    first = ahead[0] if ahead else today + timedelta(days=DAYS_AHEAD + 1)
    return PartitionsLeft(first, (first - today).days)


def today_of(connection: psycopg.Connection) -> date:
    """The database's day."""
    row = connection.execute("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date").fetchone()
    assert row is not None
    day: date = row[0]
    return day


def _attach(connection: psycopg.Connection, day: date) -> bool:
    name = name_of(day)
    with connection.transaction():
        connection.execute(
            f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'; SET LOCAL statement_timeout = 0", prepare=False
        )
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
        if name in attached(connection):
            return False
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS windlass.{name} (LIKE windlass.job_done INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
        )
        add_bounds(connection, name, day, day + timedelta(days=1))
        attach_bounded(connection, name, day, day + timedelta(days=1))
    return True


def add_bounds(connection: psycopg.Connection, name: str, first: date, end: date) -> None:
    """Add the CHECK that lets ATTACH skip the scan of all rows."""
    bounds = f"finished_at >= '{midnight(first).isoformat()}' AND finished_at < '{midnight(end).isoformat()}'"
    connection.execute(
        f"ALTER TABLE windlass.{name} ADD CONSTRAINT {name}_day CHECK ({bounds})", prepare=False
    )


def attach_bounded(connection: psycopg.Connection, name: str, first: date, end: date) -> None:
    """Attach a table that has its bounds as a CHECK; that goes, since the partition's own bound says the same."""
    connection.execute(
        f"ALTER TABLE windlass.job_done ATTACH PARTITION windlass.{name} "
        f"FOR VALUES FROM ('{midnight(first).isoformat()}') TO ('{midnight(end).isoformat()}')",
        prepare=False,
    )
    connection.execute(f"ALTER TABLE windlass.{name} DROP CONSTRAINT {name}_day", prepare=False)


def drop_before(
    connection: psycopg.Connection,
    cutoff: datetime,
    *,
    only_empty: bool = False,
    now: datetime | None = None,
    is_stopping: Callable[[], bool] = never,
) -> dict[str, dict[tuple[str, str], int]]:
    """Remove the partitions that lie wholly before ``cutoff``; returns, for each, the jobs it held by phase and state.

    A partition that holds a parent that a child still waits for, or a job that a key leads to, stays, and with ``only_empty`` every one that holds a job. The
    connection must be direct and in autocommit mode: DETACH CONCURRENTLY runs in no transaction. One that is interrupted
    is finished next time: a partition is marked before it is detached, so that a table that was detached by hand, to keep
    it, is never taken for ours. No further partition is removed once ``is_stopping`` returns True.
    """
    try:
        # Waited for: a merge has it for moments only, and without it every job of these days would be removed one by one.
        connection.execute("SELECT pg_advisory_lock(%s)", (REMOVING,))
    except pg.LockNotAvailable:
        return {}  # another instance is doing it
    try:
        unmark_left(connection)
        return _drop_all(connection, cutoff, only_empty, now, is_stopping)
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (REMOVING,))


def _drop_all(
    connection: psycopg.Connection,
    cutoff: datetime,
    only_empty: bool,
    now: datetime | None,
    is_stopping: Callable[[], bool],
) -> dict[str, dict[tuple[str, str], int]]:
    dropped: dict[str, dict[tuple[str, str], int]] = {}
    for name, is_half_detached in attached(connection).items():
        if is_stopping():
            return dropped
        span = span_of(name)
        if span is None or midnight(span[1]) > cutoff:
            continue
        if not is_half_detached and (
            _is_needed(connection, name, now) or (only_empty and not _is_empty(connection, name))
        ):
            continue
        try:
            if is_half_detached:  # no session sees its jobs any more
                connection.execute(f"ALTER TABLE windlass.job_done DETACH PARTITION windlass.{name} FINALIZE")
            elif not _detach(connection, name, now):
                continue
        except (pg.LockNotAvailable, pg.QueryCanceled, pg.ObjectNotInPrerequisiteState):
            unmark_left(connection)
            continue  # a reader holds it, or another instance detaches one: next time
        dropped[name] = _drop(connection, name)
    for name in detached(connection):
        dropped[name] = _drop(connection, name)
    return dropped


def _detach(connection: psycopg.Connection, name: str, now: datetime | None) -> bool:
    """Detach a partition, unless a feature needs one of its jobs by now.

    The mark is committed before the check, and no child that is stored after the check is linked to a job of a marked partition: its linker
    reads a later snapshot, which has the mark. So the partition holds no result that a child may still read. When the partition is gone, its
    jobs are unknown parents.
    """
    connection.execute(f"COMMENT ON TABLE windlass.{name} IS '{LEAVING}'")
    if _is_needed(connection, name, now):
        connection.execute(f"COMMENT ON TABLE windlass.{name} IS NULL")
        return False
    connection.execute(f"ALTER TABLE windlass.job_done DETACH PARTITION windlass.{name} CONCURRENTLY")
    return True


def unmark_left(connection: psycopg.Connection) -> None:
    """Remove the mark of attached partitions that no session is about to drop: their removal was given up, or its process was killed.
    Without that, children of their jobs would wait until the next removal.

    The connection must be in autocommit mode; it may lead through a pooler.
    """
    if not connection.execute(_MARKED, (LEAVING,)).fetchall():
        return
    with suppress(pg.LockNotAvailable), connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'", prepare=False)
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (REMOVING,)).fetchone()
        if row and row[0]:
            for (name,) in connection.execute(_MARKED, (LEAVING,)).fetchall():
                connection.execute(f"COMMENT ON TABLE windlass.{name} IS NULL", prepare=False)


def _is_empty(connection: psycopg.Connection, name: str) -> bool:
    """Rows of a day gone by only become fewer, so what is empty stays so."""
    row = connection.execute(f"SELECT NOT EXISTS (SELECT FROM windlass.{name})").fetchone()
    return bool(row and row[0])


def _is_needed(connection: psycopg.Connection, name: str, now: datetime | None) -> bool:
    """Whether a feature needs a job of this day: a child waits for it, or a key leads to it."""
    statement = expand("postgres", f"SELECT FALSE {{{{needed(windlass.{name})}}}}")
    row = connection.execute(statement.pyformat().encode(), {"now": now}).fetchone()
    return bool(row and row[0])


def detached(connection: psycopg.Connection, mark: str = LEAVING) -> list[str]:
    """Tables that were partitions and were detached by us, with a mark: a detach whose drop never came."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'windlass' AND c.relkind = 'r' AND NOT c.relispartition "
        "AND obj_description(c.oid, 'pg_class') = %s",
        (mark,),
    ).fetchall()
    return [row[0] for row in rows if span_of(row[0])]


def _drop(connection: psycopg.Connection, name: str) -> dict[tuple[str, str], int]:
    """Drop a detached table and correct the counts by what it held, in one transaction."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        held = {
            (phase, state): n
            for phase, state, n in connection.execute(
                f"SELECT phase, state, count(*) FROM windlass.{name} GROUP BY phase, state"
            ).fetchall()
        }
        for (phase, state), n in held.items():
            connection.execute(
                f"INSERT INTO windlass.delta (phase, {state}) VALUES (%s, %s)",  # state is one of three by CHECK
                (phase, -n),
            )
        connection.execute(f"DELETE FROM windlass.attempt AS a USING windlass.{name} AS d WHERE a.job = d.id")
        gone = f"WITH gone AS (SELECT d.id FROM windlass.{name} AS d) {{{{pruned}}}} SELECT 1"
        connection.execute(expand("postgres", gone).pyformat().encode())
        connection.execute(f"DROP TABLE windlass.{name}")
    return held
