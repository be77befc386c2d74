"""Schedules of every second while workers are killed: each due time makes one job, none twice and none missing (I-27)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from chaos.bed import Bed
from chaos.checker import check
from chaos.findings import Findings
from chaos.settings import DEFAULT, QUICK, Leases
from windlass.model import Missed, NewSchedule

STORES = ("postgres", "sqlite")
SECOND = timedelta(seconds=1)
AIM = 0.03


@dataclass(frozen=True, slots=True)
class Plan:
    workers: int = 5
    schedules: int = 50
    seconds: float = 60.0
    kill_every: float = 5.0
    leases: Leases = DEFAULT
    median_ms: float = 100.0


LONG = Plan()
SHORT = Plan(workers=3, seconds=7.0, kill_every=3.0, leases=QUICK, median_ms=1000.0)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """All workers fire; every few seconds one of them is killed, when it likely fires, and another takes its place."""
    settings = plan.leases.settings
    serving = bed.children(plan.workers, settings=settings)
    firsts = _define(bed, plan)
    began, killed = time.monotonic(), 0
    while (killed + 1) * plan.kill_every < plan.seconds:
        time.sleep(max(0.0, began + (killed + 1) * plan.kill_every - 1 - time.monotonic()))
        _aim(bed)
        place = bed.random.randrange(plan.workers)
        serving[place].kill()
        killed += 1
        serving[place] = bed.worker(serving=False, settings=settings)
    time.sleep(max(0.0, began + plan.seconds - time.monotonic()))
    ends = _stop(bed, firsts)
    findings.holds("drained", True, bed.drained(quiet=plan.leases.lease + 60))
    _await_recovery(bed, plan)
    for worker in serving:
        worker.stop()
    check(bed, findings)
    findings.least("workers killed", killed, plan.seconds // plan.kill_every - 1)
    _judge(bed, plan, findings, firsts, ends)


def _aim(bed: Bed) -> None:
    """Wait for the moment when workers fire: the first milliseconds of a second."""
    time.sleep(1 - time.time() % 1 + bed.random.random() * AIM)


def _await_recovery(bed: Bed, plan: Plan) -> None:
    """Let the living take over what the last of the killed left behind; the checker says if they did not."""
    deadline = time.monotonic() + plan.leases.recovered_within + 5
    while time.monotonic() < deadline and bed.query(f"SELECT token FROM {bed.table('claim')}"):
        time.sleep(0.1)


def _define(bed: Bed, plan: Plan) -> dict[str, datetime]:
    """The schedules, each with its first due time."""
    names = [f"beat-{number}" for number in range(plan.schedules)]
    bed.store.schedules.define(
        [
            NewSchedule(
                name=name, kind="note", expression="* * * * * *", missed=Missed.ALL, cap=1000, max_attempts=50
            )
            for name in names
        ]
    )
    found = {item.name: item.next_at or item.last_at for item in bed.store.schedules.list()}
    oldest: dict[str, datetime] = {}
    for name in names:
        ticks = bed.store.schedules.ticks(name, 100)  # one may have fired before we looked
        at = ticks[-1].at if ticks else found[name]
        assert at is not None
        oldest[name] = at
    return oldest


def _stop(bed: Bed, names: Mapping[str, datetime]) -> dict[str, datetime]:
    """Pause each schedule; what was due before that has to have fired. Answers the last second that was over for each."""
    ends = {}
    for name in names:
        before = bed.store.schedules.get(name)
        assert before.next_at is not None
        ends[name] = before.next_at - SECOND
        bed.store.schedules.pause(name, "the experiment is over")
    return ends


def _judge(
    bed: Bed, plan: Plan, findings: Findings, firsts: Mapping[str, datetime], ends: Mapping[str, datetime]
) -> None:
    moment = bed.store.db.moment
    ticks = [
        (row[0], moment(row[1]), moment(row[2]), str(row[3]))
        for row in bed.query(f"SELECT schedule, at, fired_at, job FROM {bed.table('tick')}")
    ]
    fired = {(name, at) for name, at, _, _ in ticks}
    due = {
        (name, first + n * SECOND)
        for name, first in firsts.items()
        for n in range(int((ends[name] - first).total_seconds()) + 1)
    }
    jobs = bed.query(f"SELECT CAST(id AS text), correlation, state FROM {bed.table('jobs')}")
    made = Counter(row[1] for row in jobs)
    findings.least("due times", len(due), plan.schedules * (plan.seconds - 2))
    findings.note("ticks fired", len(ticks))
    findings.none("due times missing", sorted(due - fired))
    findings.none("due times made up", sorted(at for at in fired if at[1] > ends[at[0]] + SECOND))
    findings.none("due times with two jobs", [name for name, count in made.items() if count > 1])
    findings.none("ticks without a job", [tick for tick in ticks if tick[3] not in {row[0] for row in jobs}])
    findings.none("jobs without a tick", [row for row in jobs if row[0] not in {tick[3] for tick in ticks}])
    findings.none("jobs that did not complete", [row for row in jobs if row[2] != "completed"])
    late = sorted((fired_at - at).total_seconds() * 1000 for _, at, fired_at, _ in ticks)
    findings.least("earliest, ms", late[0], 0)
    findings.most("median late, ms", late[len(late) // 2], plan.median_ms)
    findings.note("99 % late by at most, ms", late[len(late) * 99 // 100])
    findings.note("latest, ms", late[-1])
