"""What conformance tests share: short ways to bring jobs into a state, and the truth behind the counts."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from windlass.features import Store
from windlass.model import Counts, JobError, JobFilter, Lease, NewJob, State
from windlass.store.jobs.holder import Holder

BOOM = JobError(type="Boom", code="boom", message="it broke", traceback="Traceback …")
LEASE = timedelta(seconds=30)


def enqueue(store: Store, kind: str = "work", n: int = 1, **options: Any) -> list[str]:
    """Enqueue n like jobs; their ids."""
    return [answer.id for answer in store.enqueue([NewJob(kind=kind, **options) for _ in range(n)])]


def one(store: Store, kind: str = "work", **options: Any) -> str:
    """Enqueue one job; its id."""
    return enqueue(store, kind, 1, **options)[0]


def claim_one(holder: Holder, phase: str = "work") -> Lease:
    """Claim the one job that is there."""
    (lease,) = holder.claim(phase, 1)
    return lease


def state(store: Store, job_id: str) -> State:
    return store.jobs.get(job_id).state


def every_job(store: Store, **only: Any) -> list[Any]:
    """All jobs of a filter, page by page."""
    jobs: list[Any] = []
    cursor = None
    while True:
        page = store.jobs.list(JobFilter(**only), cursor=cursor, limit=100)
        jobs += page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return jobs


def real_counts(store: Store) -> dict[str, Counts]:
    """Counts made the slow way, from the jobs themselves."""
    seen: dict[str, Counter[str]] = {}
    for job in every_job(store):
        seen.setdefault(job.phase, Counter())[str(job.state)] += 1
    return {phase: Counts(**states) for phase, states in seen.items()}


def assert_counts_are_true(store: Store) -> None:
    """The counts that do not scan equal the ones that do."""
    told = {phase: counts for phase, counts in store.phases.counts().items() if counts != Counts()}
    assert told == real_counts(store)
