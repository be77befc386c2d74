"""Jobs that take their process down among thousands that do not: the good ones complete, the bad ones fail and say why."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from chaos import deaths
from chaos.bed import Bed
from chaos.checker import Row, check
from chaos.findings import Findings
from chaos.settings import DEFAULT, QUICK, Leases

STORES = ("postgres", "sqlite")
DEATHS = {"segfault": "SIGSEGV", "exit": 3, "kill": "SIGKILL"}
MOST_RUNS = 1 + 2 + 3
"""Once unnoticed (claimed ahead, and begun since), twice noticed with its instance, and three times in a process of its own."""


@dataclass(frozen=True, slots=True)
class Plan:
    good: int = 10_000
    poison: int = 100
    apart: int = 20
    processes: int = 4
    work_ms: int = 50
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(good=150, poison=2, apart=1, processes=2, work_ms=20, leases=QUICK)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Poison is spread evenly among good jobs. Most of it runs in threads of the workers, some in processes of its own."""
    poison = _enqueue(bed, plan)
    supervisor = bed.worker(settings=plan.leases.settings, processes=plan.processes)
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease * 3 + 60))
    findings.holds("supervisor lives", supervisor.code is None, supervisor.code is None)
    findings.note("exit code of the supervisor", supervisor.stop())
    jobs = check(bed, findings, bad=poison)
    died = supervisor.log.events("process.ended")
    findings.least("worker processes that died", len(died), 1)
    findings.least("jobs recovered", len(bed.events("job.recovered")), len(poison) - plan.apart)
    _judge_good(bed, [job for job in jobs.values() if job.id not in poison], findings)
    _judge_poison(bed, [jobs[job] for job in poison if job in jobs], findings)


def _enqueue(bed: Bed, plan: Plan) -> set[str]:
    shares = {"order": 0.4, "letter": 0.3, "note": 0.28, "press": 0.02}
    rounds = max(1, plan.poison)
    poison: list[str] = []
    hows = list(DEATHS)
    for number in range(rounds):
        for kind, share in shares.items():
            count = _share(plan.good * share, number, rounds)
            bed.enqueue(
                kind, [{"ms": bed.random.randrange(plan.work_ms)} for _ in range(count)], max_attempts=3
            )
        poison += bed.enqueue("order", [{"die_by": hows[number % len(hows)]}], max_attempts=3)
        if number < plan.apart:
            poison += bed.enqueue("press", [{"die_by": hows[number % len(hows)]}], max_attempts=3)
    return set(poison)


def _share(total: float, number: int, rounds: int) -> int:
    return int(total * (number + 1) / rounds) - int(total * number / rounds)


def _judge_good(bed: Bed, good: list[Row], findings: Findings) -> None:
    died = deaths.met(bed)
    findings.least("good jobs whose process died", sum(1 for job in good if died[job.id]), 1)
    findings.note("most deaths of a good job", max(died[job.id] for job in good))


def _judge_poison(bed: Bed, poison: list[Row], findings: Findings) -> None:
    starts = Counter(start.job for start in bed.ledger.starts())
    findings.most("most starts of one poison job", max(starts[job.id] for job in poison), MOST_RUNS)
    findings.none("poison that did not fail at the crash cap", [job for job in poison if not _is_capped(job)])
    told = {job.id for job in poison if _tells(job.error)} | _told_before(bed)
    findings.none("poison that does not say how it died", [job for job in poison if job.id not in told])


def _told_before(bed: Bed) -> set[str]:
    """Jobs of which an earlier attempt says it. The last one may have died with its instance, and nobody was left to see how."""
    rows = bed.query(f"SELECT CAST(job AS text), CAST(error AS text) FROM {bed.table('attempt')}")
    return {job for job, error in rows if _tells(error)}


def _is_capped(job: Row) -> bool:
    return job.state == "failed" and json.loads(job.error or "{}").get("code") == "crash_cap"


def _tells(error: str | None) -> bool:
    details = json.loads(error or "{}").get("details") or {}
    return details.get("signal") in DEATHS.values() or details.get("exit_code") == DEATHS["exit"]
