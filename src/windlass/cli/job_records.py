"""Jobs as commands print them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from windlass.cli.control import span

if TYPE_CHECKING:
    from windlass.model import Job

COLUMNS = ("id", "kind", "phase", "state", "tries", "progress", "age", "note")
"""What a table of jobs shows."""
FIELDS = (
    *(
        "id",
        "title",
        "kind",
        "phase",
        "state",
        "reason",
        "priority",
        "generation",
        "attempt",
        "max_attempts",
        "progress",
    ),
    *(
        "created_at",
        "updated_at",
        "run_at",
        "started_at",
        "finished_at",
        "cancel_requested_at",
        "correlation_id",
    ),
    *("args", "result", "error", "version"),
)
"""What JSON and CSV have of a job."""


def row_of(job: Job) -> dict[str, Any]:
    """A job as a row of a table."""
    age = (datetime.now(UTC) - job.created_at).total_seconds()
    return {
        "id": job.id,
        "kind": job.kind,
        "phase": job.phase,
        "state": str(job.state),
        "tries": f"{job.attempt}/{job.max_attempts}",
        "progress": done_of(job),
        "age": span(max(0.0, age)),
        "note": error_of(job.error) if job.error else job.why,
    }


def record_of(job: Job) -> dict[str, Any]:
    """All facts of a job."""
    progress = job.progress
    found = {name: getattr(job, name) for name in FIELDS}
    found["state"] = str(job.state)
    found["progress"] = None if progress is None else {"done": progress.done, "total": progress.total}
    return found


def done_of(job: Job) -> str | None:
    """How far a job is, for people: 40/120 (33 %)."""
    progress = job.progress
    if progress is None:
        return None
    if progress.total is None:
        return f"{progress.done:,}"
    return f"{progress.done:,}/{progress.total:,} ({progress.percent:.0f} %)"


def error_of(error: Mapping[str, Any] | None) -> str | None:
    """An error in one line: its type and its message, or its code where no exception was raised."""
    if not error:
        return None
    name = error.get("type") or error.get("code") or "error"
    message = str(error.get("message") or "")
    if message.startswith(f"{name}:"):
        return message
    return f"{name}: {message}" if message else str(name)
