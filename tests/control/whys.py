"""One case for each code of ``why`` whose facts the database has by itself: makes a job of that code, on a clock that stands still."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from windlass import App, Rate
from windlass.clock import ManualClock
from windlass.control.why.codes import Why, WhyCode
from windlass.model import After, Flow, JobError, JobLimit, NewJob
from windlass.model.rule import Rule
from windlass.store.ids import new_id
from windlass.store.jobs.holder import Holder

LEASE = timedelta(seconds=30)
BAD = JobError(type="ValueError", code="error", message="bad row", traceback=None)


class Bench:
    """An app on a store with a held clock, and short ways to bring jobs into every state."""

    def __init__(self, app: App, clock: ManualClock) -> None:
        self.app = app
        self.store = app.store
        self.clock = clock

    def add(self, kind: str = "welcome", **options: Any) -> str:
        (made,) = self.store.enqueue([NewJob(kind=kind, **options)])
        return made.id

    def serve(self, *phases: str, **facts: Any) -> Holder:
        """An instance that serves phases, with a board where facts are given."""
        holder = self.store.join(lease=LEASE, info={"phases": list(phases or ["welcome"])})
        if facts:
            self.store.boards.put(holder.id, json.dumps(facts))
        return holder

    def why(self, job_id: str) -> Why:
        return self.app.jobs.why(job_id)

    def codes(self, job_id: str) -> list[str]:
        """The code of a job, and those of its further reasons."""
        why = self.why(job_id)
        assert all(not other.also for other in why.also)
        return [str(item.code) for item in (why, *why.also)]


def scheduled(bench: Bench) -> str:
    bench.serve()
    return bench.add(delay=timedelta(minutes=4))


def retry(bench: Bench) -> str:
    job = bench.add(max_attempts=5)
    holder = bench.serve()
    (lease,) = holder.claim("welcome", 1)
    holder.retry_later(lease, BAD, timedelta(minutes=4))
    return job


def dependencies(bench: Bench) -> str:
    bench.serve()
    return bench.add(after=[After(bench.add()), After(bench.add())])


def fan_in(bench: Bench) -> str:
    bench.store.rules.define(
        [
            Rule(
                name="books",
                parents=("north", "south"),
                create="report",
                phase="report",
                key=("args.period",),
            )
        ]
    )
    job = bench.add("north", args={"period": "2026-05"})
    holder = bench.serve("north")
    (lease,) = holder.claim("north", 1)
    holder.complete(lease)
    return job


def paused(bench: Bench) -> str:
    bench.serve()
    bench.app.phases.pause("welcome", "failover", lasts=600)
    return bench.add()


def limit(bench: Bench) -> str:
    bench.serve()
    bench.store.limits.define([Flow(phase="welcome", limit=1, limit_key="args.county")])
    jobs = [
        bench.add(args={"county": "kent"}, limits=[JobLimit(phase="welcome", key="kent", limit=1)])
        for _ in range(3)
    ]
    bench.store.limits.let_in()
    return jobs[-1]


def rate(bench: Bench) -> str:
    bench.serve()
    slow = Rate(0.1, 1)
    bench.store.limits.define([Flow(phase="welcome", rate=slow)])
    jobs = [bench.add(limits=[JobLimit(phase="welcome", rate=slow)]) for _ in range(3)]
    bench.store.limits.let_in()
    return jobs[-1]


def no_instance(bench: Bench) -> str:
    bench.serve("report")
    return bench.add()


def not_promoted(bench: Bench) -> str:
    bench.serve()
    job = bench.add(delay=timedelta(seconds=10))
    bench.clock.advance(12)
    return job


def ahead(bench: Bench) -> str:
    bench.serve("welcome", phases={"welcome": {"size": 2, "busy": 2}})
    return [bench.add() for _ in range(4)][-1]


def cancel_requested(bench: Bench) -> str:
    job = processing(bench)
    bench.store.jobs.cancel(job, "ordered twice")
    return job


def lease_expired(bench: Bench) -> str:
    job = processing(bench)
    bench.clock.advance(LEASE * 2)
    bench.serve()
    return job


def processing(bench: Bench) -> str:
    job = bench.add()
    assert bench.serve().claim("welcome", 1)
    return job


def ended(bench: Bench) -> str:
    job = bench.add()
    holder = bench.serve()
    (lease,) = holder.claim("welcome", 1)
    holder.complete(lease)
    return job


def unknown(bench: Bench) -> str:
    return new_id()


CASES: dict[WhyCode, Callable[[Bench], str]] = {
    WhyCode.SCHEDULED: scheduled,
    WhyCode.RETRY: retry,
    WhyCode.DEPENDENCIES: dependencies,
    WhyCode.PAUSED: paused,
    WhyCode.LIMIT: limit,
    WhyCode.RATE: rate,
    WhyCode.NO_INSTANCE: no_instance,
    WhyCode.NOT_PROMOTED: not_promoted,
    WhyCode.AHEAD: ahead,
    WhyCode.CANCEL_REQUESTED: cancel_requested,
    WhyCode.LEASE_EXPIRED: lease_expired,
    WhyCode.PROCESSING: processing,
    WhyCode.ENDED: ended,
    WhyCode.UNKNOWN: unknown,
}
"""The codes that the database alone decides."""
ON_INSTANCES = {
    WhyCode.BACKPRESSURE,
    WhyCode.QUIET,
    WhyCode.LOCK_HELD,
    WhyCode.ISOLATED,
    WhyCode.INSTANCE_CAP,
}
"""The codes that only instances know (test_why_engine.py)."""
