"""Every kind of outcome, in batches, from several processes at once: no deadlock, nothing lost."""

from __future__ import annotations

import os
import random

import psycopg
import pytest

from tests.acceptance import processes
from tests.interleavings.sessions import Open, assert_consistent, deadlocks
from windlass.model import After, DependencyPolicy, Key, NewJob, State

pytestmark = pytest.mark.timing

PROCESSES = 4
PARENTS = 1500 if os.environ.get("WINDLASS_TEST_LONG") else 500
CHILDREN = 40
FAN_IN = 40


@pytest.mark.slow
def test_mixed_batches_from_four_processes_give_no_deadlock(postgres_dsn: str, stores: Open) -> None:
    """Complete, fail, retry, cancel, advance with output and release in random batches, with keys, checkpoints, cancels
    from outside and forty children that wait for forty parents each: the server counts no deadlock, every job ends, every
    child does what its parents' ends say, and the counts are true."""
    store = stores(postgres_dsn)
    chance = random.Random(7)
    parents: list[str] = []
    for start in range(0, PARENTS, 500):
        batch = [
            NewJob(
                kind="parent",
                phase="first",
                priority=chance.randrange(3, 6),
                key=Key(f"p{start + n}") if n % 5 == 0 else None,
                max_attempts=3,
            )
            for n in range(min(500, PARENTS - start))
        ]
        parents += [answer.id for answer in store.enqueue(batch)]
    policies = (DependencyPolicy.RUN, DependencyPolicy.CANCEL, DependencyPolicy.WAIT)
    waits: dict[str, dict[str, DependencyPolicy]] = {}
    for _ in range(CHILDREN):
        # Mostly RUN, or hardly any child would ever run: one parent in six does not complete.
        edges = {
            parent: chance.choices(policies, weights=(60, 1, 1))[0]
            for parent in chance.sample(parents, FAN_IN)
        }
        (made,) = store.enqueue(
            [
                NewJob(
                    kind="child",
                    phase="second",
                    after=[After(parent, policy) for parent, policy in edges.items()],
                )
            ]
        )
        waits[made.id] = edges

    with processes.together(
        "tests.interleavings.mixer", [(postgres_dsn, n) for n in range(PROCESSES)]
    ) as running:
        processes.finish(running)
    # A last outcome may have made children due when the others had gone already; none may be stuck elsewhere.
    store.upkeep.promote()
    store.dependencies.link()

    assert deadlocks(postgres_dsn) == 0
    assert_consistent(postgres_dsn, store)
    states = {parent: store.jobs.get(parent).state for parent in parents}
    assert all(state.is_final for state in states.values())
    for child, edges in waits.items():
        bad = {policy for parent, policy in edges.items() if states[parent] is not State.COMPLETED}
        job = store.jobs.get(child)
        if DependencyPolicy.CANCEL in bad:
            assert job.state is State.CANCELLED, child
        elif DependencyPolicy.WAIT in bad:
            assert job.state is State.WAITING and job.pending == sum(
                policy is DependencyPolicy.WAIT and states[parent] is not State.COMPLETED
                for parent, policy in edges.items()
            )
        else:
            assert job.state.is_final, f"child {child} is {job.state}, and all its parents ended"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM windlass.job").fetchone() == (0,)
    assert {store.jobs.get(child).state for child in waits} > {State.COMPLETED, State.CANCELLED}
