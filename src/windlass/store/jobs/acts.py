"""Acts on jobs from outside their lifecycle: cancel, retry, run now, delete.

Each act is a method of its own transaction, and a method ``..._in`` for a transaction of the caller that acts on many jobs. ``also`` of the
first writes in the transaction of the act (the audit trail does), if the act changed something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from windlass.errors import ActRefusedError, IllegalTransitionError, JobNotFoundError, StoreError
from windlass.model import ON_REQUEST, CancelResult, Job, State, lifecycle
from windlass.store.database import LATER, Also, Database, Row, Transaction, nothing
from windlass.store.feature import (
    EndedJob,
    PutOff,
    Recording,
    RetriedJob,
    Retrying,
    cancelled,
    deleted,
    retry,
)
from windlass.store.ids import is_id
from windlass.store.jobs import lines
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.outcome_rows import cancelled_error
from windlass.store.jobs.record import after_end
from windlass.store.jobs.rows import MAX_MESSAGE, clean, to_job

CANCEL_PAGE = 100
"""How many jobs one transaction cancels; their rows are locked until it commits."""
TRIES = 5
"""A job in the middle of a move can be missed while one table after another is read: how often an act is tried."""

REASONS = {
    State.WAITING: ["waiting", "unlinked", "limited", "paced"],
    State.SCHEDULED: ["scheduled", "retry"],
    State.QUEUED: ["inbox"],
}
"""Why a job is in `job_later`, by the state that it shows."""
ANY_REASON = [reason for reasons in REASONS.values() for reason in reasons]


class Acts:
    """Acts on jobs from outside."""

    def __init__(self, db: Database, enqueuer: Enqueuer | None = None) -> None:
        self._db = db
        self._enqueuer = enqueuer or Enqueuer(db)

    # ------------------------------------------------------------------ cancel

    def cancel(self, job_id: str, reason: str = ON_REQUEST, *, also: Also = nothing) -> CancelResult:
        """Cancel a job: at once if no instance holds it, else by asking its holder, which stops it at the next chance.

        The reason becomes the message of the job's error; of several requests the first one's is kept.
        """

        def work(tx: Transaction) -> tuple[CancelResult | None, Sequence[Row]]:
            result, rows = self._cancel_logged(tx, job_id, reason)
            if result is not None:
                also(tx)
            return result, rows

        for _ in range(TRIES):
            result, rows = self._db.transact(work)
            for row in rows:
                lines.cancelled(row, reason)
            if result is not None:
                return result
        raise too_fast(job_id, "cancelled")

    def cancel_all(self, ids: Sequence[str], reason: str = ON_REQUEST) -> int:
        """Cancel those of these jobs that have not ended, a page of them in each transaction; returns how many were cancelled or asked to
        stop."""
        count = 0
        for place in range(0, len(ids), CANCEL_PAGE):
            page = sorted(ids[place : place + CANCEL_PAGE])
            moving, results, rows = self._db.transact(partial(self._cancel_page, page, reason))
            for row in rows:
                lines.cancelled(row, reason)
            for job_id in moving:
                with suppress(IllegalTransitionError, JobNotFoundError):
                    self.cancel(job_id, reason)
                    results += 1
            count += results
        return count

    def cancel_in(self, tx: Transaction, job_id: str, reason: str) -> CancelResult | None:
        """Cancel a job; None if it was in the middle of a move, and nothing was changed."""
        if not is_id(job_id):
            raise JobNotFoundError(job_id)
        error = cancelled_error(reason)
        live = tx.run("cancel.live", id=job_id, reason=clean(reason, MAX_MESSAGE))
        if live and live[0][0] is not None:
            cancelled(tx, [job_id])
            return CancelResult.REQUESTED
        rows = tx.run("cancel.queued", id=job_id, error=error) if live else []
        rows = rows or tx.run("cancel.later", ids=[job_id], error=error, reasons=ANY_REASON)
        if rows:
            cancelled(tx, [job_id])
            ended = [EndedJob(row[0], row[1], State.CANCELLED) for row in rows]
            after_end(Recording(tx, self._enqueuer, self._db), ended)
            return CancelResult.CANCELLED
        states = tx.run("retry.peek", id=job_id)
        if states:
            lifecycle.require("cancel", job_id, State(states[0][0]))
        if not tx.run("enqueue.present", ids=[job_id]):
            raise JobNotFoundError(job_id)
        return None

    def _cancel_page(
        self, ids: Sequence[str], reason: str, tx: Transaction
    ) -> tuple[Sequence[str], int, Sequence[Row]]:
        """Cancel jobs; returns those that were in the middle of a move, how many were cancelled, and rows for their log lines."""
        moving: Any = []
        logged: Any = []
        count = 0
        for job_id in ids:
            with suppress(IllegalTransitionError, JobNotFoundError):  # it has ended, and nothing was written
                result, rows = self._cancel_logged(tx, job_id, reason)
                logged += rows
                if result is None:
                    moving.append(job_id)
                else:
                    count += 1
        return moving, count, logged

    def _cancel_logged(
        self, tx: Transaction, job_id: str, reason: str
    ) -> tuple[CancelResult | None, Sequence[Row]]:
        """Cancel one job; returns its row, too, for the log line. After the commit the job may be pruned at any moment."""
        result = self.cancel_in(tx, job_id, reason)
        is_logged = result is CancelResult.CANCELLED and lines.log.isEnabledFor(lines.DEBUG)
        return result, tx.run("get", id=job_id) if is_logged else ()

    # ------------------------------------------------------------------ retry

    def retry(self, job_id: str, *, dependents: bool = False, also: Also = nothing) -> Job:
        """Run an ended job again: a new generation of it, at the phase where it ended, its history kept.

        A failed or cancelled job goes on at its checkpoint, with the named outputs of its phase (skipped records among them); a completed one
        starts its last phase afresh, without either. Jobs that were
        left waiting for it wait for its new end. With ``dependents`` also those that were cancelled because of it wait
        again, and those cancelled because of these, so that a graph goes on from where it failed; a job that another
        failed parent keeps from running stays cancelled until that one is retried, too. It runs for the principal that
        asked for it at first; once that is erased, the retry is refused.
        """
        job = self._done_to(job_id, "retried", lambda tx: self.retry_in(tx, job_id, dependents), also)
        lines.retried(job)
        return job

    def retry_in(self, tx: Transaction, job_id: str, dependents: bool) -> bool:
        """Retry a job; False if it ended between two reads: a row that was not locked may have been changed by another session."""
        if not is_id(job_id) or not tx.run("retry.peek", id=job_id):
            lifecycle.require("retry", job_id, self._job(tx, job_id).state)
            return False
        for _, kind, phase, flags, args, key in tx.run("retry.take", id=job_id):
            retry(Retrying(tx, self._db, dependents), [RetriedJob(job_id, kind, flags, args, key)])
            self._db.notify(tx, [phase])
        return True

    # ------------------------------------------------------------------ run now

    def run_now(self, job_id: str, *, also: Also = nothing) -> Job:
        """Make a job due that is scheduled for later, or waits for its next attempt. Limits, rates and pauses of its phase hold as for any
        other. A job that waits for something else than a time is refused (``ActRefusedError``, with the reason)."""
        return self._done_to(job_id, "run now", lambda tx: self.run_now_in(tx, job_id), also)

    def run_now_in(self, tx: Transaction, job_id: str) -> bool:
        """Make a job due; False if it was in the middle of a move, and nothing was changed."""
        if is_id(job_id) and tx.run("make_due", id=job_id):
            self._db.notify(tx, [LATER])
            return True
        job = self._job(tx, job_id)
        if job.state is not State.SCHEDULED:
            raise ActRefusedError(job_id, "run now", job.state, _why_not_now(job))
        if tx.run("is_due", id=job_id):
            raise ActRefusedError(
                job_id, "run now", job.state, "it is due already, and is about to come into its queue"
            )
        return False

    # ------------------------------------------------------------------ delete

    def delete(self, job_id: str, *, also: Also = nothing) -> None:
        """Remove an ended job with everything that is kept of it: attempts, outputs, log lines, keys, principal, edges to its parents.

        Refused (``ActRefusedError``) while a job that has not ended waits for it or may read its result. A unique key that still led to the
        job is free afterwards: a submit with that key makes a new job.
        """
        for _ in range(TRIES):
            if self._db.transact(partial(self._delete, job_id, also)):
                return
        raise too_fast(job_id, "deleted")

    def delete_in(self, tx: Transaction, job_id: str) -> bool:
        """Delete a job; False if it ended between two reads."""
        ended = tx.run("retry.peek", id=job_id) if is_id(job_id) else ()
        if not ended:
            is_now = self._job(tx, job_id).state
            if not is_now.is_final:
                raise ActRefusedError(
                    job_id, "delete", is_now, "only a job that has ended can be deleted; cancel it first"
                )
            return False
        ((state, flags, finished_at),) = ended
        at = self._db.moment(finished_at)
        deleted(tx, [EndedJob(job_id, flags, State(state))])
        tx.run("prune.delete", ids=[job_id], oldest=at, newest=at)
        return True

    def _delete(self, job_id: str, also: Also, tx: Transaction) -> bool:
        is_done = self.delete_in(tx, job_id)
        if is_done:
            also(tx)
        return is_done

    # ------------------------------------------------------------------ how it is done

    def _done_to(self, job_id: str, done: str, act: Callable[[Transaction], bool], also: Also) -> Job:
        """Do an act in a transaction of its own; returns the job as the act left it."""

        def work(tx: Transaction) -> Sequence[Row]:
            if not act(tx):
                return ()
            also(tx)
            # Read before the commit: after it the job may run, end and be pruned at any moment.
            return tx.run("get", id=job_id)

        tries = 0
        while tries < TRIES:
            try:
                if rows := self._db.transact(work):
                    return to_job(self._db, rows[0])
                tries += 1
            except PutOff as put_off:
                put_off.finish(self._db, self._enqueuer)
        raise too_fast(job_id, done)

    def _job(self, tx: Transaction, job_id: str) -> Job:
        rows = tx.run("get", id=job_id) if is_id(job_id) else []
        if not rows:
            raise JobNotFoundError(job_id)
        return to_job(self._db, rows[0])


def too_fast(job_id: str, done: str) -> StoreError:
    """The error for a job that was in the middle of a move at every try."""
    return StoreError(f"job {job_id} moves too fast to be {done}; nothing was changed, try again")


def _why_not_now(job: Job) -> str:
    if job.state is State.WAITING:
        held = {
            "limited": "it waits for a place in the limit of its phase",
            "paced": "it waits for the rate of its phase",
        }.get(job.reason or "", f"it {job.why}")
        return f"{held}, and not for a time"
    if job.state is State.QUEUED:
        return "it is in its queue already"
    return "only a job that waits for a time can be made due"
