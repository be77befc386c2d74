"""Who is notified: phases that got work and that somebody waits for now; nobody else (PostgreSQL only)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import psycopg
import pytest

from tests.interleavings.conftest import Open
from tests.interleavings.sessions import enqueue, eventually
from windlass.model import After, DependencyPolicy
from windlass.store import Store
from windlass.store.contract import CHANNEL, LATER
from windlass.store.ids import new_id

SOON = timedelta(milliseconds=1)


@pytest.fixture
def store(postgres_dsn: str, stores: Open) -> Store:
    """Somebody waits for a and b; somebody waited for late, but no more; nobody waits for c."""
    store = stores(postgres_dsn)
    store.db.wait(["a", "b"], 60)
    store.db.wait(["late"], -1)
    return store


@pytest.fixture
def heard(postgres_dsn: str) -> Iterator[Callable[[], list[str]]]:
    """What was notified so far, in order."""
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")

        def hear() -> list[str]:
            connection.execute(f"NOTIFY {CHANNEL}, 'last'")
            payloads = []
            for notification in connection.notifies(timeout=5):
                if notification.payload == "last":
                    break
                payloads.append(notification.payload)
            return payloads

        yield hear


def row(phase: str, *, tell: bool, pending: int = 0) -> dict[str, object]:
    fixed = {"kind": "k", "lane": 4, "max_attempts": 1, "flags": 0, "args": {}}
    return {"id": new_id(), "phase": phase, "tell": tell, "pending": pending, **fixed}


def test_an_enqueue_tells_who_waits(store: Store, heard: Callable[[], list[str]]) -> None:
    rows = [row("a", tell=True), row("b", tell=False), row("c", tell=True), row("late", tell=True)]
    told = store.db.run("enqueue", jobs=json.dumps(rows))
    assert [answer[0] for answer in told] == ["a"] and heard() == ["a"]
    store.db.wait([LATER], 60)
    told = store.db.run("enqueue", jobs=json.dumps([row("c", tell=True, pending=1), row("b", tell=False)]))
    assert [answer[0] for answer in told] == [LATER] and heard() == [LATER]


def test_a_promotion_tells_who_waits(store: Store, heard: Callable[[], list[str]]) -> None:
    for phase in ("a", "late", "c"):
        enqueue(store, kind=phase, delay=SOON)
    eventually(lambda: (store.upkeep.next_due() or store.now()) < store.now() - 3 * SOON, "all to be due")
    assert store.upkeep.promote() == {"a": 1, "late": 1, "c": 1}
    assert heard() == ["a"]


def test_the_end_of_a_parent_tells_who_waits_for_its_children(
    store: Store, heard: Callable[[], list[str]]
) -> None:
    (parent,) = enqueue(store, kind="c")
    for phase in ("a", "late"):
        enqueue(store, kind=phase, after=[After(parent, DependencyPolicy.RUN)])
    store.dependencies.link()
    heard()
    store.jobs.cancel(parent)
    assert heard() == ["a"]


def test_a_hint_goes_to_who_waits_and_a_nudge_to_everybody(
    store: Store, heard: Callable[[], list[str]]
) -> None:
    phases = ["a", "c", "late"]
    store.db.run("tell", phases=phases, prefix="")
    assert heard() == ["a"]
    store.db.run("tell", phases=phases, prefix="! ")
    assert heard() == ["! a", "! c", "! late"]


def test_who_waits_for_a_short_time_shortens_nobodys_wait(store: Store, postgres_dsn: str) -> None:
    def until(phase: str) -> object:
        with psycopg.connect(postgres_dsn) as connection:
            text = "SELECT waiting_until FROM windlass.wake WHERE phase = %s"
            return connection.execute(text, (phase,)).fetchone()

    before = until("a")
    store.db.wait(["a", "late"], 1)
    assert until("a") == before
    late = until("late")
    store.db.wait(["late"], 60)
    assert until("late") != late
