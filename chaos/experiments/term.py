"""SIGTERM under load: a worker stops in time, gives back what it did not finish, and burns no attempt."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import check
from chaos.findings import Findings
from chaos.settings import DEFAULT, STEADY, Leases
from chaos.workers import Worker
from windlass.cli.stop_signals import ECHO

STORES = ("postgres", "sqlite")
LATE = 5.0  # seconds after the grace time


@dataclass(frozen=True, slots=True)
class Plan:
    signals: int = 20
    doubled: int = 4
    grace: float = 3.0
    batch: int = 300
    long_ms: int = 9000
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(signals=1, doubled=1, grace=1.0, batch=90, long_ms=3000, leases=STEADY)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Two workers; one after the other is told to stop while it has jobs of all sorts, and another is started in its place."""
    serving = bed.children(2, settings=plan.leases.settings, grace=plan.grace)
    exits: list[float] = []
    codes: list[int | None] = []
    for number in range(plan.signals + plan.doubled):
        _enqueue(bed, plan)
        is_double = number >= plan.signals
        leaving, staying = serving
        bed.keep_busy(leaving, lambda: _enqueue(bed, plan))
        time.sleep(bed.random.random() * 0.5)
        spent = _stop(bed, leaving, is_double=is_double)
        codes.append(leaving.code)
        exits.append(spent + (plan.grace if is_double else 0.0))
        # In the last rounds the grace time is long: only a second signal can end it in time.
        grace = 60.0 if number >= plan.signals - 2 else plan.grace
        serving = [staying, bed.worker(settings=plan.leases.settings, grace=grace)]
    findings.holds("drained", True, bed.drained())
    for worker in serving:
        worker.stop()
    jobs = check(bed, findings)
    findings.least("signals under load", len(exits), plan.signals + plan.doubled)
    findings.none("exit codes other than 0", [code for code in codes if code != 0])
    findings.most("longest exit, s", max(exits), plan.grace + LATE)
    findings.note("jobs given back", len(bed.events("job.released")))
    findings.none("attempts burnt", [job for job in jobs.values() if job.attempt != 1])
    findings.none("left for recovery", bed.events("job.recovered"))


def _enqueue(bed: Bed, plan: Plan) -> None:
    """Mostly short jobs; some run longer than the grace time, in a thread that does not listen, on the loop, and apart."""
    for kind in ("order", "letter", "note"):
        bed.enqueue(kind, [{"ms": bed.random.randrange(20, 200)} for _ in range(plan.batch // 3)])
        bed.enqueue(kind, [{"ms": plan.long_ms}], priority=9)
    bed.enqueue("press", [{"ms": plan.long_ms}], priority=9)


def _stop(bed: Bed, worker: Worker, *, is_double: bool) -> float:
    """Seconds from the signal (the second, where there are two) to the end."""
    worker.send(signal.SIGTERM)
    if is_double:
        bed.until(lambda: worker.log.events("instance.stopping"), 10, f"{worker} begins to stop")
        time.sleep(ECHO + 0.3)  # sooner it would count as the same request, heard twice
        worker.send(signal.SIGTERM)
    began = time.monotonic()
    worker.wait(120)
    return time.monotonic() - began
