"""Claims raced by real processes: every job to exactly one of them, under a token nobody else has (I-3, I-4)."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.acceptance import processes
from windlass.features import Store, open_store
from windlass.model import Job, JobFilter, NewJob, State

pytestmark = pytest.mark.timing

PROCESSES = 8
JOBS = 20_000 if os.environ.get("WINDLASS_TEST_LONG") else 4_000
BATCH = 50
PRIORITIES = 4


def enqueue(store: Store, jobs: int) -> list[str]:
    """Jobs of one phase, priorities mixed, in calls of 1,000."""
    ids: list[str] = []
    for start in range(0, jobs, 1000):
        batch = [NewJob(kind="race", priority=n % PRIORITIES) for n in range(start, min(jobs, start + 1000))]
        ids += [answer.id for answer in store.enqueue(batch)]
    return ids


@pytest.mark.slow
def test_eight_processes_claim_thousands_of_jobs_once_each(url: str, tmp_path: Path) -> None:
    """Every job is claimed exactly once, tokens are never shared, each claim is in order of priority and within its
    limit; what was completed is completed, what was not is still held under the token its process wrote down."""
    with open_store(url) as store:
        ids = enqueue(store, JOBS)
        files = [tmp_path / f"claimed-{n}" for n in range(PROCESSES)]
        with processes.together(
            "tests.acceptance.claimer", [(url, "race", BATCH, file) for file in files]
        ) as running:
            processes.finish(running)

        owners: dict[int, set[int]] = defaultdict(set)
        claims: dict[tuple[int, int], list[int]] = defaultdict(list)
        tokens: dict[str, int] = {}
        seen: Counter[str] = Counter()
        for number, file in enumerate(files):
            for line in file.read_text().splitlines():
                claim, job_id, token, attempt, priority = line.split()
                assert attempt == "1"
                seen[job_id] += 1
                tokens[job_id] = int(token)
                owners[int(token)].add(number)
                claims[number, int(claim)].append(int(priority))

        assert seen == Counter(ids)
        assert all(len(who) == 1 for who in owners.values())
        assert len(owners) == len(claims)
        assert all(len(claim) <= BATCH for claim in claims.values())
        assert all(claim == sorted(claim, reverse=True) for claim in claims.values())
        assert sum(bool(file.read_text()) for file in files) >= 2, "too few of them got anything to race for"

        # Each process completed the jobs at even places of its claims, so at least half of all.
        counts = store.phases.counts()["race"]
        completed = sum((len(claim) + 1) // 2 for claim in claims.values())
        assert (counts.queued, counts.completed, counts.processing) == (0, completed, JOBS - completed)
        held = {job.id: job for job in pages(store, State.PROCESSING)}
        assert len(held) == JOBS - completed
        assert {job.attempt for job in held.values()} == {1}
        assert held_tokens(store, url) == {job_id: tokens[job_id] for job_id in held}


def pages(store: Store, state: State) -> list[Job]:
    jobs: list[Job] = []
    cursor = None
    while True:
        page = store.jobs.list(JobFilter(state=state), cursor=cursor, limit=1000)
        jobs += page.jobs
        if (cursor := page.next_cursor) is None:
            return jobs


def held_tokens(store: Store, url: str) -> dict[str, int]:
    """(id, token) of every held job, from the table itself."""
    if url.startswith("sqlite"):
        import sqlite3

        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            rows = connection.execute("SELECT id, token FROM windlass_job WHERE token IS NOT NULL").fetchall()
        connection.close()
    else:
        import psycopg

        with psycopg.connect(url) as server:
            rows = server.execute(
                "SELECT id::text, token FROM windlass.job WHERE token IS NOT NULL"
            ).fetchall()
    return dict(rows)


def test_one_process_is_served_in_order_of_priority_then_age(url: str) -> None:
    """With nobody to race, the order holds across claims too, whatever their size."""
    with open_store(url) as store:
        ids = enqueue(store, 200)
        holder = store.join()
        served: list[tuple[int, str]] = []
        while claimed := holder.claim("race", 7):
            served += [(lease.priority, lease.id) for lease in claimed]
        expected = sorted(
            ((n % PRIORITIES, job_id) for n, job_id in enumerate(ids)), key=lambda job: (-job[0], job[1])
        )
        assert served == expected
