"""A worker is frozen past its lease, others do its jobs, and it wakes up: nothing it still writes is taken."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import FINAL, check, rows
from chaos.findings import Findings
from chaos.settings import DEFAULT, QUICK, Leases
from chaos.workers import Worker, at

STORES = ("postgres", "sqlite")
ENOUGH = 4


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int = 6
    jobs: int = 40
    work_ms: int = 3000
    within: float = 1.0
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(rounds=2, jobs=24, work_ms=700, within=3.0, leases=QUICK)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Two workers; one is stopped with SIGSTOP in the middle of its jobs and continued when the other has done them."""
    workers = bed.children(2, settings=plan.leases.settings, level="debug")
    waits: list[float] = []
    frozen: dict[str, set[int]] = {}
    for _ in range(plan.rounds):
        victim, held = _freeze(bed, plan, workers)
        for job, token in held.items():
            frozen.setdefault(job, set()).add(token)
        bed.until(lambda: _are_done(bed, held), plan.leases.lease * 4 + 60, "others did its jobs", 0.2)  # noqa: B023
        waits.append(_continue(bed, victim))
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease + 60))
    codes = [worker.stop() for worker in workers]
    findings.none("workers that did not end with 0", [code for code in codes if code != 0])
    check(bed, findings)
    findings.least("rounds", len(waits), plan.rounds)
    findings.least("jobs held while frozen", len(frozen), plan.rounds * ENOUGH)
    findings.none("stale writes accepted", _stale(bed, frozen))
    findings.least("leases lost", len(bed.events("lease.lost")), plan.rounds)
    findings.least("late ends refused", len(bed.events("job.lost")), 1)
    findings.most("longest from CONT to LeaseLost, s", max(waits), plan.within)


def _enqueue(bed: Bed, plan: Plan) -> None:
    half = plan.work_ms // 2
    # A transaction that is frozen on SQLite keeps everybody from writing, so none is kept open there.
    inside = half if bed.dialect == "postgres" else 0
    bed.enqueue(
        "order",
        [
            {"ms": half + bed.random.randrange(half), "inside_ms": bed.random.randrange(inside + 1)}
            for _ in range(plan.jobs // 2)
        ],
    )
    bed.enqueue("letter", [{"ms": half + bed.random.randrange(half)} for _ in range(plan.jobs // 4)])
    bed.enqueue("note", [{"ms": half + bed.random.randrange(half)} for _ in range(plan.jobs // 4)])


def _freeze(bed: Bed, plan: Plan, workers: Sequence[Worker]) -> tuple[Worker, dict[str, int]]:
    """Stop a worker that has jobs in its hands; that worker, those jobs and their tokens."""
    while True:
        _enqueue(bed, plan)
        victim = bed.until(lambda: _busy(bed, workers), 60, "a worker has jobs")
        time.sleep(bed.random.random() * 0.4)
        victim.send(signal.SIGSTOP)
        time.sleep(0.2)  # the server may still be at its last statement
        if _is_writable(bed):
            held = set(bed.held_by(victim.instances))
            if len(held) >= ENOUGH:
                tokens = bed.query(f"SELECT CAST(id AS text), token FROM {bed.table('job')}")
                return victim, {job: token for job, token in tokens if job in held}
        victim.send(signal.SIGCONT)


def _busy(bed: Bed, workers: Sequence[Worker]) -> Worker | None:
    return next((item for item in workers if len(bed.held_by(item.instances)) >= ENOUGH), None)


def _is_writable(bed: Bed) -> bool:
    """Whether others can write: a process that is frozen with SQLite's one write lock in its hand keeps all of them waiting."""
    if bed.dialect != "sqlite":
        return True
    with closing(sqlite3.connect(bed.url.removeprefix("sqlite:///"), timeout=1.0)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
            file.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
    return True


def _are_done(bed: Bed, held: dict[str, int]) -> bool:
    jobs = rows(bed)
    return all(jobs[job].state in FINAL for job in held)


def _continue(bed: Bed, victim: Worker) -> float:
    """Let it go on; seconds until it knows that its leases are gone."""
    log = victim.log
    known = len(log.events("lease.lost"))
    when = victim.send(signal.SIGCONT)
    bed.until(lambda: len(log.events("lease.lost")) > known, 60, f"{victim} hears of it")
    return at(log.events("lease.lost")[known]) - when


def _stale(bed: Bed, frozen: dict[str, set[int]]) -> list[str]:
    """Effects that were committed under a token of the frozen worker although another had the job by then."""
    return [
        f"{job} under {token}"
        for job, token in bed.query("SELECT job, token FROM chaos_effect")
        if token in frozen.get(job, ())
    ]
