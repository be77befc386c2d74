"""The example's own tables: one row per record of a report, written in the commit that advances the report."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from windlass.store.sqlite.connection import path_of

CREATE = "CREATE TABLE IF NOT EXISTS demo_hours (report TEXT, record INTEGER, hours INTEGER)"


class Tables:
    """The table of records. It deliberately has no unique key, so that a record that is written twice would be counted."""

    @staticmethod
    def create(url: str) -> None:
        """Make the table, on either database."""
        if url.startswith("sqlite:"):
            with closing(sqlite3.connect(path_of(url), timeout=30)) as connection, connection:
                connection.execute(CREATE)
            return
        import psycopg

        with psycopg.connect(url, autocommit=True) as session:
            session.execute(CREATE)

    @staticmethod
    def write(connection: Any, report: str, offset: int, limit: int) -> None:
        """Write the records of one chunk."""
        rows = [(report, number, hours_of(number)) for number in range(offset, offset + limit)]
        mark = _mark(connection)
        cursor = connection.cursor()
        cursor.executemany(f"INSERT INTO demo_hours VALUES ({mark}, {mark}, {mark})", rows)  # noqa: S608  a mark, no value
        cursor.close()

    @staticmethod
    def add_up(connection: Any, report: str) -> dict[str, Any]:
        """Sum up a report; ``twice`` is how many records were written more than once."""
        mark = _mark(connection)
        cursor = connection.cursor()
        cursor.execute(
            f"SELECT count(*), count(DISTINCT record), sum(hours) FROM demo_hours WHERE report = {mark}",  # noqa: S608
            (report,),
        )
        records, distinct, hours = (int(value or 0) for value in cursor.fetchone())
        cursor.close()
        return {"records": records, "twice": records - distinct, "hours": hours}


def hours_of(record: int) -> int:
    """The hours of a record: any number, but always the same."""
    return (record * 7919) % 41


def _mark(connection: Any) -> str:
    return "?" if isinstance(connection, sqlite3.Connection) else "%s"
