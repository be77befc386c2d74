"""The reply to a claim that the database has committed never arrives: its jobs are found and run, by the instance that lives."""

from __future__ import annotations

import time
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import check
from chaos.findings import Findings
from chaos.settings import DEFAULT, Leases
from tests.acceptance.proxy import PostgresProxy, execution_of

STORES = ("postgres",)
STEP = execution_of("wanted AS MATERIALIZED")
TRIES = 4  # rounds per cut: some steps that are cut have claimed nothing


@dataclass(frozen=True, slots=True)
class Plan:
    cuts: int = 50
    per_round: int = 8
    every: float = 1.0
    within: float = 15.0
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(cuts=4, every=0.7)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """One worker behind a proxy that lets a step through and closes the connection instead of answering."""
    lost: dict[str, float] = {}
    cuts = 0
    with PostgresProxy(bed.url) as proxy:
        worker = bed.worker(url=proxy.url, settings=plan.leases.settings)
        bed.enqueue("note", [{}] * 20)
        bed.drained()
        for _ in range(plan.cuts * TRIES):
            hit = _cut(bed, plan, proxy)
            cuts += bool(hit)
            lost |= hit
            if cuts >= plan.cuts:
                break
            time.sleep(plan.every)
        findings.holds("drained", True, bed.drained())
        findings.holds("worker lives", worker.code is None, worker.code is None)
        findings.note("exit code", worker.stop())
    jobs = check(bed, findings)
    findings.least("claims whose reply was cut off", cuts, plan.cuts)
    findings.least("jobs in them", len(lost), plan.cuts)
    again: dict[str, float] = {}
    for start in bed.ledger.starts():
        again.setdefault(start.job, start.at)
    waits = [again[job] - when for job, when in lost.items() if job in again]
    findings.none("jobs of them that never ran", lost.keys() - again.keys())
    findings.note("median wait, s", sorted(waits)[len(waits) // 2] if waits else 0.0)
    findings.most("longest wait, s", max(waits, default=0.0), plan.within)
    findings.none("attempts burnt", [job for job in jobs.values() if job.attempt > 1])
    findings.none("jobs run twice", [start for start in bed.ledger.starts() if start.at > again[start.job]])


def _cut(bed: Bed, plan: Plan, proxy: PostgresProxy) -> dict[str, float]:
    """Enqueue some jobs and lose the reply to the step that claims them; those jobs, and when they were claimed."""
    before, began = proxy.cuts, time.time()
    proxy.cut_reply_to(STEP)
    bed.enqueue("note", [{}] * plan.per_round)
    bed.enqueue("letter", [{}] * plan.per_round)
    bed.until(lambda: proxy.cuts > before, 30, "a step is cut")
    time.sleep(0.3)
    held = bed.query(
        f"SELECT CAST(id AS text), extract(epoch FROM claimed_at) FROM {bed.table('job')} "
        "WHERE token IS NOT NULL AND claimed_at >= to_timestamp(?)",
        [began],
    )
    started = {start.job for start in bed.ledger.starts()}
    return {job: float(when) for job, when in held if job not in started}
