"""Searches for jobs, a window of rows at a time. What a search asks for comes as bound parameters (sql/both/search.sql)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.model import Job, State
from windlass.store.database import Database, Row
from windlass.store.ids import SMALLEST
from windlass.store.jobs.rows import to_job

_LIVE = {State.QUEUED, State.PROCESSING}
_LATER = {State.WAITING, State.SCHEDULED, State.QUEUED}


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a search: the ids that were ``found`` among ``searched`` rows, newest first, down to the row ``lowest``; ``is_last`` if there are no
    older rows."""

    found: Sequence[str]
    lowest: str
    searched: int
    is_last: bool


class JobSearch:
    """Reads windows of jobs, and jobs by their ids, with conditions."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def scan(
        self, states: Collection[State], before: str, size: int, conditions: Mapping[str, Any]
    ) -> Window:
        """A window over the tables that can hold jobs of these states."""
        wanted = set(states)
        is_any_end = State.COMPLETED in wanted
        tables = {
            "live": bool(wanted & _LIVE),
            "later": bool(wanted & _LATER),
            "ended": is_any_end,
            "failed": State.FAILED in wanted and not is_any_end,
            "cancelled": State.CANCELLED in wanted and not is_any_end,
        }
        starts = {table: before if is_read else SMALLEST for table, is_read in tables.items()}
        return _window(self._db.read("search.scan", limit=size, **starts, **conditions), size)

    def of_kind(self, kind: str, before: str, size: int, conditions: Mapping[str, Any]) -> Window:
        """A window over the failed and cancelled jobs of a kind."""
        rows = self._db.read("search.kind", kind=kind, before=before, limit=size, **conditions)
        return _window(rows, size)

    def keyed(self, keys: Sequence[str], before: str, limit: int) -> list[str]:
        """The ids of ended jobs that held one of these keys (``kind:key``), newest first."""
        return [row[0] for row in self._db.read("search.keyed", keys=list(keys), before=before, limit=limit)]

    def held(self, limit: int) -> list[str]:
        """The ids of processing jobs, at most so many; on SQLite there may be more of them behind a very long queue."""
        return [row[0] for row in self._db.read("search.held", limit=limit)]

    def queued(self, phase: str, limit: int) -> list[str]:
        """The ids of jobs in the queue of a phase, at most so many."""
        return [row[0] for row in self._db.read("search.queued", phase=phase, limit=limit)]

    def among(self, ids: Sequence[str], conditions: Mapping[str, Any]) -> list[str]:
        """Those of these ids whose jobs meet the conditions, newest first."""
        rows = self._db.read("search.ids", ids=list(ids), **conditions) if ids else []
        return sorted((row[0] for row in rows), reverse=True)

    def fetch(self, ids: Sequence[str], conditions: Mapping[str, Any]) -> list[Job]:
        """Those of these jobs that meet the conditions now, newest first."""
        rows = self._db.read("search.fetch", ids=list(ids), **conditions) if ids else []
        return sorted((to_job(self._db, row) for row in rows), key=lambda job: job.id, reverse=True)


def _window(rows: Sequence[Row], size: int) -> Window:
    """The last row is the oldest of the window, with the number of rows; no row at all if the window is empty."""
    if not rows:
        return Window((), SMALLEST, 0, is_last=True)
    lowest, searched = next((row[0], int(row[1])) for row in rows if row[1] is not None)
    found = sorted((row[0] for row in rows if row[1] is None), reverse=True)
    return Window(found, lowest, searched, is_last=searched < size)
