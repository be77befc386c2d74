"""``kill -9`` of workers in the middle of their jobs: others take over in time, and nothing takes effect twice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import check
from chaos.findings import Findings
from chaos.settings import DEFAULT, QUICK, Leases
from chaos.workers import Worker, at

STORES = ("postgres", "sqlite")
MORE = 100  # jobs at a time, where all are done before the last worker was killed


@dataclass(frozen=True, slots=True)
class Death:
    """A worker that was killed, when, and what it held."""

    when: float
    instances: frozenset[str]
    held: Sequence[str]


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: int = 5000
    workers: int = 3
    kills: int = 10
    work_ms: int = 400
    leases: Leases = DEFAULT
    slack: float = 0.0


LONG = Plan()
SHORT = Plan(jobs=250, kills=2, work_ms=200, leases=QUICK, slack=3.0)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Three workers serve; one after the other is killed with jobs in its hands, and another is started in its place."""
    serving = bed.crew(plan.workers, settings=_settings(plan))
    _enqueue(bed, plan, plan.jobs)
    killed: list[Death] = []
    for _ in range(plan.kills):
        place = bed.random.randrange(plan.workers)
        victim = serving[place]
        bed.keep_busy(victim, lambda: _enqueue(bed, plan, MORE))
        time.sleep(bed.random.random() * 0.3)
        killed.append(_kill(bed, victim))
        serving[place] = bed.worker(settings=_settings(plan))
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease + 60))
    findings.none("workers that ended by themselves", [item for item in serving if item.code is not None])
    codes = [worker.stop() for worker in serving]
    findings.none("workers that did not end with 0", [code for code in codes if code != 0])
    jobs = check(bed, findings)
    findings.least("workers killed", len(killed), plan.kills)
    _judge_recovery(bed, plan, killed, findings)
    findings.note("most crashes of one job", max(job.crashes for job in jobs.values()))


def _settings(plan: Plan) -> dict[str, object]:
    # A good job may be hit by several kills. That it would fail at the third is right, and not the question here.
    return {**plan.leases.settings, "crash_cap": 30}


def _enqueue(bed: Bed, plan: Plan, jobs: int) -> None:
    shares = {"order": 0.4, "letter": 0.3, "note": 0.28, "press": 0.02}
    for kind, share in shares.items():
        bed.enqueue(kind, ({"ms": bed.random.randrange(plan.work_ms)} for _ in range(int(jobs * share))))


def _kill(bed: Bed, victim: Worker) -> Death:
    when = victim.kill()
    time.sleep(0.2)  # the server may still be at the last statement of the dead
    instances = victim.instances
    return Death(when, frozenset(instances), bed.held_by(instances))


def _judge_recovery(bed: Bed, plan: Plan, deaths: Sequence[Death], findings: Findings) -> None:
    told: dict[str, list[float]] = {}
    for line in bed.events("job.recovered"):
        told.setdefault(line["job_id"], []).append(at(line))
    waits, unseen, own = [], [], 0
    for death in deaths:
        for job in death.held:
            moments = [moment for moment in told.get(job, ()) if moment >= death.when]
            if not moments:  # whoever recovered it was killed before saying so
                spans = bed.store.jobs.timeline(job)
                others = [span for span in spans if span.instance not in death.instances]
                moments = [again for span in others if (again := span.claimed_at.timestamp()) >= death.when]
                if not moments and spans[-1].instance in death.instances and spans[-1].outcome == "completed":
                    own += 1  # the dead one's last statement took longer than we waited for it
                    continue
            if moments:
                waits.append(min(moments) - death.when)
            else:
                unseen.append(job)
    findings.least("jobs recovered", len(waits), plan.kills)
    findings.none("held by a killed worker, never recovered", unseen)
    findings.note("ended by the last statement of the dead", own)
    findings.note("median recovery, s", sorted(waits)[len(waits) // 2] if waits else 0.0)
    findings.most("longest recovery, s", max(waits, default=0.0), plan.leases.recovered_within + plan.slack)
