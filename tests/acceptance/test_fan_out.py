"""A parent with more children than one transaction lets know, and a worker that is killed while it lets them know."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.acceptance import processes
from tests.acceptance.fan_out_worker import PAGE
from tests.waiting import PATIENCE, eventually
from windlass.features import Store, open_store
from windlass.model import After, NewJob, State

pytestmark = pytest.mark.timing

WORKER = "tests.acceptance.fan_out_worker"
CHILDREN = 7 * PAGE


@pytest.fixture
def ledger(url: str) -> Iterator[Any]:
    """Where children write that they ran, each in the transaction that ends it."""
    connection: Any = (
        sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        if url.startswith("sqlite")
        else psycopg.connect(url, autocommit=True)
    )
    connection.execute("CREATE TABLE ran (job TEXT)")
    yield connection
    connection.close()


def fan_out(store: Store) -> tuple[str, set[str]]:
    """A queued parent and its children, which are linked to it."""
    store.upkeep.maintain()
    (parent,) = store.enqueue([NewJob(kind="parent")])
    children = store.enqueue([NewJob(kind="child", after=[After(parent.id)]) for _ in range(CHILDREN)])
    store.dependencies.link()
    return parent.id, {child.id for child in children}


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(1, id="in the first page of upkeep", marks=pytest.mark.long),
        pytest.param(3, id="in a later one"),
    ],
)
def test_an_engine_lets_the_children_of_a_killed_ones_parent_know(url: str, ledger: Any, pages: int) -> None:
    """Nobody but engines settles here: what one leaves the other finds by itself, and each child runs once."""
    with open_store(url) as store:
        parent, children = fan_out(store)
        victim = processes.start(WORKER, url, pages)
        try:
            assert victim.wait(PATIENCE) == -signal.SIGKILL
        finally:
            processes.stop(victim)
        assert store.jobs.get(parent).state is State.COMPLETED and store.upkeep.agenda().has("settling")
        assert store.phases.counts()["child"].waiting == CHILDREN - pages * PAGE, (
            "the pages that were committed"
        )
        with processes.running(WORKER, url):
            eventually(lambda: store.phases.counts()["child"].completed == CHILDREN, store.phases.counts)
            eventually(lambda: not store.upkeep.agenda().has("settling"))
        ran = [row[0] for row in ledger.execute("SELECT job FROM ran").fetchall()]
        assert len(ran) == CHILDREN and set(ran) == children
