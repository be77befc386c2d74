"""Connections: one need cannot starve another, and a handler's connection is its own."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.conformance.life import claim_one, enqueue, one
from tests.waiting import PATIENCE, eventually
from windlass.errors import (
    ConfigError,
    SchemaError,
    StoreBusyError,
    StoreError,
    StoreInterruptedError,
    StoreUnreachableError,
)
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import Store, open_store
from windlass.model import After, DependencyPolicy, Failed, JobError, Key, Lease, NewJob, Verdict
from windlass.store.jobs.holder_results import Beat
from windlass.store.migrate import migrate
from windlass.store.postgres.transaction import PostgresTransaction

pytestmark = pytest.mark.timing


def test_handlers_that_keep_every_effect_open_stop_nobody_else(postgres_dsn: str) -> None:
    """I-11: the heartbeat and the recorder have connections that handlers cannot take."""
    with open_store(postgres_dsn, max_connections=2, connect_timeout=2) as store, ExitStack() as stack:
        enqueue(store, n=4)
        holder = store.join()
        leases = holder.claim("work", 4)
        for lease in leases[:2]:
            stack.enter_context(holder.transaction(lease))
        with pytest.raises(StoreUnreachableError, match="max_connections"), holder.transaction(leases[2]):
            pass
        assert holder.beat().released == 0
        assert holder.complete(leases[3]) is Verdict.RECORDED
        one(store)
        assert len(holder.claim("work", 5)) == 1


@contextmanager
def waiters(dsn: str, store: Store, count: int) -> Iterator[list[Future[object]]]:
    """So many enqueues that wait for a key which a transaction of somebody else's holds until the end of the block."""
    job = NewJob(kind="keyed", key=Key("order-7"))
    with psycopg.connect(dsn) as user, ThreadPoolExecutor(count) as threads:
        user.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # this one is the test's own
        store.enqueuer.enqueue_in(PostgresTransaction(user, None, prepare=False, is_foreign=True), [job])
        calls: list[Future[object]] = [threads.submit(store.enqueue, [job]) for _ in range(count)]
        with psycopg.connect(dsn, autocommit=True) as admin:
            look = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            eventually(lambda: admin.execute(look).fetchone() != (0,), "somebody waits for the key")
        try:
            yield calls
        finally:
            user.rollback()


def test_a_beat_gets_through_when_every_other_connection_is_taken(postgres_dsn: str) -> None:
    """The whole beat: what it reads after it renewed the lease has no other connection either."""
    with open_store(postgres_dsn, max_connections=1, connect_timeout=1) as store:
        enqueue(store, n=3)
        holder = store.join()
        asked, lost, _ = holder.claim("work", 1)[0], holder.claim("work", 1)[0], holder.claim("work", 1)
        store.jobs.cancel(asked.id)
        del holder._left[lost.token]  # as if the claim's reply had never come
        with store.db._connection():  # type: ignore[attr-defined] # as a verb that takes for ever would
            beat = holder.beat(unknown_grace=timedelta(0))
            assert ([item.job for item in beat.cancelled], beat.released) == ([asked.id], 1)


@pytest.mark.owner
def test_a_beat_counts_although_what_comes_after_it_is_refused(postgres_dsn: str) -> None:
    """Its lease is renewed; to call that a failure would stop jobs for nothing."""
    with open_store(postgres_dsn) as store, psycopg.connect(postgres_dsn) as other:
        enqueue(store)
        holder = store.join()
        claim_one(holder)
        other.execute("ALTER TABLE windlass.job RENAME TO job_away")
        other.commit()
        assert holder.beat() == Beat([], 0)
        with pytest.raises(SchemaError):
            holder.cancels()


def test_waiters_for_a_key_starve_nobody(postgres_dsn: str) -> None:
    """Eight enqueues wait for a key in a store of eight connections: beats, steps and plain enqueues go on beside them."""
    with open_store(postgres_dsn) as store:
        enqueue(store, n=2)
        holder = store.join()
        first = claim_one(holder)
        with waiters(postgres_dsn, store, 8) as calls:
            assert holder.beat() == Beat([], 0)
            assert holder.complete(first) is Verdict.RECORDED
            assert len(holder.claim("work", 1)) == 1
            one(store)
            assert not any(call.done() for call in calls), "they wait, and no more"
        made = {call.result()[0].id for call in calls}  # type: ignore[index]
        assert len(made) == 1, "one of them has the key, the others are told whose it is"


def test_a_key_is_not_waited_for_for_ever(postgres_dsn: str) -> None:
    with open_store(postgres_dsn, max_connections=2, connect_timeout=1) as store:
        with waiters(postgres_dsn, store, 3) as calls:
            for call in calls:
                with pytest.raises(StoreInterruptedError, match=r"holds a key|wait for keys"):
                    call.result(60)
        assert store.enqueue([NewJob(kind="keyed", key=Key("order-7"))])[0].created


