"""On SQLite an idle instance reads and never takes the file's one write lock, however full the database is.

SQLite only: the verbs under test (``claim.ready``, ``promote.due``, …) exist because a SQLite file has one writer. On
PostgreSQL the same calls are single statements that lock nothing when they find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conformance.bystanders import gather
from tests.conformance.life import BOOM, claim_one, one
from windlass.clock import ManualClock
from windlass.features import Store, open_store
from windlass.model import NewSchedule, Retried, Want


@pytest.fixture
def file(sqlite_path: Path, clock: ManualClock) -> Iterator[Callable[[], Store]]:
    stores: list[Store] = []

    def open_another() -> Store:
        stores.append(open_store(f"sqlite:///{sqlite_path}", clock=clock))
        return stores[-1]

    yield open_another
    for store in stores:
        store.close()


@contextmanager
def only_reading(store: Store) -> Iterator[None]:
    """Inside, this store's writing connection runs no statement."""
    seen: list[str] = []
    store.db._connections.writer.set_trace_callback(seen.append)  # type: ignore[attr-defined]
    yield
    store.db._connections.writer.set_trace_callback(None)  # type: ignore[attr-defined]
    assert seen == []


def test_an_idle_instance_only_reads(file: Callable[[], Store], clock: ManualClock) -> None:
    """Beside jobs of other phases, held jobs, jobs too fresh, jobs that wait, and living instances with claims."""
    store = file()
    crowd = gather(store, file())
    store.dependencies.link()
    store.upkeep.fold()
    fresh = one(store, "fresh")
    store.upkeep.fold()
    store.schedules.put(NewSchedule(name="daily", kind="fresh", expression="@daily"))
    holder = store.join()
    one(store, "suspect")
    holder.record([Retried(claim_one(holder, "suspect"), BOOM, timedelta(0), crashed=True)])
    store.upkeep.promote()
    clock.advance(timedelta(seconds=1))
    holder.step()
    store.upkeep.fold()
    with only_reading(store):
        assert not holder.claim("nothing", 5)
        assert not holder.step((), Want("suspect", 5, suspects=False)).claimed
        assert not holder.claim("crowd.held", 5)
        assert not holder.claim("fresh", 5, quiet=timedelta(hours=1))
        assert store.upkeep.promote() == {}
        assert store.dependencies.link() == 0
        assert store.recovery.recover() == []
        assert store.schedules.fire_due() == []
        store.upkeep.fold()
    assert [lease.id for lease in holder.claim("fresh", 5)] == [fresh]
    assert crowd.keeper.beat().released == 0


def test_what_is_due_is_not_overlooked(file: Callable[[], Store], clock: ManualClock) -> None:
    """Each read that saves a write finds the one thing there is to do."""
    store = file()
    gather(store, file())
    one(store, "soon", delay=timedelta(seconds=1))
    store.schedules.put(NewSchedule(name="soon", kind="soon", expression="* * * * * *"))
    with store.db.effect(5) as tx:
        instance = tx.connection.execute(
            "SELECT id FROM windlass_instance ORDER BY started_at LIMIT 1"
        ).fetchone()
    assert store.db.read("link.due") and store.db.read("fold.due")
    assert not store.db.read("promote.due") and not store.db.read("recover.due", own=None)
    assert not store.db.read("fire.due")
    clock.advance(2)
    assert store.db.read("promote.due") and store.db.read("fire.due")
    with store.db.effect(5) as tx:
        tx.connection.execute("UPDATE windlass_instance SET dead_at = 1 WHERE id = ?", instance)
    assert store.db.read("recover.due", own=None)
