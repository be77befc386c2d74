"""Wake-ups: hints that make things fast, and on which nothing rests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from tests.conformance.life import claim_one, one
from tests.waiting import PATIENCE
from windlass.errors import StoreError
from windlass.features import Store, open_store
from windlass.model import NewJob
from windlass.store.database import CANCEL, LATER, NUDGE, RECONNECTED, Listener

pytestmark = pytest.mark.timing


@pytest.fixture
def listener(store: Store) -> Iterator[Listener]:
    made = store.listen()
    made.wait(0.01)
    yield made
    made.close()


def heard(listener: Listener, seconds: float = PATIENCE) -> list[str]:
    """Everything heard until something came or the time was over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if hints := list(listener.wait(0.1)):
            return hints
    return []


def test_a_waiting_instance_hears_of_new_work(
    store: Store, opened: Callable[[], Store], listener: Listener
) -> None:
    """I-29. SQLite cannot say what was committed, so there the hint is to look at everything."""
    store.wait(["work", LATER], 30)
    heard(listener, 0.3)
    one(opened(), "work")
    assert heard(listener)[0] in ("work", RECONNECTED)


def test_work_for_later_wakes_whoever_promotes(
    store: Store, opened: Callable[[], Store], listener: Listener
) -> None:
    store.wait(["work", LATER], 30)
    heard(listener, 0.3)
    other = opened()
    with other.db.effect(5) as tx:
        other.enqueuer.enqueue_in(tx, [NewJob(kind="work")])
        assert heard(listener, 0.2) == [], "a hint comes with the commit, not before"
    assert heard(listener)[0] in (LATER, RECONNECTED)


def test_silence_is_silent(store: Store, listener: Listener) -> None:
    store.wait(["work"], 30)
    heard(listener, 0.3)
    assert heard(listener, 0.3) == []


def test_on_postgres_nobody_is_told_who_does_not_wait(postgres_dsn: str) -> None:
    """NOTIFY takes a cluster-wide lock, so it is sent only where somebody asked for it, and not by each enqueue."""
    with (
        open_store(postgres_dsn) as store,
        open_store(postgres_dsn) as other,
        closing(store.listen()) as listener,
    ):
        listener.wait(0.01)
        one(other, "work")
        store.wait(["elsewhere"], 30)
        one(other, "work")
        assert heard(listener, 0.3) == []
        store.wait(["work"], 30)
        for _ in range(20):
            one(other, "work")
        assert set(heard(listener)) == {"work"}
        one(other, "work", delay=timedelta(seconds=5))
        store.wait([LATER], 30)
        one(other, "work", delay=timedelta(seconds=5))
        while LATER not in (hints := heard(listener)):
            assert hints == ["work"]


def test_a_wait_is_ended_by_another_thread(listener: Listener) -> None:
    heard(listener, 0.3)
    hints: list[str] = ["not yet"]

    def wait() -> None:
        hints[:] = listener.wait(10 * PATIENCE)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    listener.interrupt()
    waiting.join(PATIENCE)
    assert not waiting.is_alive() and hints == []
    assert list(listener.wait(10 * PATIENCE)) == []
    listener.close()
    listener.interrupt()


def test_on_postgres_a_bulk_enqueue_tells_too(postgres_dsn: str) -> None:
    with (
        open_store(postgres_dsn) as store,
        open_store(postgres_dsn) as other,
        closing(store.listen()) as listener,
    ):
        listener.wait(0.01)
        store.wait(["work"], 30)
        other.enqueue([NewJob(kind="work") for _ in range(600)] + [NewJob(kind="quiet") for _ in range(10)])
        assert heard(listener) == ["work"]


def test_on_postgres_cancels_and_releases_announce_themselves(postgres_dsn: str) -> None:
    with open_store(postgres_dsn) as store, closing(store.listen()) as listener:
        listener.wait(0.01)
        job_id = one(store, "work")
        holder = store.join()
        lease = claim_one(holder)
        store.jobs.cancel(job_id)
        assert heard(listener) == [f"{CANCEL}{job_id} {lease.token}"]
        other = one(store, "work")
        second = claim_one(holder)
        assert second.id == other
        holder.release(second)
        assert heard(listener) == [f"{NUDGE}work"]
        holder.cancel(lease)


def test_on_postgres_a_listener_comes_back_and_says_so(postgres_dsn: str) -> None:
    """A listener that lost its connection without anybody noticing is what others were bitten by."""
    with (
        open_store(postgres_dsn) as store,
        psycopg.connect(postgres_dsn, autocommit=True) as admin,
        closing(store.listen()) as listener,
    ):
        listener.wait(0.01)
        store.wait(["work"], 60)
        ended = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%LISTEN%'"
        ).fetchall()
        assert ended == [(True,)]
        assert heard(listener) == [RECONNECTED]
        one(store, "work")
        assert heard(listener) == ["work"]


def test_behind_a_pooler_nothing_is_kept_in_the_session(postgres_dsn: str) -> None:
    """I-30: no prepared statements, no settings, no notifications; a whole life goes through all the same."""
    with open_store(postgres_dsn, pooled=True) as store:
        job_id = one(store, "work")
        holder = store.join()
        for _ in range(8):
            lease = claim_one(holder)
            holder.release(lease)
        lease = claim_one(holder)
        holder.checkpoint(lease, done=1)
        holder.beat()
        holder.complete(lease)
        assert store.jobs.get(job_id).state == "completed"
        with store.db.effect(5) as tx:
            assert tx.connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0] == 0
            assert tx.connection.execute("SHOW plan_cache_mode").fetchone()[0] == "auto"
            assert tx.connection.execute("SHOW statement_timeout").fetchone()[0] == "5s"
        with store.db.effect(5) as tx:
            pass
        assert store.db.run("counts"), "the effect's time-outs ended with it"
        with closing(store.listen()) as listener:
            store.wait(["work"], 30)
            one(store, "work")
            assert heard(listener, 0.3) == []


def test_a_direct_url_beside_the_pooler_brings_the_hints_back(postgres_dsn: str) -> None:
    with (
        open_store(postgres_dsn, pooled=True, direct_url=postgres_dsn) as store,
        closing(store.listen()) as listener,
    ):
        listener.wait(0.01)
        store.wait(["work"], 30)
        one(store, "work")
        assert heard(listener) == ["work"]


def test_inside_an_open_effect_sqlite_refuses_to_wait_for_itself(sqlite_path: Path) -> None:
    """The same thread cannot get the file's one write lock a second time; it is told at once, and how to do it."""
    with open_store(f"sqlite:///{sqlite_path}") as store:
        one(store, "work")
        holder = store.join()
        lease = claim_one(holder)
        with holder.transaction(lease) as tx:
            with pytest.raises(StoreError, match="through that transaction"):
                one(store, "work")
            (made,) = tx.enqueue([NewJob(kind="work")])
            tx.complete()
        assert store.jobs.get(made.id).state == "queued"
