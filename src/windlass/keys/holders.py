"""Which jobs have a unique key."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.store.database import Database
from windlass.store.jobs.search import JobSearch


class KeyHolders:
    """Finds jobs by their unique keys."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._search = JobSearch(db)

    def jobs(self, keys: Sequence[str], before: str, limit: int) -> list[str]:
        """The ids of jobs that keys (``kind:key``) lead to, or that held one of them when they ended, newest first."""
        rows = self._db.read("key.jobs", keys=list(keys), before=before, limit=limit)
        ended = self._search.keyed(keys, before, limit)
        return sorted({*ended, *(row[0] for row in rows)}, reverse=True)[:limit]
