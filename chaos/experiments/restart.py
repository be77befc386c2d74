"""PostgreSQL goes away in the middle of everything, and comes back: workers wait quietly, go on by themselves, lose nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from chaos.bed import Bed
from chaos.checker import check
from chaos.findings import Findings
from chaos.settings import DEFAULT, QUICK, Leases
from chaos.workers import Worker, at
from windlass.examples.embedded.postgres import PostgresServer

STORES = ("postgres",)
KINDS = ("order", "letter", "note", "note", "note")
TERMINATE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
ORDER BY random() LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: int = 10_000
    work_ms: int = 400
    away: tuple[float, ...] = (2.0, 5.0, 10.0, 20.0, 40.0)
    between: float = 6.0
    terminate_for: float = 10.0
    resume_within: float = 5.0
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(
    jobs=500, work_ms=800, away=(3.0,), between=1.0, terminate_for=1.5, resume_within=8.0, leases=QUICK
)
BURST = 20  # what each thread of a worker and each of its duties says once; a flood is hundreds
ENOUGH = 5


@dataclass(slots=True)
class Outage:
    """When the server was gone and when it was back, and who started what first afterwards."""

    down: float
    up: float
    resumed: float = 0.0


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Two workers; jobs come in all the time, also while nobody can take them."""
    server = bed.server
    assert server is not None, "this experiment needs a server of its own"
    workers = bed.children(2, settings=plan.leases.settings)
    submitter = threading.Thread(target=_submit, args=(bed, plan), daemon=True)
    submitter.start()
    time.sleep(plan.between)
    outages = [_restart(bed, plan, server, workers, seconds) for seconds in plan.away]
    ended = _terminate(bed, plan.terminate_for)
    submitter.join(300)
    findings.holds("drained", True, bed.drained())
    findings.none("workers that ended by themselves", [item for item in workers if item.code is not None])
    codes = [worker.stop() for worker in workers]
    findings.none("workers that did not end with 0", [code for code in codes if code != 0])
    check(bed, findings)
    findings.least("restarts", len(outages), len(plan.away))
    findings.least("sessions ended", ended, ENOUGH)
    findings.least("lines that say so", len(bed.events("store.unreachable")), len(plan.away))
    findings.most("slowest to resume, s", max(item.resumed for item in outages), plan.resume_within)
    findings.most("log lines while away, beyond one a second", _chatter(workers, outages), BURST)


def _submit(bed: Bed, plan: Plan) -> None:
    """Jobs at a steady rate until all are accepted, each call repeated until it is."""
    lasts = plan.between + sum(plan.away) + len(plan.away) * plan.between + plan.terminate_for
    batch = 50
    pause = lasts / (plan.jobs / batch)
    for number in range(plan.jobs // batch):
        began = time.monotonic()
        kind = KINDS[number % len(KINDS)]
        bed.enqueue(kind, [{"ms": bed.random.randrange(plan.work_ms)} for _ in range(batch)], patience=120)
        time.sleep(max(0.0, pause - (time.monotonic() - began)))


def _restart(
    bed: Bed, plan: Plan, server: PostgresServer, workers: Sequence[Worker], seconds: float
) -> Outage:
    """Stop the server the hard way (``pg_ctl stop -m immediate``), wait, start it, wait until every worker works again."""
    pid = server.pid
    assert pid is not None
    bed.until(lambda: all(bed.held_by(worker.instances) for worker in workers), 60, "all have jobs")
    down = time.time()
    os.kill(pid, signal.SIGQUIT)
    bed.until(lambda: server.pid is None, 30, "the server is gone")
    time.sleep(seconds)
    server.start()
    outage = Outage(down, time.time())
    pids = {worker.pid for worker in workers}
    # A worker starts handlers in its own process; those of its children do not count here.
    bed.until(lambda: pids <= _starters(bed, outage.up), 120, "every worker works again")
    firsts = {worker: min(s.at for s in _later(bed, outage.up) if s.pid == worker) for worker in pids}
    outage.resumed = max(firsts.values()) - outage.up
    time.sleep(plan.between)
    return outage


def _later(bed: Bed, moment: float) -> list[Any]:
    return [start for start in bed.ledger.starts() if start.at > moment]


def _starters(bed: Bed, moment: float) -> set[int]:
    return {start.pid for start in _later(bed, moment)}


def _terminate(bed: Bed, seconds: float) -> int:
    """End a random session of the workers every 100 ms."""
    deadline = time.monotonic() + seconds
    ended = 0
    with psycopg.connect(bed.url, autocommit=True) as admin:
        while time.monotonic() < deadline or ended < ENOUGH:
            ended += len(admin.execute(TERMINATE).fetchall())
            time.sleep(0.1)
    return ended


def _chatter(workers: Sequence[Worker], outages: Sequence[Outage]) -> int:
    """How many log lines more than one a second the noisiest worker wrote in one outage."""
    most = 0
    for worker in workers:
        moments = [at(line) for line in worker.log.lines() if "ts" in line]
        for outage in outages:
            lines = sum(outage.down <= moment <= outage.up for moment in moments)
            most = max(most, lines - int(outage.up - outage.down))
    return most
