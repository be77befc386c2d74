"""Cancel against complete, at random moments: each job ends as documented, and none has an effect after it was cancelled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import FINAL, rows
from chaos.findings import Findings
from chaos.settings import DEFAULT, QUICK, Leases
from windlass.errors import IllegalTransitionError, JobNotFoundError
from windlass.model import CancelResult

STORES = ("postgres", "sqlite")


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: int = 5000
    workers: int = 2
    ms: float = 20.0
    threads: int = 8
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(jobs=300, leases=QUICK)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Jobs are enqueued in waves, and each is cancelled at a random moment around its end."""
    serving = [bed.worker(settings=plan.leases.settings) for _ in range(plan.workers)]
    answers: dict[str, str] = {}
    for start in range(0, plan.jobs, 250):
        count = min(250, plan.jobs - start)
        ids = bed.enqueue(
            "brief", ({"ms": bed.random.random() * plan.ms} for _ in range(count)), max_attempts=1
        )
        _cancel_all(bed, ids, plan, answers)
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease + 30))
    for worker in serving:
        worker.stop()
    jobs = rows(bed)
    effects = Counter(row[0] for row in bed.query("SELECT job FROM chaos_effect"))
    findings.none("not ended", [job for job in jobs.values() if job.state not in FINAL])
    findings.none("failed", [f"{job.id}: {job.error}" for job in jobs.values() if job.state == "failed"])
    findings.none(
        "effect of a cancelled job",
        [job.id for job in jobs.values() if job.state == "cancelled" and effects[job.id]],
    )
    findings.none(
        "completed without effect",
        [job.id for job in jobs.values() if job.state == "completed" and not effects[job.id]],
    )
    findings.none("effects twice", [job for job, count in effects.items() if count > 1])
    findings.none(
        "told cancelled, and completed",
        [
            job
            for job, answer in answers.items()
            if answer == CancelResult.CANCELLED and jobs[job].state != "cancelled"
        ],
    )
    findings.none(
        "told too late, and cancelled",
        [job for job, answer in answers.items() if answer == "ended" and jobs[job].state == "cancelled"],
    )
    states, told = Counter(job.state for job in jobs.values()), Counter(answers.values())
    for what, count in {
        **{f"jobs {state}": n for state, n in states.items()},
        **{f"told {a}": n for a, n in told.items()},
    }.items():
        findings.note(what, count)
    findings.least("cancelled", states["cancelled"], plan.jobs // 20)
    findings.least("completed", states["completed"], plan.jobs // 20)


def _cancel_all(bed: Bed, ids: list[str], plan: Plan, answers: dict[str, str]) -> None:
    lock, left = threading.Lock(), list(ids)

    def cancel() -> None:
        while True:
            with lock:
                if not left:
                    return
                job = left.pop()
            time.sleep(bed.random.random() * plan.ms / 1000)
            try:
                answers[job] = str(bed.store.jobs.cancel(job, "changed my mind"))
            except (IllegalTransitionError, JobNotFoundError):
                answers[job] = "ended"

    threads = [threading.Thread(target=cancel) for _ in range(plan.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
