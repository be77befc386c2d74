"""``kill -9`` of workers in the middle of their jobs: others take over in time, and nothing takes effect twice."""

from __future__ import annotations

import time
from dataclasses import dataclass

from chaos import deaths
from chaos.bed import Bed
from chaos.checker import check
from chaos.deaths import Death
from chaos.findings import Findings
from chaos.settings import DEFAULT, QUICK, Leases

STORES = ("postgres", "sqlite")
MORE = 100  # jobs at a time, where all are done before the last worker was killed


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: int = 5000
    workers: int = 3
    kills: int = 10
    work_ms: int = 400
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(jobs=250, kills=2, work_ms=200, leases=QUICK)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Three workers serve; one after the other is killed while it holds jobs, and another is started in its place."""
    serving = bed.children(plan.workers, settings=plan.leases.settings)
    _enqueue(bed, plan, plan.jobs)
    killed: list[Death] = []
    for _ in range(plan.kills):
        place = bed.random.randrange(plan.workers)
        victim = serving[place]
        time.sleep(bed.random.random() * 0.3)
        bed.keep_busy(victim, lambda: _enqueue(bed, plan, MORE))  # last: it is to die while it holds jobs
        killed.append(deaths.kill(bed, victim))
        serving[place] = bed.worker(settings=plan.leases.settings)
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease + 60))
    findings.none("workers that ended by themselves", [item for item in serving if item.code is not None])
    codes = [worker.stop() for worker in serving]
    findings.none("workers that did not end with 0", [code for code in codes if code != 0])
    check(bed, findings)
    findings.least("workers killed", len(killed), plan.kills)
    deaths.judge(findings, deaths.waits(bed, killed), plan.leases.lease, least=plan.kills)


def _enqueue(bed: Bed, plan: Plan, jobs: int) -> None:
    shares = {"order": 0.4, "letter": 0.3, "note": 0.28, "press": 0.02}
    for kind, share in shares.items():
        bed.enqueue(kind, ({"ms": bed.random.randrange(plan.work_ms)} for _ in range(int(jobs * share))))
