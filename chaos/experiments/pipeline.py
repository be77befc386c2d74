"""A pipeline of three phases with random failures, and workers killed on the way: each phase takes effect once, in order."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import FINAL, rows
from chaos.findings import Findings
from chaos.settings import DEFAULT, QUICK, Leases
from chaos.shapes import CREATE_STEPS

STORES = ("postgres", "sqlite")
PHASES = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: int = 1000
    workers: int = 3
    kills: int = 2
    trouble: float = 0.15
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(jobs=150, leases=QUICK)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Workers serve; two of them are killed with jobs in their hands."""
    bed.query(CREATE_STEPS)
    settings = plan.leases.settings
    serving = [bed.worker(settings=settings) for _ in range(plan.workers)]
    killed = 0
    for place in range(plan.kills):
        numbers = range(
            place, plan.jobs, plan.kills
        )  # a share for each kill: all could have ended before the second one
        bed.enqueue("line", ({"n": n, "trouble": plan.trouble} for n in numbers), phase="line:first")
        victim = serving[place]
        bed.until(lambda: len(bed.held_by(victim.instances)) >= 2, 60, f"{victim} has jobs")  # noqa: B023
        time.sleep(bed.random.random() * 0.2)
        victim.kill()
        killed += 1
        serving[place] = bed.worker(settings=settings)
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease + 60))
    for worker in serving:
        worker.stop()
    _judge(bed, findings)
    findings.least("workers killed", killed, plan.kills)


def _judge(bed: Bed, findings: Findings) -> None:
    jobs = rows(bed)
    findings.none(
        "not completed", [job for job in jobs.values() if job.state not in FINAL or job.state != "completed"]
    )
    steps: dict[str, list[str]] = defaultdict(list)
    for job, name, _number in bed.query("SELECT job, step, number FROM chaos_step"):
        steps[job].append(name)
    counts = {job: Counter(names) for job, names in steps.items()}
    findings.none(
        "phases that took effect twice", [job for job, count in counts.items() if max(count.values()) > 1]
    )
    findings.none("phases without effect", [job for job in jobs if set(steps[job]) != set(PHASES)])
    attempts = Counter(start.job for start in bed.ledger.starts())
    spans = {
        job: [span.phase.partition(":")[2] for span in bed.store.jobs.timeline(job)]
        for job in list(jobs)[:200]
    }
    findings.none(
        "phases out of order",
        [job for job, names in spans.items() if sorted(names, key=PHASES.index) != names],
    )
    results = bed.query(f"SELECT CAST(id AS text), CAST(result AS text) FROM {bed.table('job_done')}")
    findings.none(
        "results missing", [job for job, result in results if result is None or '"sum"' not in result]
    )
    findings.note("jobs", len(jobs))
    findings.note("handlers started", sum(attempts.values()))
    findings.least(
        "attempts that failed or were recovered", sum(attempts.values()) - 3 * len(jobs), len(jobs) // 10
    )
