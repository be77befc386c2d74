"""A coroutine blocks its event loop for two leases: nobody takes its job away, and a warning names it."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import check
from chaos.findings import Findings
from chaos.settings import DEFAULT, Leases

STORES = ("postgres", "sqlite")


@dataclass(frozen=True, slots=True)
class Plan:
    neighbours: int = 400
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(neighbours=40, leases=Leases(lease=3.0, heartbeat=0.5, margin=0.5, recovery=0.3))


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Two workers, so that one could take over what the other seems to have dropped. Both have a job that blocks."""
    workers = bed.children(2, settings=plan.leases.settings)
    blockers = bed.enqueue("blocker", [{"seconds": 2 * plan.leases.lease}] * 2)
    # A coroutine that is kept from ending its transaction keeps SQLite's one write lock, and with it everybody else.
    neighbours = ("order", "note") if bed.dialect == "sqlite" else ("order", "letter", "note")
    for kind in neighbours:
        bed.enqueue(kind, [{"ms": 20}] * (plan.neighbours // len(neighbours)))
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease * 6 + 60))
    codes = [worker.stop() for worker in workers]
    findings.none("workers that did not end with 0", [code for code in codes if code != 0])
    jobs = check(bed, findings)
    warnings = bed.events("loop.blocked")
    findings.least("warnings that name a blocking job", len({line.get("job_id") for line in warnings}), 1)
    findings.none("warnings that name another", [w for w in warnings if w.get("job_id") not in blockers])
    findings.none("false recoveries", bed.events("job.recovered"))
    findings.none("leases lost or given up", bed.events("lease.lost", "instance.self_stopped"))
    starts = [start for start in bed.ledger.starts() if start.job in blockers]
    findings.holds("each blocking job ran once", len(starts), len(starts) == len(blockers))
    findings.none("crashes counted", [job for job in jobs.values() if job.crashes])
