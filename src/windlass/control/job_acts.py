"""Acting on one job: cancel, retry, run now, delete. Each act and its audit record are one transaction.

The audit record has what the act changed: the state and the facts beside it before and after. Acts of application code on its own jobs
(``JobHandle.cancel``, ``JobHandle.retry``, ``ctx.enqueue``) are no acts of people: they are not audited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from windlass.audit.record import AuditRecord
from windlass.control.given import check_texts
from windlass.control.job_reading import JobReading
from windlass.control.noun import off_loop
from windlass.errors import ConfigError
from windlass.model import CancelResult, Job
from windlass.store.database import Also, Transaction
from windlass.store.jobs.rows import to_job
from windlass.store.validators import is_text

T = TypeVar("T")


class JobActs(JobReading):
    """Acts on jobs. A job outside the actor's scope is refused like one that does not exist, and nothing is changed or recorded."""

    def cancel(self, job_id: str, reason: str) -> CancelResult:
        """Cancel a job: at once if no instance holds it, else by asking its holder, which stops it at the next chance.

        The reason becomes the message of the job's error; of several requests the first one's is kept.
        """
        require_reason(reason)
        return self._act(
            "job.cancel", job_id, reason, lambda also: self._store.jobs.cancel(job_id, reason, also=also)
        )

    def retry(self, job_id: str, reason: str | None = None, *, dependents: bool = False) -> Job:
        """Run an ended job again: a new generation of it, at the phase where it ended, its history kept.

        With ``dependents`` also the jobs that were cancelled because of it wait again. Returns the job as it is now.
        """
        return self._payload.job(
            self._act(
                "job.retry",
                job_id,
                reason,
                lambda also: self._store.jobs.retry(job_id, dependents=dependents, also=also),
            )
        )

    def run_now(self, job_id: str, reason: str | None = None) -> Job:
        """Make a job due that is scheduled for later, or waits for its next attempt; limits, rates and pauses of its phase hold.

        ``ActRefusedError``, with the reason, for a job that waits for something else than a time. Returns the job as it is now.
        """
        return self._payload.job(
            self._act("job.run_now", job_id, reason, lambda also: self._store.jobs.run_now(job_id, also=also))
        )

    def delete(self, job_id: str, reason: str) -> None:
        """Remove an ended job with everything that is kept of it: attempts, outputs, log lines, keys, principal.

        ``ActRefusedError`` for a job that has not ended, and while a job that has not ended needs its result. The audit trail keeps who
        deleted it, and its kind, phase and state.
        """
        require_reason(reason)
        self._act("job.delete", job_id, reason, lambda also: self._store.jobs.delete(job_id, also=also))

    cancel_async = off_loop(cancel)
    retry_async = off_loop(retry)
    run_now_async = off_loop(run_now)
    delete_async = off_loop(delete)

    def _act(
        self,
        act: str,
        job_id: str,
        reason: str | None,
        work: Callable[[Also], T],
        facts: Callable[[Job], Mapping[str, Any]] | None = None,
    ) -> T:
        """Do an act with its record in one transaction."""
        check_texts(reason=reason)
        self._require_job(job_id)
        shown = facts or facts_of
        before = shown(self._store.jobs.get(job_id))
        written: list[AuditRecord] = []

        def also(tx: Transaction) -> None:
            rows = tx.run("get", id=job_id)
            after = shown(to_job(self._store.db, rows[0])) if rows else None
            record = self._record(act, "job", job_id, reason, before=before, after=after)
            self._store.audit.write(tx, record)
            written[:] = [record]  # a transaction may be repeated

        result = work(also)
        for record in written:
            self._source.audited(record)
        return result


def facts_of(job: Job) -> Mapping[str, Any]:
    """What the audit trail says of a job: enough to know it after it is gone, and nothing of its arguments."""
    facts: dict[str, Any] = {
        "kind": job.kind,
        "phase": job.phase,
        "state": str(job.state),
        "generation": job.generation,
    }
    for name, moment in (("run_at", job.run_at), ("cancel_requested_at", job.cancel_requested_at)):
        if moment is not None:
            facts[name] = moment.isoformat()
    if job.error is not None and "code" in job.error:
        facts["error_code"] = job.error["code"]
    return facts


def require_reason(reason: object) -> None:
    """Refuse an act without a reason."""
    if not is_text(reason) or not reason.strip():
        raise ConfigError("reason", reason, "a short reason, for the job's error and the audit trail")
