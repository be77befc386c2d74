"""Enqueues that name many ids: they fit into the server's lock table, take turns with whoever names one of them, and with nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.acceptance.proxy import PostgresProxy, commit, execution_of
from tests.interleavings.sessions import Open
from tests.waiting import PATIENCE
from windlass.errors import EnqueueUnknownError, StoreError, StoreFullError
from windlass.features import Store
from windlass.model import After, Json, NewJob
from windlass.store.ids import new_ids
from windlass.store.jobs.copy import SameKindJobs
from windlass.submit.submitter import Submitter

pytestmark = pytest.mark.timing

MANY = 20_000


@pytest.fixture
def store(postgres_dsn: str, stores: Open) -> Store:
    return stores(postgres_dsn)


def test_the_repeat_of_a_big_enqueue_whose_reply_was_lost_finds_its_jobs(
    postgres_dsn: str, store: Store, stores: Open
) -> None:
    """It took a lock for each id, ran out of the server's shared memory, and said that nothing was stored."""
    with PostgresProxy(postgres_dsn) as proxy:
        far = stores(proxy.url)
        proxy.cut_reply_to(commit)
        alike = SameKindJobs(
            NewJob(kind="big"), [{"n": n} for n in range(MANY)], lambda call: f'{{"n":{call["n"]}}}'
        )
        answers = far.enqueue_alike(alike)
        assert proxy.cuts == 1
    assert len({answer.id for answer in answers}) == MANY
    assert store.phases.counts()["big"].queued == MANY


def test_a_long_chain_is_one_call(store: Store) -> None:
    ids = new_ids(5_000)
    jobs = [
        NewJob(kind="link", id=job, after=[After(parent)] if parent else [])
        for job, parent in zip(ids, [None, *ids], strict=False)
    ]
    with_locks(store, ids, lambda tx: None, most=64)
    assert len(store.enqueue(jobs)) == 5_000


def with_locks(store: Store, ids: list[str], work: Callable[[Any], None], most: int) -> None:
    """Do something while these ids are locked; with no more locks than ``most``."""

    def locked(tx: Any) -> None:
        tx.run("enqueue.lock", ids=sorted(ids))
        held = tx.connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ).fetchone()[0]
        assert held <= most
        work(tx)

    store.db.transact(locked)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 1000), (1000, 1), (1000, 1000)])
def test_calls_that_share_an_id_take_turns(
    postgres_dsn: str, store: Store, stores: Open, first: int, second: int
) -> None:
    shared, *others = new_ids(first + second)
    mine, theirs = [shared, *others[: first - 1]], [*others[first - 1 :], shared][-second:]
    other, order = stores(postgres_dsn), []
    is_locked, may_end = threading.Event(), threading.Event()

    def hold(tx: Any) -> None:
        is_locked.set()
        assert may_end.wait(PATIENCE)
        order.append("first")

    with ThreadPoolExecutor(2) as pool, psycopg.connect(postgres_dsn, autocommit=True) as look:
        one = pool.submit(with_locks, store, mine, hold, 128)
        assert is_locked.wait(PATIENCE)
        two = pool.submit(with_locks, other, theirs, lambda tx: order.append("second"), 128)
        while not look.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchone():
            assert not two.done()
        may_end.set()
        one.result(PATIENCE)
        two.result(PATIENCE)
    assert order == ["first", "second"]


def test_single_ids_wait_for_nobody_else(postgres_dsn: str, store: Store, stores: Open) -> None:
    """A caller's transaction may be open for long; a thousand other ids, all locks that stand for ids among them, pass by."""
    other = stores(postgres_dsn)
    held, *free = new_ids(1001)

    def pass_by(tx: Any) -> None:
        for job in free:
            other.enqueue([NewJob(kind="free", id=job)])

    with_locks(store, [held], pass_by, 128)
    assert other.phases.counts()["free"].queued == 1000


@pytest.mark.parametrize("way", ["one", "many", "alike"])
def test_what_may_be_stored_is_never_said_not_to_be(
    postgres_dsn: str, store: Store, stores: Open, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The reply is lost, and the repeat fails with an error that speaks for itself alone."""

    def no_room(*_: object) -> None:
        raise StoreFullError("PostgreSQL has no room left; nothing of this call was stored")

    with PostgresProxy(postgres_dsn) as proxy:
        far = stores(proxy.url)
        proxy.cut_reply_to(execution_of("AS moment, ") if way == "one" else commit)
        monkeypatch.setattr(far.db, "transact", no_room)
        with pytest.raises(EnqueueUnknownError, match="unknown") as caught:
            if way == "one":
                Submitter(far).submit(NewJob(kind="work"))
            elif way == "many":
                far.enqueue([NewJob(kind="work") for _ in range(700)])
            else:
                far.enqueue_alike(SameKindJobs(NewJob(kind="work"), [{}] * 700, lambda call: "{}"))
    error = caught.value
    assert "nothing of this call was stored" not in str(error) and isinstance(error, StoreError)
    n = 1 if way == "one" else 700
    assert len(error.ids) == n == store.phases.counts()["work"].queued
    again = store.enqueue([NewJob(kind="work", id=job, args=Json("{}")) for job in error.ids])
    assert not any(answer.created for answer in again)
    assert store.phases.counts()["work"].queued == n