def test_the_step_thread_has_a_connection_that_nobody_can_take(postgres_dsn: str) -> None:
    with open_store(postgres_dsn, max_connections=1, connect_timeout=1) as store:
        enqueue(store)
        holder = store.join()
        with holder.stepping(), ThreadPoolExecutor(1) as threads:
            is_taken, is_over = threading.Event(), threading.Event()

            def take() -> None:
                with store.db._connection():  # type: ignore[attr-defined]
                    is_taken.set()
                    is_over.wait(60)

            taker = threads.submit(take)
            assert is_taken.wait(60)
            try:
                assert holder.look(["work"]) == {"work"}
                lease = claim_one(holder)
                assert holder.start([lease]) == {lease.id}
                assert holder.record([Failed(lease, JobError(type="E", code="e", message="m"))]) == [
                    Verdict.RECORDED
                ]
            finally:
                is_over.set()
            taker.result()


def test_a_handlers_connection_reads_values_as_the_driver_does(postgres_dsn: str) -> None:
    """What the store does to its own connections (ids and JSON as text, generic plans) must not reach users' code."""
    with open_store(postgres_dsn) as store:
        one(store)
        holder = store.join()
        lease = claim_one(holder)
        with holder.transaction(lease) as tx:
            made, data = tx.connection.execute("SELECT gen_random_uuid(), '[1]'::jsonb").fetchone()
            assert isinstance(made, UUID) and data == [1]
            assert tx.connection.execute("SHOW plan_cache_mode").fetchone()[0] == "auto"
            tx.connection.row_factory = dict_row
            assert tx.put_output({"x": 1}, name="a").value == {"x": 1}
            tx.complete()
        assert store.jobs.get(lease.id).state == "completed"


def test_a_store_that_is_closed_leaves_no_connection(postgres_dsn: str) -> None:
    store = open_store(postgres_dsn)
    holder = store.join()
    holder.beat()
    with store.db.effect(5):
        pass
    store.close()
    with pytest.raises(StoreUnreachableError, match="closed"):
        holder.beat()
    look = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' "
        "AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        # The server takes a moment to see that somebody left.
        eventually(lambda: not admin.execute(look).fetchall(), "the end of every session")


@pytest.mark.slow
def test_a_server_that_was_away_for_a_while_is_found_at_once(
    own_postgres: Callable[..., PostgresServer],
) -> None:
    """The driver's pool looks less and less often; a worker must be back within seconds, however long it took."""
    server = own_postgres()
    migrate(server.dsn())
    with open_store(server.dsn(), connect_timeout=3) as store:
        holder = store.join()
        server.crash()
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            for call in (holder.beat, lambda: holder.claim("work", 1)):
                with pytest.raises(StoreUnreachableError):
                    call()
        server.start()
        began = time.monotonic()
        assert [_patiently(holder.beat), _patiently(lambda: holder.claim("work", 1))] == [Beat([], 0), []]
        assert time.monotonic() - began < 30, "the pool would look again minutes later"


def _patiently(call: Callable[[], object]) -> object:
    for _ in range(20):
        with suppress(StoreUnreachableError):
            return call()
    raise AssertionError("the server was not found again")


def test_on_sqlite_a_reader_does_not_wait_for_a_writer_that_waits_for_it(sqlite_path: Path) -> None:
    """A handler that reads for the first time on its thread while its transaction has the write lock: the writer's own lock must not
    be in its way, or both wait until the writer gives up."""
    with open_store(f"sqlite:///{sqlite_path}") as store:
        enqueue(store, n=2)
        first, second = store.join().claim("work", 2)
        holder, is_inside, has_read = store.join(), threading.Event(), threading.Event()
        answers: list[float] = []

        def handler() -> None:
            with holder.transaction(first) as tx:
                tx.connection.execute("CREATE TABLE effect (n)")
                is_inside.set()
                time.sleep(0.2)  # until the writer below waits for this transaction
                began = time.monotonic()
                assert store.jobs.get(second.id).id == second.id
                answers.append(time.monotonic() - began)
                has_read.set()

        thread = threading.Thread(target=handler)
        thread.start()
        assert is_inside.wait(PATIENCE)
        enqueue(store)
        thread.join()
    assert has_read.is_set() and answers[0] < 20, answers


@pytest.mark.slow
def test_on_sqlite_a_heartbeat_has_its_turn_beside_many_handlers_that_write(sqlite_path: Path) -> None:
    """I-11: threads that ask the file itself look for its lock less and less often, and a beat waited for ten seconds and more."""
    with open_store(f"sqlite:///{sqlite_path}", busy_timeout=PATIENCE) as store:
        enqueue(store, n=600)
        holder = store.join()
        leases = SimpleQueue[Lease]()
        for lease in holder.claim("work", 600):
            leases.put(lease)

        def handle() -> None:
            with suppress(Empty):
                while True:
                    with holder.transaction(leases.get_nowait()) as tx:
                        tx.complete()

        handlers = [threading.Thread(target=handle) for _ in range(20)]
        for handler in handlers:
            handler.start()
        passed_by: list[int] = []
        while any(handler.is_alive() for handler in handlers):
            before = leases.qsize()
            holder.beat()
            passed_by.append(before - leases.qsize())
        assert len(passed_by) > 5 and max(passed_by) < 200, "its turn is after those that waited before it"


