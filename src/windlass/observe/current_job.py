"""The job that this thread or task works on, for log lines: set by the executors, read by the log handler.

It lives here, below the engine, so that logging needs to know no more of a running job than its lease and its processor's name.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from windlass.model import Job, Lease


class Named(Protocol):
    @property
    def name(self) -> str: ...


class CurrentJob(Protocol):
    """A job on a processor, as far as a log line shows it."""

    @property
    def lease(self) -> Lease: ...

    @property
    def processor(self) -> Named: ...


current_job: ContextVar[CurrentJob | None] = ContextVar("windlass_current_job", default=None)
"""The job that this thread or task runs; None outside of handlers."""


def lease_fields(lease: Lease | Job) -> dict[str, Any]:
    """What every line about a job has, held or not, under the names it has in the JSON."""
    return {
        "job_id": lease.id,
        "kind": lease.kind,
        "phase": lease.phase,
        "attempt": lease.attempt,
        "max_attempts": lease.max_attempts,
        "correlation_id": lease.correlation_id,
    }


def current_fields() -> dict[str, Any]:
    """The same for the job that runs here, with its processor; empty outside of handlers."""
    job = current_job.get()
    if job is None:
        return {}
    return {**lease_fields(job.lease), "processor": job.processor.name}
