"""The application's own tables, with the effects of the jobs.

An entry is written in the effect transaction that advances the parcel, so there must be exactly one for each phase that a
parcel completed, even if workers died. There is deliberately no unique key, so that a second entry would be counted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from windlass.model import Lease
from windlass.store.sqlite.connection import path_of

_TABLES = (
    "CREATE TABLE IF NOT EXISTS parcel_entry (round TEXT, job TEXT, phase TEXT, token BIGINT, pid BIGINT)",
    "CREATE TABLE IF NOT EXISTS parcel_recovered (round TEXT, job TEXT, verdict TEXT)",
)


class Ledger:
    """Reads and writes the tables on either database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_sqlite = url.startswith("sqlite:")

    def create(self) -> None:
        with self._connection() as connection:
            for statement in _TABLES:
                connection.execute(statement)

    def enter(self, connection: Any, lease: Lease, pid: int) -> None:
        """Write one entry, on the connection of the parcel's effect transaction."""
        row = (lease.correlation_id, lease.id, lease.phase, lease.token, pid)
        connection.execute(self._sql("INSERT INTO parcel_entry VALUES (?, ?, ?, ?, ?)"), row)

    def note_recovered(self, round_name: str, recovered: Sequence[tuple[str, str]]) -> None:
        """Write the verdicts of recovery for parcels whose worker died."""
        with self._connection() as connection:
            for job_id, verdict in recovered:
                connection.execute(
                    self._sql("INSERT INTO parcel_recovered VALUES (?, ?, ?)"), (round_name, job_id, verdict)
                )

    def entries(self, round_name: str) -> dict[str, int]:
        """Entries per phase."""
        rows = self._read(
            "SELECT phase, count(*) FROM parcel_entry WHERE round = ? GROUP BY phase ORDER BY phase",
            round_name,
        )
        return {phase: int(count) for phase, count in rows}

    def duplicates(self, round_name: str) -> int:
        """Phases of parcels that have more than one entry."""
        grouped = "SELECT 1 FROM parcel_entry WHERE round = ? GROUP BY job, phase HAVING count(*) > 1"
        return int(self._read(f"SELECT count(*) FROM ({grouped}) AS twice", round_name)[0][0])  # noqa: S608  both are ours

    def recovered(self, round_name: str) -> int:
        """Parcels recovered from dead workers."""
        return int(self._read("SELECT count(*) FROM parcel_recovered WHERE round = ?", round_name)[0][0])

    def _read(self, sql: str, round_name: str) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            rows: list[tuple[Any, ...]] = connection.execute(self._sql(sql), (round_name,)).fetchall()
            return rows

    def _sql(self, text: str) -> str:
        return text if self._is_sqlite else text.replace("?", "%s")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        if self._is_sqlite:
            connection = sqlite3.connect(path_of(self._url), timeout=30)
            try:
                with connection:
                    yield connection
            finally:
                connection.close()
        else:
            import psycopg

            with psycopg.connect(self._url) as postgres:
                yield postgres
