"""Reading jobs, and acting on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.client import records
from windlass.client.asks.ask import AnyFilter, Ask, Stream, as_json, given, no_result, part, post, text
from windlass.client.decoding import made
from windlass.client.records import each, one
from windlass.control.job_views import JobCount, JobEvent, JobPage, JobStack, RelatedJobs
from windlass.control.why.codes import Why
from windlass.errors import ConfigError
from windlass.job_logs.lines import AttemptLog
from windlass.model import CancelResult, Job, Output, ParentCounts, Progress, Span


def get(job_id: str) -> Ask[Job]:
    """One job, wherever it is in its life; ``JobNotFoundError`` if there is none."""
    return Ask("GET", _job(job_id), records.job_of)


def get_ended(job_id: str, wait: int) -> Ask[Job]:
    """One job, as it is at its end or after ``wait`` seconds."""
    headers = {"Prefer": f"wait={wait}"} if wait else {}
    return Ask("GET", _job(job_id), records.job_of, headers=headers, wait=wait)


def list_jobs(only: AnyFilter = None, *, cursor: str | None = None, limit: int = 50) -> Ask[JobPage]:
    """Jobs from newest to oldest, a page at a time: ``client.jobs.list("state:failed kind:report*")``."""
    return Ask("GET", "/v1/jobs", records.page_of, given(q=text(only), cursor=cursor, limit=limit))


def count(only: AnyFilter = None) -> Ask[JobCount]:
    """How many jobs a filter finds, counted up to 10,000."""
    return Ask("GET", "/v1/jobs/count", one(JobCount), given(q=text(only)))


def why(job_id: str) -> Ask[Why]:
    """Why a job is not running."""
    return Ask("GET", _job(job_id, "/why"), records.why_of)


def timeline(job_id: str) -> Ask[Sequence[Span]]:
    """All attempts of a job, oldest first."""
    return Ask("GET", _job(job_id, "/timeline"), each("attempts", records.span_of))


def logs(job_id: str) -> Ask[Sequence[AttemptLog]]:
    """The lines that the job's handlers logged, attempt by attempt, oldest first."""
    return Ask("GET", _job(job_id, "/logs"), each("attempts", records.log_of))


def progress(job_id: str) -> Ask[Progress | None]:
    """How far a job is; None if it saved nothing yet."""
    return Ask("GET", _job(job_id), lambda found: records.job_of(found).progress)


def outputs(job_id: str) -> Ask[Sequence[Output]]:
    """The outputs of a job's phases in the order in which they were stored."""
    return Ask("GET", _job(job_id, "/outputs"), each("outputs", records.output_of))


def cancel(job_id: str, reason: str) -> Ask[CancelResult]:
    """Cancel a job: at once if it does not run, else its handler is asked to stop."""
    return post(_job(job_id, "/cancel"), {"reason": reason}, lambda found: CancelResult(found["result"]))


def retry(job_id: str, reason: str | None = None, *, dependents: bool = False) -> Ask[Job]:
    """Run an ended job again, its history kept; with ``dependents`` also the jobs that were cancelled because of it."""
    return post(_job(job_id, "/retry"), given(reason=reason, dependents=dependents), records.job_of)


def run_now(job_id: str, reason: str | None = None) -> Ask[Job]:
    """Make a job due that is scheduled for later, or waits for its next attempt."""
    return post(_job(job_id, "/run-now"), given(reason=reason), records.job_of)


def delete(job_id: str, reason: str) -> Ask[None]:
    """Remove an ended job with everything that is kept of it."""
    return Ask("DELETE", _job(job_id), no_result, {"reason": reason})


def edit(
    job_id: str,
    *,
    version: str,
    arguments: Mapping[str, Any] | None = None,
    priority: int | None = None,
    reason: str | None = None,
) -> Ask[Job]:
    """Change arguments or priority of a job that has not begun; ``EditConflictError`` if it has another version than ``job.version``."""
    if not version or '"' in version or not version.isascii() or not version.isprintable():
        raise ConfigError("version", version, "the version of the job that was read: job.version")
    body = as_json(given(arguments=arguments, priority=priority, reason=reason))
    return Ask("PATCH", _job(job_id), records.job_of, body=body, headers={"If-Match": f'"{version}"'})


def related(job_id: str) -> Ask[RelatedJobs]:
    """The jobs that a job waits for or was made of, and those that wait for it or are made of it, folded into groups."""
    return Ask("GET", _job(job_id, "/related"), one(RelatedJobs))


def batch(job_id: str) -> Ask[ParentCounts]:
    """How many members a batch has, and how those ended that have ended; the id is that of the job that runs last."""
    return Ask("GET", f"/v1/batches/{part(job_id)}", one(ParentCounts))


def present(job_id: str) -> Ask[None]:
    """``JobNotFoundError`` if there is no such job."""
    return Ask("GET", _job(job_id), no_result)


def stack(job_id: str, reason: str | None = None, *, timeout: float = 10.0) -> Ask[JobStack]:
    """The stack of the handler of a running job, waited for; ``ActRefusedError`` if there is none, or none in ``timeout`` seconds."""
    return post(_job(job_id, "/stack"), given(reason=reason), one(JobStack), wait=timeout)


def job_events(job_id: str, after: str | None) -> Stream[JobEvent]:
    """The events and the progress of a job; ends with the job."""
    return Stream(_job(job_id, "/events"), lambda record, _: made(JobEvent, record), last_id=after)


def _job(job_id: str, rest: str = "") -> str:
    return f"/v1/jobs/{part(job_id)}{rest}"
