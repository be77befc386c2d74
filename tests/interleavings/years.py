"""History of months and years, made fast."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import psycopg
from psycopg import errors as pg

from tests.waiting import eventually
from windlass.model import MergeStep
from windlass.store.postgres import months, partitions

_DAYS = """
DO $$
DECLARE day date;
BEGIN
    FOR day IN SELECT generate_series('{first}'::date, '{last}', interval '1 day') LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS windlass.job_done_%s PARTITION OF windlass.job_done FOR VALUES FROM (%L) TO (%L)',
            to_char(day, 'YYYYMMDD'), day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
END $$
"""
_JOBS = """
INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, token, lane, generation, attempt, crashes, max_attempts, flags,
    state, kind, phase, args, result, error)
SELECT gen_random_uuid(), at, at, at, 1, 4, 1, 1, 0, 3, 0, s.state, 'old', 'old', jsonb_build_object('n', n),
    CASE WHEN s.state = 'completed' THEN to_jsonb(n) END,
    CASE WHEN s.state = 'failed' THEN '{"type": "Boom", "code": "boom", "message": "it broke"}'::jsonb END
FROM generate_series(%s::timestamptz, %s, interval '1 day') AS at
CROSS JOIN generate_series(1, %s) AS n
CROSS JOIN LATERAL (SELECT CASE WHEN n %% 2 = 0 THEN 'failed' ELSE 'completed' END AS state) AS s
"""


def fill(dsn: str, first: date, last: date, each: int = 4) -> None:
    """One partition for each day from the first to the last, with so many jobs; half of them failed."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in partitions.attached(connection):
            span = partitions.span_of(name)
            if span is not None and span[1] < partitions.today_of(connection):  # of the tests' own clock
                connection.execute(f"DROP TABLE windlass.{name}".encode())
        for begin in range(
            0, (last - first).days + 1, 50
        ):  # not all in one transaction: it would run out of locks
            end = min(last, first + timedelta(days=begin + 49))
            connection.execute(_DAYS.format(first=first + timedelta(days=begin), last=end).encode())
        noon = timedelta(hours=12)
        connection.execute(_JOBS, (partitions.midnight(first) + noon, partitions.midnight(last) + noon, each))
        connection.execute(
            "INSERT INTO windlass.delta (phase, completed, failed) SELECT 'old', count(*) FILTER (WHERE state = 'completed'), "
            "count(*) FILTER (WHERE state = 'failed') FROM windlass.job_done WHERE phase = 'old'"
        )


def ids(dsn: str, table: str = "job_done") -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [
            row[0]
            for row in connection.execute(f"SELECT id::text FROM windlass.{table} ORDER BY id".encode())
        ]


def contents(dsn: str) -> list[str]:
    """Every row of history, whole."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [
            row[0] for row in connection.execute("SELECT d::text FROM windlass.job_done AS d ORDER BY d.id")
        ]


def names(dsn: str) -> set[str]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return set(partitions.attached(connection))


def step(dsn: str, page: int = 3, around: date | None = None) -> MergeStep | None:
    """One piece of work by an instance that has no memory of those before."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return months.step(connection, most=0, page=page, around=around)


def merge(dsn: str, page: int = 3, around: date | None = None) -> list[MergeStep]:
    """Make all months that can be made."""
    done: list[MergeStep] = []

    def is_over() -> bool:
        while (made := step(dsn, page, around)) is not None:
            if made.is_waiting:
                return False
            done.append(made)
        return True

    eventually(is_over, "all months to be made")
    return done


def swap(connection: psycopg.Connection) -> MergeStep:
    """The swap, in a transaction that stays open. It waits for job_done as long as it takes, and tries again where a day is not free yet."""
    while True:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (partitions.REMOVING,))
        work = months._Work(connection, 100)
        month = work._current()
        assert month is not None
        try:
            return work._swap(month)
        except pg.LockNotAvailable:
            connection.rollback()


def until(dsn: str, what: str, page: int = 3) -> MergeStep:
    """Go on until a step says this."""
    found: list[MergeStep] = []

    def is_there() -> bool:
        made = step(dsn, page)
        assert made is not None, f"never came to {what!r}"
        found.append(made)
        return what in made.what

    eventually(is_there, what)
    return found[-1]


def two_months_ago(now: datetime) -> tuple[date, date]:
    """The first and the last day of a month that can be made."""
    last = (now - months.AGE - timedelta(days=1)).date().replace(day=1) - timedelta(days=1)
    return last.replace(day=1), last


FIRST, LAST = two_months_ago(datetime.now(UTC))
LAST_USED = FIRST + timedelta(days=5)
MONTH = partitions.month_of(FIRST)
