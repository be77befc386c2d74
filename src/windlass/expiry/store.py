"""Ends jobs that have not begun by their time.

A job has not begun as long as its row has the flag EXPIRES: it waits for its time, for other jobs, for a place or in its queue, or an instance
holds it in memory. Its row is locked first, and what its time is is read after that, because a later request may have changed it. The end is that
of a cancelled job: dependents, keys, limits and rules follow.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from windlass.model import State
from windlass.store.database import Database, Transaction
from windlass.store.feature import EndedJob, Recording, cancelled
from windlass.store.ids import SMALLEST, is_id
from windlass.store.jobs import lines
from windlass.store.jobs.enqueue import Inserter
from windlass.store.jobs.record import after_end
from windlass.store.jobs.rows import array

PAGE = 500
"""The most jobs that one transaction ends."""
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Expired:
    """A job that expired. ``token`` is that of its holder, which had not begun it; ``is_later``: it was not in its queue yet."""

    id: str
    flags: int
    token: int | None
    kind: str
    phase: str
    attempt: int
    max_attempts: int
    correlation_id: str
    is_later: bool
    expires_at: datetime

    @property
    def reason(self) -> str:
        return f"expired: it had not begun by {self.expires_at.isoformat()}"

    def row(self) -> str:
        """The JSON row that ends it."""
        error = {
            "type": "Expired",
            "code": "expired",
            "message": self.reason,
            "phase": self.phase,
            "attempt": self.attempt,
            "correlation_id": self.correlation_id,
        }
        held = {} if self.token is None else {"token": self.token}
        return json.dumps({"id": self.id, **held, "state": State.CANCELLED, "error": error})


def end_overdue(call: Recording, ids: Sequence[str]) -> list[Expired]:
    """End those of these jobs that have not begun and whose time is over; returns them."""
    locked = {row[0]: row for row in call.tx.run("expiry.lock", ids=list(ids))}
    over = call.tx.run("expiry.over", ids=sorted(locked)) if locked else []
    expired = [Expired(*(*locked[job], call.db.moment(at))) for job, at in over]
    if expired:
        _to_history(call.tx, expired)
        cancelled(call.tx, [job.id for job in expired])
        after_end(call, [EndedJob(job.id, job.flags, State.CANCELLED) for job in expired])
    return expired


def _to_history(tx: Transaction, expired: Sequence[Expired]) -> None:
    held = [job.row() for job in expired if job.token is not None]
    queued = [job.row() for job in expired if job.token is None and not job.is_later]
    later = [job.row() for job in expired if job.is_later]
    if held:
        tx.run("record.finish", outcomes=array(held))
    if queued:
        tx.run("expiry.queued", jobs=array(queued))
    if later:
        tx.run("expiry.later", jobs=array(later))


def log_expired(expired: Sequence[Expired]) -> None:
    """Log each of these jobs."""
    for job in expired:
        lines.expired(job, job.reason, job.expires_at)


class Expiries:
    """Shows until when jobs must have begun, and cancels those that have not."""

    def __init__(self, db: Database, inserter: Inserter) -> None:
        self._db = db
        self._inserter = inserter

    def get(self, job_id: str) -> datetime | None:
        """Until when a job must have begun; None if it has no such time, or has begun or ended."""
        rows = self._db.read("expiry.get", id=job_id) if is_id(job_id) else []
        return self._db.moment(rows[0][0]) if rows else None

    def cancel_due(self, page: int = PAGE) -> int:
        """Cancel all jobs whose time is over, a page in each transaction; returns how many. Jobs that other sessions have locked are left
        for the next call. Safe on every instance at once."""
        count, after = 0, (BEGINNING, SMALLEST)
        while due := self._db.read("expiry.due", after_at=after[0], after_job=after[1], limit=page):
            ids = [row[0] for row in due]
            expired = self._db.transact(partial(self._cancel, ids))
            log_expired(expired)
            count += len(expired)
            after = self._db.moment(due[-1][1]), due[-1][0]
        return count

    def _cancel(self, ids: Sequence[str], tx: Transaction) -> list[Expired]:
        expired = end_overdue(Recording(tx, self._inserter, self._db), ids)
        over = {job.id for job in expired}
        if left := [job for job in ids if job not in over]:
            tx.run("expiry.stale", ids=left)
        return expired
