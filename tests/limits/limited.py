"""What the tests of limits have in common: limited jobs, their gates, and counts that must be true after every test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.bystanders import prefix, rows
from tests.conformance.life import assert_counts_are_true, enqueue
from windlass.features import Store
from windlass.model import (
    Gate,
    JobLimit,
)

PHASE = "work"


def limited(
    store: Store, n: int = 1, *, key: str = "a", limit: int = 2, phase: str = PHASE, **options: Any
) -> list[str]:
    """Enqueue jobs that may be let in ``limit`` at a time."""
    options = {"limits": [JobLimit(phase=phase, key=key, limit=limit)], **options}
    return enqueue(store, n=n, **options)


def let_in(store: Store) -> None:
    """What upkeep does."""
    assert store.limits.assign()


def gate(store: Store, key: str = "a", phase: str = PHASE) -> Gate:
    (found,) = [item for item in store.limits.gates(phase) if item.key == key]
    return found


def where(store: Store, ids: list[str]) -> list[str]:
    """Each job's state, and why it waits."""
    jobs = [store.jobs.get(job_id) for job_id in ids]
    return [str(job.state) if job.reason is None else f"{job.state}: {job.reason}" for job in jobs]


@pytest.fixture(autouse=True)
def always_true(store: Store) -> Any:
    """Counts that need no scan, and counts of gates, are true after every test."""
    yield
    assert_counts_are_true(store)
    assert store.limits.check() == []


def places(store: Store) -> int:
    """Jobs that are let in, by the tables themselves."""
    return len(rows(store, "job")) + len(rows(store, "job_later", "reason = 'paced'"))


def spoil(store: Store, statement: str) -> None:
    """Execute a statement that makes rows of limits wrong; ``{}`` is the prefix of the tables."""
    with store.db.effect(5) as tx:
        tx.connection.execute(statement.format(prefix(store)))
