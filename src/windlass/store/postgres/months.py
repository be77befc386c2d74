"""Old history on PostgreSQL: the days of a month become one partition.

A look-up by id plans and locks every partition and its indexes, so their number must not grow with each day there ever was. A month is made
beside its days and then takes their place:

1. begin: an empty table for the month; from here on a trigger on each day notes which jobs are changed in it.
2. copy: the days' jobs in pages, each with how far it came.
3. catch up: what was changed meanwhile (a retry took a job out, a prune removed it) is done to the copy as well.
4. wait until every transaction has ended that was open when the copy became complete: its snapshot would see a month without jobs.
5. swap: under the one lock that blocks every other session, waited for 0.2 s at most: the days are detached and the month is attached. Only if
   nothing was changed since 3; so every reader, with any snapshot, sees the same jobs before and after.
6. drop the days, a few at a time.

Each of these is a transaction, or many, and what comes next is read from the database: if an instance is killed, any other goes on. If the tables have
changed (a day was dropped or detached, the copy was dropped, job_done has got a column), the copy is thrown away. History itself is touched by 5 and 6 alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row

from windlass.model import MergeStep
from windlass.observe.logger import get_logger
from windlass.store.postgres import partitions

log = get_logger("windlass.store")

MOST = 120
"""From more partitions on, upkeep makes months. An installation that removes everything after 90 days, the longest retention by default,
never has so many, and goes on dropping whole days."""
AGE = timedelta(days=35)
"""A month is made when its last day is older: completed and cancelled jobs are gone by then with the default retentions and need not be copied."""
PAGE = 2_000
DROPS = 8
_MERGED = "windlass: merged into its month, about to be dropped"
_SETTINGS = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = 0"

_SHAPE = """
SELECT md5(string_agg(f.fact, ',' ORDER BY f.fact))
FROM (
    SELECT format('%s %s %s %s', a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull)
    FROM pg_attribute AS a WHERE a.attrelid = 'windlass.job_done'::regclass AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT pg_get_indexdef(i.indexrelid) FROM pg_index AS i WHERE i.indrelid = 'windlass.job_done'::regclass
    UNION ALL
    SELECT pg_get_constraintdef(c.oid) FROM pg_constraint AS c WHERE c.conrelid = 'windlass.job_done'::regclass
) AS f (fact)
"""
_COLUMNS = """
SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
FROM pg_attribute AS a
WHERE a.attrelid = 'windlass.job_done'::regclass AND a.attnum > 0 AND NOT a.attisdropped
"""
# Every transaction has a lock on its own virtual id, which every session may see. A prepared one has none, and no snapshot either.
_OPEN = """
SELECT COALESCE(array_agg(DISTINCT l.virtualxid), '{}')
FROM pg_locks AS l
JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'virtualxid'
    AND a.datid = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
    AND l.pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class _Month:
    """The month that is being made, as the database has it."""

    name: str
    days: list[str]
    shape: str
    day: int
    after: str | None
    copied: int
    waits_for: list[str] | None

    @property
    def is_copied(self) -> bool:
        return self.day > len(self.days)


def step(
    connection: psycopg.Connection, *, most: int = MOST, page: int = PAGE, around: date | None = None
) -> MergeStep | None:
    """Do the next piece of work, if more than ``most`` partitions are attached or a month is being made; None when there is nothing to do.

    The connection must be in autocommit mode; it may lead through a pooler. One instance does it at a time.
    """
    try:
        with _exclusive(connection) as is_alone:
            if not is_alone:
                return MergeStep(is_waiting=True, what="another instance is doing it")
            return _Work(connection, page).next(most, around)
    except pg.LockNotAvailable:
        return MergeStep(is_waiting=True, what="another session has a lock on history")


@contextmanager
def _exclusive(connection: psycopg.Connection) -> Iterator[bool]:
    with connection.transaction():
        connection.execute(_SETTINGS, prepare=False)
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (partitions.REMOVING,)).fetchone()
        yield bool(row and row[0])


