"""The job that this thread or task runs, for log lines: set by the executors, read by the log handler.

It is here, below the engine, so that logging depends only on the lease of a running job and its processor's name.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from windlass.model import Job, Lease


class Named(Protocol):
    @property
    def name(self) -> str: ...


class CurrentJob(Protocol):
    """A job on a processor, as log lines show it."""

    @property
    def lease(self) -> Lease: ...

    @property
    def processor(self) -> Named: ...


current_job: ContextVar[CurrentJob | None] = ContextVar("windlass_current_job", default=None)
"""The job that this thread or task runs; None outside of handlers."""


def lease_fields(lease: Lease | Job) -> dict[str, Any]:
    """The fields of every log line about a job, by their names in JSON."""
    return {
        "job_id": lease.id,
        "kind": lease.kind,
        "phase": lease.phase,
        "attempt": lease.attempt,
        "max_attempts": lease.max_attempts,
        "correlation_id": lease.correlation_id,
    }


def current_fields() -> dict[str, Any]:
    """The fields of the job that runs here, with its processor; empty outside of handlers."""
    job = current_job.get()
    if job is None:
        return {}
    return {**lease_fields(job.lease), "processor": job.processor.name}