def test_on_sqlite_a_thread_that_waits_for_its_own_transaction_is_told(sqlite_path: Path) -> None:
    """Another thread's write while a handler's transaction waits for that thread: an error, not a wait for ever."""
    with open_store(f"sqlite:///{sqlite_path}", busy_timeout=0.3) as store:
        enqueue(store)
        holder = store.join()
        lease = claim_one(holder)
        with (
            ThreadPoolExecutor(1) as threads,
            holder.transaction(lease),
            pytest.raises(StoreUnreachableError, match="is locked"),
        ):
            threads.submit(enqueue, store).result(PATIENCE)
        enqueue(store)


def test_on_sqlite_the_error_of_a_lock_names_the_callers_own_transaction(sqlite_path: Path) -> None:
    """The store cannot see connections of its caller, whose transaction is a likely holder of the lock."""
    with (
        open_store(f"sqlite:///{sqlite_path}", busy_timeout=0.1) as store,
        closing(sqlite3.connect(sqlite_path, isolation_level=None)) as own,
    ):
        own.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreBusyError, match=r"If this thread itself .* enqueue_in\(connection, \.\.\.\)"
        ):
            enqueue(store)
        own.execute("ROLLBACK")
        enqueue(store)


def test_a_child_whose_parent_was_pruned_is_linked_on_one_connection(postgres_dsn: str) -> None:
    """The time of the parent's end was asked for on a second connection, which a store of one does not have; upkeep stopped there."""
    with open_store(postgres_dsn, max_connections=1, connect_timeout=1) as store:
        parent = one(store)
        (child,) = store.enqueue([NewJob(kind="child", after=[After(parent, policy=DependencyPolicy.WAIT)])])
        with psycopg.connect(postgres_dsn, autocommit=True) as admin:
            admin.execute("DELETE FROM windlass.job WHERE id = %s", (parent,))
            before = store.now()
            assert store.dependencies.link() == 1
            row = admin.execute(
                "SELECT parent_state, extract(epoch FROM parent_ended_at) FROM windlass.job_dep WHERE child = %s",
                (child.id,),
            ).fetchone()
        assert row is not None and row[0] == "cancelled"
        assert before.timestamp() <= float(row[1]) <= store.now().timestamp()


def _broken(store: Store, dsn: str) -> None:
    """A verb whose connection the server ends."""
    with store.db._connection() as connection:  # type: ignore[attr-defined]
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 60000)", (connection.info.backend_pid,))
        connection.execute("SELECT 1")


def test_a_call_has_its_own_error_where_no_thread_can_be_had(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken connection has its neighbours looked at by a thread; that none can be started is not what the caller asked about."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with open_store(postgres_dsn) as store:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(StoreUnreachableError):
                _broken(store, postgres_dsn)
        one(store)
        looks: SimpleQueue[None] = SimpleQueue()
        monkeypatch.setattr(store.db._connections.verbs, "check", lambda: looks.put(None))  # type: ignore[attr-defined]
        with pytest.raises(StoreUnreachableError):
            _broken(store, postgres_dsn)
        looks.get(timeout=PATIENCE)


def test_connections_that_break_at_once_have_their_neighbours_looked_at_once(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that restarts breaks every connection: there was a thread for each."""
    looks: SimpleQueue[None] = SimpleQueue()
    gate = threading.Event()

    with open_store(postgres_dsn) as store:
        pool = store.db._connections.verbs  # type: ignore[attr-defined]

        def look() -> None:
            looks.put(None)
            gate.wait(PATIENCE)

        monkeypatch.setattr(pool, "check", look)
        for _ in range(3):
            with pytest.raises(StoreUnreachableError):
                _broken(store, postgres_dsn)
        looks.get(timeout=PATIENCE)
        gate.set()
        eventually(lambda: not store.db._connections._checked, "the look has ended")  # type: ignore[attr-defined]
        assert looks.empty(), "one look at a time"
        with pytest.raises(StoreUnreachableError):
            _broken(store, postgres_dsn)
        looks.get(timeout=PATIENCE)


def test_passwords_do_not_show_in_refused_urls() -> None:
    for url in ("mysql://u:pa'SECRET@host/x", "sqlite://u:SECRET@x", "postgresql://u:SECRET@[host"):
        with pytest.raises((ConfigError, StoreError)) as caught:
            open_store(url)
        shown = f"{caught.value} {caught.value.__cause__} "
        assert "SECRET" not in shown
