"""Handlers in processes of their own that run too long or take too much memory: they end, their neighbours do not notice."""

from __future__ import annotations

import json
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import check
from chaos.findings import Findings
from chaos.settings import DEFAULT, STEADY, Leases
from chaos.workers import descendants, is_alive

STORES = ("postgres", "sqlite")
MEMORY_LIMIT = 256 * 1024**2
TIME_LIMIT = 2.0  # of the kind `sleeper`


@dataclass(frozen=True, slots=True)
class Plan:
    each: int = 10
    neighbours: int = 600
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(each=2, neighbours=60, leases=STEADY)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """One worker with jobs that sleep for ever, jobs that take all memory they can get, and plain ones beside them."""
    worker = bed.worker(settings={**plan.leases.settings, "memory_limit": MEMORY_LIMIT})
    sleepers = bed.enqueue("sleeper", [{"seconds": 600.0}] * plan.each, max_attempts=1)
    hogs = bed.enqueue("hog", [{"megabytes": 4096}] * plan.each, max_attempts=1)
    for kind in ("order", "letter", "note", "press"):
        bed.enqueue(kind, [{"ms": 30}] * (plan.neighbours // 4))
    findings.holds("drained", True, bed.drained(quiet=plan.each * TIME_LIMIT * 4 + 60))
    starts = [start for start in bed.ledger.starts() if start.kind in ("sleeper", "hog")]
    findings.none("killed processes that still run", [s.pid for s in starts if _still_there(s.pid, s.kind)])
    findings.holds("worker lives", worker.code is None, worker.code is None)
    family = descendants(worker.pid)
    findings.holds("worker ended with 0", True, worker.stop() == 0)
    findings.none("processes it left behind", [pid for pid in family if is_alive(pid)])
    jobs = check(bed, findings, bad={*sleepers, *hogs})
    codes = {job: json.loads(jobs[job].error or "{}") for job in (*sleepers, *hogs)}
    findings.none(
        "sleepers without time_limit", [j for j in sleepers if codes[j].get("code") != "time_limit"]
    )
    findings.none("hogs without an error that says so", [codes[j] for j in hogs if not _is_memory(codes[j])])
    findings.least("processes killed at their time limit", len(sleepers), plan.each)
    lives = [_lived(bed, job) for job in sleepers]
    findings.most("longest life of a sleeper, s", max(lives), TIME_LIMIT + 3.0)
    findings.none("leases lost or given up", bed.events("lease.lost", "instance.self_stopped"))


def _still_there(pid: int, kind: str) -> bool:
    """A process that ran out of time must be gone; one that ran out of memory may have been used again, or idle."""
    return kind == "sleeper" and is_alive(pid)


def _is_memory(error: dict[str, object]) -> bool:
    return error.get("type") == "MemoryError" or error.get("code") in ("process_died", "crash_cap")


def _lived(bed: Bed, job: str) -> float:
    """Seconds from the start of a job's handler to its recorded end; none where it was killed before it had written that it started."""
    began = next((start.at for start in bed.ledger.starts() if start.job == job), None)
    if began is None:
        return 0.0
    ended = bed.store.jobs.get(job).finished_at
    assert ended is not None
    return ended.timestamp() - began