class _Work:
    """One transaction's worth of work."""

    def __init__(self, connection: psycopg.Connection, page: int) -> None:
        self._connection = connection
        self._page = page

    def next(self, most: int, around: date | None) -> MergeStep | None:
        there = partitions.attached(self._connection)
        month = self._current()
        if month is not None:
            self._require_owner()
            return self._go_on(month, there)
        if merged := partitions.detached(self._connection, _MERGED)[:DROPS]:
            self._require_owner()
            for name in merged:
                self._do(f"DROP TABLE windlass.{name}")
            return MergeStep(what=f"dropped {', '.join(merged)}")
        days = (
            _days_to_merge(there, around or partitions.today_of(self._connection))
            if len(there) > most
            else None
        )
        if days is None:
            return None
        self._require_owner()
        return self._begin(days)

    def _go_on(self, month: _Month, there: dict[str, bool]) -> MergeStep:
        is_there = self._value("SELECT to_regclass(%s) IS NOT NULL", f"windlass.{month.name}")
        if (
            not is_there
            or self._value(_SHAPE) != month.shape
            or any(there.get(day, True) for day in month.days)
        ):
            return self._abandon(month)
        if not month.is_copied:
            return self._copy(month)
        if (caught_up := self._catch_up(month)) is not None:
            return caught_up
        if month.waits_for is None:
            # Nothing is changed in this transaction: what the others will see is committed.
            self._set("waits_for = %s", self._value(_OPEN))
            return MergeStep(month.name, what="copied")
        if set(month.waits_for) & set(self._value(_OPEN)):
            return MergeStep(
                month.name,
                is_waiting=True,
                what="transactions are open that began before the copy was complete",
            )
        return self._swap(month)

    # ------------------------------------------------------------------ the steps

    def _begin(self, days: list[str]) -> MergeStep:
        first, end, name = _span(days)
        self._do(
            f"CREATE TABLE windlass.{name} "
            "(LIKE windlass.job_done INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE)"
        )
        partitions.add_bounds(self._connection, name, first, end)
        for day in days:
            for when, each in (("INSERT OR UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
                self._do(
                    f"CREATE TRIGGER month_change_{each} AFTER {when} ON windlass.{day} "
                    f"FOR EACH {each} EXECUTE FUNCTION windlass.note_month_change()"
                )
        self._do(
            "INSERT INTO windlass.month (name, days, shape) VALUES (%s, %s, %s)",
            name,
            days,
            self._value(_SHAPE),
        )
        return MergeStep(name, what=f"began with {len(days)} days")

    def _copy(self, month: _Month) -> MergeStep:
        """The next page, of one day or of several small ones."""
        day, after, copied = month.day, month.after, 0
        while copied < self._page and day <= len(month.days):
            jobs, after = self._copy_from(month, month.days[day - 1], after, self._page - copied)
            copied += jobs
            day += after is None
        self._set("day = %s, after = %s, copied = copied + %s", day, after, copied)
        return MergeStep(month.name, jobs=copied, what="copies")

    def _copy_from(self, month: _Month, day: str, after: str | None, most: int) -> tuple[int, str | None]:
        """Copy jobs in the order of ids, always all jobs of an id together. Returns how many, and up to which id; None
        where these were the day's last."""
        source, columns = f"FROM ONLY windlass.{day}", self._value(_COLUMNS)
        beyond, given = ("id > %s", [after]) if after else ("true", [])
        last = self._do(
            f"SELECT id::text {source} WHERE {beyond} ORDER BY id OFFSET %s LIMIT 1", *given, most - 1
        ).fetchone()
        until = f"{beyond} AND id <= %s" if last else beyond
        copied = self._do(
            f"INSERT INTO windlass.{month.name} ({columns}) SELECT {columns} {source} WHERE {until} ORDER BY id",
            *given,
            *(last or ()),
        ).rowcount
        return copied, last[0] if last else None

    def _catch_up(self, month: _Month) -> MergeStep | None:
        """Apply a page of changes to the copy; None when there are none. Runs in its own transactions, never beside a page's: one that has read a job
        and not yet written it would bring it back."""
        changed: dict[str, list[str]] = defaultdict(list)
        for day, job in self._do(
            "DELETE FROM windlass.month_change WHERE ctid = ANY(ARRAY(SELECT ctid FROM windlass.month_change LIMIT %s)) "
            "RETURNING day, id::text",
            self._page,
        ).fetchall():
            if job is None:
                return self._abandon(month)
            changed[day].append(job)
        if not changed:
            return None
        columns = self._value(_COLUMNS)
        for day, jobs in changed.items():
            if day in month.days:
                first, end, _ = _span([day], as_month=False)
                self._do(
                    f"DELETE FROM windlass.{month.name} WHERE id = ANY(%s::uuid[]) AND finished_at >= %s AND finished_at < %s",
                    jobs,
                    partitions.midnight(first),
                    partitions.midnight(end),
                )
                self._do(
                    f"INSERT INTO windlass.{month.name} ({columns}) SELECT {columns} FROM ONLY windlass.{day} WHERE id = ANY(%s::uuid[])",
                    jobs,
                )
        self._set("waits_for = NULL")
        return MergeStep(month.name, what="caught up")

    def _swap(self, month: _Month) -> MergeStep:
        first, end, _ = _span(month.days)
        self._do("LOCK TABLE ONLY windlass.job_done IN ACCESS EXCLUSIVE MODE")
        # A session that read through job_done has ended, or is about to: its locks go one by one. One that has locked a day itself (a vacuum)
        # # is waited for only briefly while this lock is held.
        names = ", ".join(f"ONLY windlass.{day}" for day in month.days)
        self._do("SET LOCAL lock_timeout = '50ms'")
        self._do(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
        there = partitions.attached(self._connection)
        if self._value("SELECT EXISTS (SELECT FROM windlass.month_change)") or any(
            there.get(day, True) for day in month.days
        ):
            return MergeStep(month.name, what="was overtaken by a change")
        for day in month.days:
            self._do(f"ALTER TABLE windlass.job_done DETACH PARTITION windlass.{day}")
            self._do(f"COMMENT ON TABLE windlass.{day} IS '{_MERGED}'")
        partitions.attach_bounded(self._connection, month.name, first, end)
        self._do("DELETE FROM windlass.month WHERE name = %s", month.name)
        return MergeStep(month.name, merged=month.copied, what=f"took the place of {len(month.days)} days")

    def _abandon(self, month: _Month) -> MergeStep:
        """Throw the copy away; the days are as they were."""
        log.info("the days or the table of %s have changed: what was copied is thrown away", month.name)
        self._do(f"DROP TABLE IF EXISTS windlass.{month.name}")
        for day in month.days:
            if self._value("SELECT to_regclass(%s) IS NOT NULL", f"windlass.{day}"):
                for each in ("ROW", "STATEMENT"):
                    self._do(f"DROP TRIGGER IF EXISTS month_change_{each} ON windlass.{day}")
        self._do("DELETE FROM windlass.month_change")
        self._do("DELETE FROM windlass.month WHERE name = %s", month.name)
        return MergeStep(month.name, what="thrown away: its days or its table have changed")

    # ------------------------------------------------------------------ talking to the database

    def _current(self) -> _Month | None:
        row = self._do(
            "SELECT name, days, shape, day, after::text, copied, waits_for FROM windlass.month LIMIT 1"
        ).fetchone()
        return _Month(*row) if row else None

    def _require_owner(self) -> None:
        if not self._value(
            "SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class AS c WHERE c.oid = 'windlass.job_done'::regclass"
        ):
            raise pg.InsufficientPrivilege("only the owner of windlass.job_done can make months of its days")

    def _set(self, assignments: str, *given: object) -> None:
        self._do(f"UPDATE windlass.month SET {assignments}", *given)

    def _value(self, text: str, *given: object) -> Any:
        row = self._do(text, *given).fetchone()
        return row[0] if row else None

    def _do(self, text: str, *given: object) -> psycopg.Cursor[Any]:
        cursor = self._connection.cursor(row_factory=tuple_row)
        # Not prepared: the names of tables are in most of them, and each would stay with the session forever.
        return cursor.execute(text.encode(), given or None, prepare=False)


def _days_to_merge(there: dict[str, bool], today: date) -> list[str] | None:
    """The days of the oldest month that can be made. Beside partitions that are not ours nothing is made: they might have a share in it."""
    spans = {name: partitions.span_of(name) for name in there}
    months: dict[str, list[str]] = defaultdict(list)
    for name, is_half_detached in there.items():
        span = spans[name]
        if span is None or is_half_detached:
            return None
        month = partitions.month_of(span[0])
        end = partitions.span_of(month)
        if name != month and end is not None and end[1] + AGE <= today:
            months[month].append(name)
    return next((sorted(days) for _, days in sorted(months.items()) if len(days) > 1), None)


def _span(days: list[str], *, as_month: bool = True) -> tuple[date, date, str]:
    """From when to when a month (or a day) goes, and its name."""
    span = partitions.span_of(days[0])
    assert span is not None
    name = partitions.month_of(span[0]) if as_month else days[0]
    bounds = partitions.span_of(name)
    assert bounds is not None
    return *bounds, name
