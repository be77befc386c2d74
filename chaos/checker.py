"""Holds the ledger against the database when everything has been done: what was lost, doubled, made up, stuck or overspent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from chaos.bed import Bed
from chaos.findings import Findings

WITH_EFFECT = frozenset({"order", "letter", "press", "blocker", "witness"})
FINAL = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Row:
    """A job as it stands at the end."""

    id: str
    kind: str
    state: str
    attempt: int
    max_attempts: int
    crashes: int
    error: Any


def rows(bed: Bed) -> dict[str, Row]:
    """Every job of the database by its id."""
    columns = "CAST(id AS text), kind, state, attempt, max_attempts, crashes, CAST(error AS text)"
    return {row[0]: Row(*row) for row in bed.query(f"SELECT {columns} FROM {bed.table('jobs')}")}


def check(bed: Bed, findings: Findings, *, bad: Collection[str] = ()) -> dict[str, Row]:
    """The counts that must be zero in every experiment; ``bad`` are jobs that are not expected to complete."""
    jobs = rows(bed)
    acknowledged = bed.ledger.acknowledged()
    effects = Counter[str](row[0] for row in bed.query("SELECT job FROM chaos_effect"))
    starts = Counter(start.job for start in bed.ledger.starts())
    known, harmful = set(acknowledged), set(bad)
    findings.note("jobs accepted", len(acknowledged))
    findings.note("handlers started", sum(starts.values()))
    findings.note("effects committed", sum(effects.values()))
    findings.none("lost", [job for job in acknowledged if job not in jobs or jobs[job].state not in FINAL])
    findings.none("stuck", [job for job in jobs.values() if job.state not in FINAL])
    findings.none(
        "not completed",
        [
            f"{job.id} {job.kind}: {job.error}"
            for job in jobs.values()
            if job.state in FINAL and job.state != "completed" and job.id in known - harmful
        ],
    )
    findings.none("effects doubled", [job for job, count in effects.items() if count > 1])
    findings.none("effects made up", [job for job in effects if job not in known or not _is_done(jobs, job)])
    findings.none(
        "effects missing",
        [job for job in known if _is_done(jobs, job) and jobs[job].kind in WITH_EFFECT and not effects[job]],
    )
    findings.none(
        "over budget",
        [job for job in jobs.values() if job.attempt > job.max_attempts and job.id not in harmful],
    )
    findings.none("completed unstarted", [job for job in known if _is_done(jobs, job) and not starts[job]])
    findings.none("claims left over", bed.query(f"SELECT token FROM {bed.table('claim')}"))
    return jobs


def _is_done(jobs: dict[str, Row], job: str) -> bool:
    return job in jobs and jobs[job].state == "completed"
