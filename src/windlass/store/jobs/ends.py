"""Ends of jobs, for callers that wait for them: read by id, and announced by notifications where the database has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windlass.store.database import CHANNEL, ENDS_CHANNEL, WAITERS, Database, Listener
from windlass.store.ids import is_id
from windlass.store.jobs.rows import to_error

_EPOCH = datetime(1971, 1, 1, tzinfo=UTC)
_PAYLOAD = 200
"""The most ids in one notification, whose text may have 8,000 bytes."""


@dataclass(frozen=True, slots=True)
class EndedResult:
    """How a job ended: its state, its result as JSON text, its error."""

    id: str
    kind: str
    state: str
    result: str | None
    error: Mapping[str, Any] | None


class Ends:
    """Reads and announces the ends of jobs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, ids: Sequence[str], since: datetime | None = None) -> list[EndedResult]:
        """Those of these jobs that have ended; only those that ended after ``since``, which spares a read of older history."""
        known = [job for job in ids if is_id(job)]
        if not known:
            return []
        rows = self._db.read("ends.of", ids=known, since=self._db.stamp(since or _EPOCH))
        moment = self._db.moment
        return [EndedResult(row[0], row[1], row[2], row[3], to_error(row[4], moment(row[5]))) for row in rows]

    def present(self, ids: Sequence[str]) -> Collection[str]:
        """Those of these jobs that exist, in any state."""
        known = [job for job in ids if is_id(job)]
        return {row[0] for row in self._db.read("enqueue.present", ids=known)} if known else ()

    def listen(self) -> Listener:
        """Open a listener for announcements of ends."""
        return self._db.listen(ENDS_CHANNEL)

    @property
    def hints_without_ids(self) -> bool:
        """Whether hints say only that something was committed."""
        return not self._db.notifies

    def named(self, hints: Iterable[str]) -> set[str] | None:
        """The jobs that these announcements name; None if any job may have ended."""
        found: set[str] = set()
        for hint in hints:
            if hint.startswith("@"):
                return None
            found.update(hint.split())
        return found

    def ask(self) -> None:
        """Ask all workers to announce ends for a while."""
        if self._db.notifies:
            self._db.run("ends.notify", channel=CHANNEL, texts=[WAITERS])

    def announce(self, ids: Sequence[str]) -> None:
        """Announce that these jobs have ended."""
        if self._db.notifies:
            texts = [" ".join(ids[start : start + _PAYLOAD]) for start in range(0, len(ids), _PAYLOAD)]
            self._db.run("ends.notify", channel=ENDS_CHANNEL, texts=texts)
