"""Shows, lists, cancels and retries jobs from outside their lifecycle."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from windlass.errors import (
    ConfigError,
    JobNotFoundError,
    StoreError,
    did_you_mean,
)
from windlass.model import (
    ON_REQUEST,
    Attempt,
    CancelResult,
    Job,
    JobFilter,
    Page,
    Progress,
    Span,
    State,
    lifecycle,
)
from windlass.store.database import Database, Row, Transaction
from windlass.store.feature import EndedJob, PutOff, Recording, RetriedJob, Retrying, features, retry
from windlass.store.ids import LARGEST, is_id
from windlass.store.jobs import lines, progress
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.finish_rows import cancelled_error
from windlass.store.jobs.record import after_end
from windlass.store.jobs.rows import MAX_MESSAGE, clean, to_attempt, to_job, to_span

MAX_PAGE = 1000
_TRIES = 5  # a job in the middle of a move can be missed while one table after another is read

_REASONS = {
    State.WAITING: ["waiting", "unlinked", "limited", "paced"],
    State.SCHEDULED: ["scheduled", "retry"],
    State.QUEUED: ["inbox"],
}


_ANY_REASON = [reason for reasons in _REASONS.values() for reason in reasons]

_Read = Callable[[dict[str, Any]], Sequence[Row]]


class Jobs:
    """Reads jobs and acts on them from outside."""

    def __init__(self, db: Database, enqueuer: Enqueuer | None = None) -> None:
        self._db = db
        self._enqueuer = enqueuer or Enqueuer(db)

    def get(self, job_id: str) -> Job:
        """One job, wherever it is in its life."""
        rows = self._db.read("get", id=job_id) if is_id(job_id) else []
        if not rows:
            raise JobNotFoundError(job_id)
        return to_job(self._db, rows[0])

    def attempts(self, job_id: str) -> Sequence[Attempt]:
        """The attempts that did not end the job, oldest first; the one that did is the job itself."""
        return (
            [to_attempt(self._db, row) for row in self._db.read("attempts", id=job_id)]
            if is_id(job_id)
            else []
        )

    def timeline(self, job_id: str) -> Sequence[Span]:
        """All attempts of a job, oldest first, with any outcome; the last one may be running."""
        rows = self._db.read("timeline", id=job_id) if is_id(job_id) else []
        if not rows and not (is_id(job_id) and self._db.read("enqueue.present", ids=[job_id])):
            raise JobNotFoundError(job_id)
        return [to_span(self._db, row) for row in rows]

    def progress(self, job_id: str) -> Progress | None:
        """The saved position of a live job, or None at the beginning."""
        return progress.load(self._db, job_id) if is_id(job_id) else None

    def list(self, only: JobFilter | None = None, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Jobs from newest to oldest id, a page at a time. Ids are only roughly in order of creation."""
        only = only or JobFilter()
        if only.state is not None and only.state not in tuple(State):
            near = did_you_mean(str(only.state), list(State))
            raise ConfigError("state", only.state, f"one of {', '.join(State)}{near}")
        if not 1 <= limit <= MAX_PAGE:
            raise ConfigError("limit", limit, f"a whole number from 1 to {MAX_PAGE}")
        if cursor is not None and not is_id(cursor):
            raise ConfigError("cursor", cursor, "the next_cursor of the page before")
        common = {
            "before": cursor or LARGEST,
            "limit": limit + 1,
            "kind": only.kind,
            "phase": only.phase,
            "correlation": only.correlation_id,
        }
        found = heapq.merge(
            *(
                [to_job(self._db, row) for row in read(common)]
                for read in self._reads(None if only.state is None else State(only.state))
            ),
            key=lambda job: job.id,
            reverse=True,
        )
        # Tables are read one after the other: a job that moved in between shows up twice, and counts once.
        jobs = {job.id: job for job, _ in zip(found, range(2 * limit + 2), strict=False)}
        page = list(jobs.values())[:limit]
        return Page(page, page[-1].id if len(jobs) > limit else None)

    def cancel(self, job_id: str, reason: str = ON_REQUEST) -> CancelResult:
        """Cancel a job: at once if no instance holds it, else by asking its holder, which stops it at the next chance.

        The reason becomes the message of the job's error; of several requests the first one's is kept.
        """
        if not is_id(job_id):
            raise JobNotFoundError(job_id)

        def work(tx: Transaction) -> tuple[CancelResult | None, Sequence[Row]]:
            result = self._cancel(tx, job_id, reason)
            # For the log line. After the commit the job may be pruned at any moment.
            is_logged = result is CancelResult.CANCELLED and lines.log.isEnabledFor(lines.DEBUG)
            return result, tx.run("get", id=job_id) if is_logged else ()

        for _ in range(_TRIES):
            result, rows = self._db.transact(work)
            for row in rows:
                lines.cancelled(row, reason)
            if result is not None:
                return result
        raise StoreError(f"job {job_id} moves too fast to be cancelled; nothing was changed, try again")

    def retry(self, job_id: str, *, dependents: bool = False) -> Job:
        """Run an ended job again: a new generation of it, at the phase where it ended, its history kept.

        A failed or cancelled job goes on at its checkpoint, with the named outputs of its phase (skipped records among them); a completed one
        starts its last phase afresh, without either. Jobs that were
        left waiting for it wait for its new end. With ``dependents`` also those that were cancelled because of it wait
        again, and those cancelled because of these, so that a graph goes on from where it failed; a job that another
        failed parent keeps from running stays cancelled until that one is retried, too. It runs for the principal that
        asked for it at first; once that is erased, the retry is refused.
        """

        def work(tx: Transaction) -> Sequence[Row]:
            # Read before the commit: after it the job may run, end and be pruned at any moment.
            return tx.run("get", id=job_id) if self._retry(tx, job_id, dependents) else ()

        tries = 0
        while tries < _TRIES:
            try:
                if rows := self._db.transact(work):
                    job = to_job(self._db, rows[0])
                    lines.retried(job)
                    return job
                tries += 1
            except PutOff as put_off:
                put_off.finish(self._db, self._enqueuer)
        raise StoreError(f"job {job_id} moves too fast to be retried; nothing was changed, try again")

    def _reads(self, state: State | None) -> Sequence[_Read]:
        def live(held: bool | None) -> _Read:
            return lambda common: self._db.read("list.live", held=held, **common)

        def later(reasons: Sequence[str]) -> _Read:
            return lambda common: self._db.read("list.later", reasons=list(reasons), **common)

        def done(ended: State) -> _Read:
            if ended is State.COMPLETED:
                return lambda common: self._db.read("list.completed", **common)
            return lambda common: self._db.read("list.ended_badly", state=str(ended), **common)

        match state:
            case None:
                return [live(None), later(_ANY_REASON), *(done(s) for s in State if s.is_final)]
            case State.QUEUED:
                return [live(False), later(_REASONS[State.QUEUED])]
            case State.PROCESSING:
                return [live(True)]
            case State.WAITING | State.SCHEDULED:
                return [later(_REASONS[state])]
            case _:
                return [done(state)]

    def _cancel(self, tx: Transaction, job_id: str, reason: str) -> CancelResult | None:
        error = cancelled_error(reason)
        live = tx.run("cancel.live", id=job_id, reason=clean(reason, MAX_MESSAGE))
        if live and live[0][0] is not None:
            _cancelled(tx, job_id)
            return CancelResult.REQUESTED
        rows = tx.run("cancel.queued", id=job_id, error=error) if live else []
        rows = rows or tx.run("cancel.later", ids=[job_id], error=error, reasons=_ANY_REASON)
        if rows:
            _cancelled(tx, job_id)
            ended = [EndedJob(row[0], row[1], State.CANCELLED) for row in rows]
            after_end(Recording(tx, self._enqueuer, self._db), ended)
            return CancelResult.CANCELLED
        states = tx.run("retry.peek", id=job_id)
        if states:
            lifecycle.require("cancel", job_id, State(states[0][0]))
        if not tx.run("enqueue.present", ids=[job_id]):
            raise JobNotFoundError(job_id)
        return None

    def _retry(self, tx: Transaction, job_id: str, dependents: bool) -> bool:
        """False if the job ended between two reads: a row that was not locked may have been changed by another session."""
        if not is_id(job_id):
            raise JobNotFoundError(job_id)
        ended = tx.run("retry.peek", id=job_id)
        if not ended:
            rows = tx.run("get", id=job_id)
            if not rows:
                raise JobNotFoundError(job_id)
            lifecycle.require("retry", job_id, to_job(self._db, rows[0]).state)
            return False
        for _, kind, phase, flags, args, key in tx.run("retry.take", id=job_id):
            retry(Retrying(tx, self._db, dependents), [RetriedJob(job_id, kind, flags, args, key)])
            self._db.notify(tx, [phase])
        return True


def _cancelled(tx: Transaction, job_id: str) -> None:
    for feature in features():
        feature.on_cancel(tx, job_id)
