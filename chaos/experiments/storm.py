"""A storm of kills: forty in forty seconds over four workers. Nothing is lost or doubled, nobody fails for another's death, and what the dead held
runs again in time; pipelines, chunks, fan-ins and schedules, too."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from chaos import deaths
from chaos.bed import Bed
from chaos.checker import check
from chaos.deaths import Death
from chaos.findings import Findings
from chaos.settings import BRIEF, Leases
from chaos.shapes import CREATE_STEPS
from chaos.workers import Worker
from windlass.model import After, Missed, NewSchedule

STORES = ("postgres", "sqlite")
SHARES = {"order": 0.4, "letter": 0.3, "note": 0.28, "press": 0.02}
PHASES = ("first", "second", "third")
ATTEMPTS = 3  # what a job has that nobody says anything of
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: int = 2000
    workers: int = 4
    kills: int = 40
    every: float = 1.0
    work_ms: int = 400
    lines: int = 80
    ledgers: int = 8
    chunks: int = 30
    fan_ins: int = 40
    parents: int = 5
    schedules: int = 5
    leases: Leases = BRIEF


LONG = Plan()
SHORT = Plan(
    jobs=160,
    workers=3,
    kills=5,
    every=0.7,
    work_ms=1500,  # longer than the pause between two kills: on a fast machine, too, a victim holds running jobs
    lines=10,
    ledgers=2,
    chunks=10,
    fan_ins=4,
    schedules=2,
)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Work comes in evenly; every second a worker is killed, and another is started in its place. All caps are the default ones."""
    bed.query(CREATE_STEPS)
    serving = bed.children(plan.workers, settings=plan.leases.settings)
    _define(bed, plan)
    killed, took = _storm(bed, plan, serving)
    _pause(bed, plan)
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease + 120))
    deaths.await_sweep(bed)
    for worker in serving:
        worker.stop()
    jobs = check(bed, findings)
    findings.none(
        "failed", [f"{job.id} {job.kind}: {job.error}" for job in jobs.values() if job.state == "failed"]
    )
    findings.least("workers killed", len(killed), plan.kills)
    findings.note("the storm took, s", round(took, 1))
    deaths.judge(findings, deaths.waits(bed, killed), plan.leases.lease, least=plan.kills)
    _judge_deaths(bed, findings)
    _judge_shapes(bed, plan, findings)


def _storm(bed: Bed, plan: Plan, serving: list[Worker]) -> tuple[list[Death], float]:
    killed: list[Death] = []
    began = time.monotonic()
    for number in range(plan.kills):
        bed.until(
            lambda: _someone(bed, serving), 120, "two workers serve"
        )  # before there is work, or it is done by then
        _enqueue(bed, plan, number)
        time.sleep(max(0.0, began + (number + bed.random.random()) * plan.every - time.monotonic()))
        victim = bed.until(lambda: _someone(bed, serving), 120, "two workers serve")
        killed.append(deaths.kill(bed, victim))
        serving[serving.index(victim)] = bed.worker(serving=False, settings=plan.leases.settings)
    return killed, time.monotonic() - began


def _someone(bed: Bed, serving: Sequence[Worker]) -> Worker | None:
    """Any worker that serves, one that holds jobs if there is one, while another one serves: where a machine is slow to replace the dead,
    the storm takes longer."""
    able = [worker for worker in serving if worker.is_serving]
    if len(able) < 2:
        return None
    return bed.random.choice([worker for worker in able if bed.held_by(worker.instances)] or able)


def _enqueue(bed: Bed, plan: Plan, number: int) -> None:
    """One part of the work."""

    def part(total: float) -> int:
        return int(total * (number + 1) / plan.kills) - int(total * number / plan.kills)

    for kind, share in SHARES.items():
        arguments = [{"ms": bed.random.randrange(plan.work_ms)} for _ in range(part(plan.jobs * share))]
        bed.enqueue(kind, arguments, max_attempts=ATTEMPTS)
    bed.enqueue(
        "line", [{"n": number, "trouble": 0.0}] * part(plan.lines), phase="line:first", max_attempts=ATTEMPTS
    )
    bed.enqueue(
        "ledger", [{"chunks": plan.chunks, "size": 1, "ms": 30}] * part(plan.ledgers), max_attempts=ATTEMPTS
    )
    for _ in range(part(plan.fan_ins)):
        parents = bed.enqueue("note", [{"ms": 100}] * plan.parents, max_attempts=ATTEMPTS)
        bed.enqueue("order", [{"ms": 50}], after=[After(parent) for parent in parents], max_attempts=ATTEMPTS)


def _define(bed: Bed, plan: Plan) -> None:
    bed.store.schedules.define(
        [
            NewSchedule(name=f"beat-{n}", kind="note", expression="* * * * * *", missed=Missed.ALL, cap=1000)
            for n in range(plan.schedules)
        ]
    )


def _pause(bed: Bed, plan: Plan) -> None:
    for number in range(plan.schedules):
        bed.store.schedules.pause(f"beat-{number}", "the storm is over")


def _judge_deaths(bed: Bed, findings: Findings) -> None:
    """How often one job met a death while it ran; ten would fail it."""
    met = deaths.met(bed)
    findings.note("jobs that were running at a death", len(met))
    findings.note("most deaths of one job", max(met.values(), default=0))


def _judge_shapes(bed: Bed, plan: Plan, findings: Findings) -> None:
    steps: dict[str, Counter[str]] = defaultdict(Counter)
    for job, name, number in bed.query("SELECT job, step, number FROM chaos_step"):
        steps[job][f"{name} {number}" if name == "chunk" else name] += 1
    kinds = dict(bed.query(f"SELECT CAST(id AS text), kind FROM {bed.table('jobs')}"))
    whole = {"line": set(PHASES), "ledger": {f"chunk {n}" for n in range(plan.chunks)}}
    findings.none("phases and chunks twice", [job for job, seen in steps.items() if max(seen.values()) > 1])
    findings.none(
        "phases and chunks missing",
        [job for job, kind in kinds.items() if kind in whole and set(steps[job]) != whole[kind]],
    )
    ticks: dict[str, list[datetime]] = defaultdict(list)
    for name, moment in bed.query(f"SELECT schedule, at FROM {bed.table('tick')}"):
        ticks[name].append(bed.store.db.moment(moment))
    gaps = [
        (name, before, after)
        for name, moments in ticks.items()
        for before, after in zip(sorted(moments), sorted(moments)[1:], strict=False)
        if after - before != SECOND
    ]
    findings.least("ticks", sum(map(len, ticks.values())), plan.schedules)
    findings.none("ticks missing or doubled", gaps)
