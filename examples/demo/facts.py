"""Counts what a demonstration led to, from its jobs, their timelines and the rows that they wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass import App, Job
from windlass_examples.running.database import connected, execute

PAGES, EXPORTS, SUMMARY = "visibility", ("hours", "leave"), "summary"
KINDS = (PAGES, *EXPORTS, SUMMARY)


@dataclass(frozen=True, slots=True)
class Facts:
    """The result of a demonstration."""

    states: Mapping[str, int]
    phases: int
    rows: int
    retries: int
    duplicates: int
    twice: int
    missing: int
    seconds: float
    is_interrupted: bool

    @property
    def is_right(self) -> bool:
        """Whether each completed job has its row, once."""
        return self.twice == 0 and self.missing == 0

    def table(self) -> list[dict[str, Any]]:
        counts: dict[str, int | float] = {"jobs": sum(self.states.values()), **self.states}
        counts |= {
            "phases completed": self.phases,
            "rows exported": self.rows,
            "retries": self.retries,
            "duplicates prevented": self.duplicates,
            "results twice": self.twice,
            "results missing": self.missing,
            "seconds": round(self.seconds, 1),
        }
        return [{"what": what, "count": count} for what, count in counts.items()]


def jobs_after(app: App, newest: str) -> list[Job]:
    """The jobs of both examples that are newer than one of them, newest first."""
    found: list[Job] = []
    for job in app.jobs.iterate():
        if job.id <= newest:
            break
        if job.kind in KINDS:
            found.append(job)
    return found


def count(app: App, jobs: Sequence[Job], *, duplicates: int, seconds: float, is_interrupted: bool) -> Facts:
    """Count attempts and rows of these jobs."""
    outcomes = Counter(span.outcome for job in jobs for span in app.jobs.timeline(job.id))
    with connected(app.url) as connection:
        written = Counter(
            str(job)
            for table in ("visibility_result", "report")
            for (job,) in execute(connection, f"SELECT job FROM {table}").fetchall()  # noqa: S608  constants
        )
    completed = [job for job in jobs if job.state == "completed"]
    return Facts(
        states=dict(Counter(str(job.state) for job in jobs)),
        phases=outcomes["advanced"] + outcomes["completed"],
        rows=sum(job.result["rows"] for job in completed if job.kind in EXPORTS),
        retries=outcomes["retried"] + outcomes["recovered"],
        duplicates=duplicates,
        twice=sum(written[job.id] > 1 for job in jobs),
        missing=sum(not written[job.id] for job in completed),
        seconds=seconds,
        is_interrupted=is_interrupted,
    )
