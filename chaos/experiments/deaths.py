"""Three jobs and the deaths around them: one that kills itself, one that kills its instance wherever it runs, and a good one that others die with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import check
from chaos.deaths import await_sweep
from chaos.findings import Findings
from chaos.settings import BRIEF, Leases
from chaos.workers import Worker

STORES = ("postgres", "sqlite")
GO = "go"
CRASH_CAP, ISOLATED_FROM = 3, 2


@dataclass(frozen=True, slots=True)
class Plan:
    death_cap: int = 10
    seen: int = 5
    leases: Leases = BRIEF


LONG = Plan()
SHORT = Plan(death_cap=3, seen=2, leases=Leases(lease=1.5, heartbeat=0.4, margin=0.3))


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """One worker at a time, each started when the one before is dead; one job after the other."""
    children = _Crew(bed, plan)
    (suicide,) = bed.enqueue("order", [{"die_by": "kill"}], max_attempts=9)
    children.serve_until(lambda: bed.store.jobs.get(suicide).state.is_final)
    (killer,) = bed.enqueue("order", [{"die_by": "instance"}], max_attempts=9)
    children.serve_until(lambda: bed.store.jobs.get(killer).state.is_final)
    (witness,) = bed.enqueue("witness", [{"go": str(bed.folder / GO)}], max_attempts=3)
    for number in range(plan.seen):
        children.serve_until(lambda: _starts(bed)[witness] > number)  # noqa: B023
        children.worker.kill()
    (bed.folder / GO).touch()
    children.serve_until(lambda: bed.store.jobs.get(witness).state.is_final)
    await_sweep(bed)
    children.worker.stop()
    jobs, starts = check(bed, findings, bad={suicide, killer}), _starts(bed)
    codes = {job: json.loads(jobs[job].error or "{}").get("code") for job in (suicide, killer)}
    findings.holds("the one that kills itself", codes[suicide], codes[suicide] == "crash_cap")
    findings.most("its runs", starts[suicide], ISOLATED_FROM + CRASH_CAP)
    findings.holds("the one that kills its instance", codes[killer], codes[killer] == "death_cap")
    findings.most("its runs", starts[killer], plan.death_cap)
    findings.holds("the good one", jobs[witness].state, jobs[witness].state == "completed")
    findings.least("deaths it saw", starts[witness] - 1, plan.seen)
    findings.note("workers started", len(bed.workers))


def _starts(bed: Bed) -> Counter[str]:
    return Counter(start.job for start in bed.ledger.starts())


class _Crew:
    """The one worker that serves."""

    def __init__(self, bed: Bed, plan: Plan) -> None:
        self._bed = bed
        self._settings = {**plan.leases.settings, "death_cap": plan.death_cap}
        self.worker: Worker = bed.worker(settings=self._settings)

    def serve_until(self, holds: Callable[[], bool]) -> None:
        """Have somebody serve until something has come about."""

        def look() -> bool:
            if self.worker.code is not None:
                self.worker = self._bed.worker(serving=False, settings=self._settings)
            return holds()

        self._bed.until(look, 600, "a job comes to its end")
