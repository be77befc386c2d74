"""Limited jobs, and sessions that hold rows of limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg

from tests.limits.limited import limited as limited_jobs
from windlass.features import Store

limited = partial(limited_jobs, limit=1)


@contextmanager
def locked(dsn: str, table: str, where: str = "TRUE") -> Iterator[psycopg.Connection]:
    """Inside, another session holds these rows."""
    with psycopg.connect(dsn) as other:
        assert other.execute(f"SELECT FROM windlass.{table} WHERE {where} FOR UPDATE".encode()).rowcount
        yield other
        other.rollback()


def reasons(store: Store, ids: list[str]) -> list[str]:
    return [store.jobs.get(job_id).reason or str(store.jobs.get(job_id).state) for job_id in ids]
