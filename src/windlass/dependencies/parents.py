"""Reads the parents of a job page by page: results of ten thousand parents never have to fit in memory.

An edge has the time at which the end of its parent was noted, which is at or soon after the end itself. On PostgreSQL a page is searched for in
the days of history around these times alone. A parent that is not there (it was retried by hand since, or its children were settled much
later) is searched for in all of history, then among the jobs that live; one that is nowhere was pruned.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from windlass.model import Json, ParentCounts, ParentPage, State, StoredParent
from windlass.store.database import Database, Row
from windlass.store.ids import SMALLEST
from windlass.store.jobs.rows import to_error

PAGE = 1000
"""The most parents of a page."""
BYTES = 2**20
"""A page ends with the result that reaches so many bytes."""
EARLIER = timedelta(hours=1)
"""How long before an edge was marked its parent may have ended, to be found by the first search."""
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(3000, 1, 1, tzinfo=UTC)


class ParentReader:
    """Reads the parents of jobs."""

    def __init__(self, db: Database, *, limit: int = PAGE, most: int = BYTES) -> None:
        self._db = db
        self._limit = limit
        self._most = most

    def page(self, child: str, after: str = SMALLEST) -> ParentPage:
        """The parents of a job with ids behind ``after``."""
        edges = self._db.read("parents.page", child=child, after=after, limit=self._limit)
        if not edges:
            return ParentPage([], None)
        ended = {row[0]: State(row[1]) for row in edges if row[1] is not None}
        times = [at for row in edges if (at := self._db.moment(row[2])) is not None]
        oldest, newest = (min(times) - EARLIER, max(times)) if times else (BEGINNING, BEGINNING)
        rows = self._read([row[0] for row in edges], oldest, newest)
        found = {row[0]: self._ended(row) for row in rows if row[1] is not None}
        found |= self._elsewhere([row[0] for row in rows if row[1] is None])
        parents = [
            found.get(row[0])
            or StoredParent(row[0], None, ended.get(row[0], State.CANCELLED), None, None, is_gone=True)
            for row in rows
        ]
        is_last = len(rows) == len(edges) < self._limit
        return ParentPage(parents, None if is_last else parents[-1].id)

    def newest(self, child: str, before: str, limit: int) -> list[str]:
        """The ids of the newest parents of a job before an id: of the summary job of a batch, the members."""
        return [row[0] for row in self._db.read("parents.newest", child=child, before=before, limit=limit)]

    def count(self, child: str) -> ParentCounts:
        """How many parents a job has, and how they had ended when it was let go."""
        found = {row[0]: int(row[1]) for row in self._db.read("parents.count", child=child)}
        total = sum(found.values())
        return ParentCounts(total, **{state: n for state, n in found.items() if state is not None})

    def _elsewhere(self, ids: Sequence[str]) -> dict[str, StoredParent]:
        """Parents that did not end where their edges say."""
        found: dict[str, StoredParent] = {}
        left = list(ids)
        while left:
            rows = self._read(left, BEGINNING, END)
            found |= {row[0]: self._ended(row) for row in rows if row[1] is not None}
            left = left[len(rows) :]
        missing = [job_id for job_id in ids if job_id not in found]
        for job_id, kind, state in self._db.read("parents.live", ids=missing) if missing else ():
            found[job_id] = StoredParent(job_id, kind, State(state), None, None)
        return found

    def _read(self, ids: Sequence[str], oldest: datetime, newest: datetime) -> list[Row]:
        return self._db.read("parents.read", ids=list(ids), oldest=oldest, newest=newest, bytes=self._most)

    def _ended(self, row: Row) -> StoredParent:
        job_id, kind, state, result, error, finished_at = row
        return StoredParent(
            job_id,
            kind,
            State(state),
            None if result is None else Json(result),
            to_error(error, self._db.moment(finished_at)),
        )
