"""History partitions come and go while readers read and jobs finish."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.interleavings.sessions import (
    BOOM,
    Open,
    Stopwatch,
    Waiting,
    assert_consistent,
    blocked_sessions,
    claim,
    enqueue,
)
from tests.waiting import eventually
from windlass.features import Store
from windlass.model import Completed, Failed, Key, Retention, State, Want
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.pruning import Pruning
from windlass.store.postgres import partitions
from windlass.store.postgres.database import PostgresDatabase

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("patient_removals")]

OLD = timedelta(days=20)
BOUND = 100.0


@contextmanager
def open_reader(dsn: str) -> Iterator[psycopg.Connection]:
    """A report: a REPEATABLE READ transaction that has read history and stays open."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM windlass.job_done")
        yield connection
        connection.rollback()


def make_old_history(dsn: str, n: int = 3) -> str:
    """Completed jobs of three weeks ago, in a partition of their own; its name."""
    day = (datetime.now(UTC) - OLD).date()
    with psycopg.connect(dsn, autocommit=True) as connection:
        partitions.ensure(connection, days=0, around=day)
        connection.execute(
            """
            INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, token, lane, generation, attempt,
                crashes, max_attempts, flags, state, kind, phase, args)
            SELECT gen_random_uuid(), t.at, t.at, t.at, 1, 4, 1, 1, 0, 3, 0, 'completed', 'work', 'work', '{}'
            FROM generate_series(1, %s) AS n CROSS JOIN (SELECT %s::timestamptz AS at) AS t
            """,
            (n, datetime(day.year, day.month, day.day, 12, tzinfo=UTC)),
        )
        connection.execute("INSERT INTO windlass.delta (phase, completed) VALUES ('work', %s)", (n,))
    return partitions.name_of(day)


def finish_while(
    holder: Holder, store: Store, watch: Stopwatch, is_going_on: threading.Event | Waiting
) -> None:
    """Enqueue, claim and finish (short way and long way) until something is over."""
    outcomes: list[Completed] = []
    rounds = 0
    while rounds < 5 or not (
        is_going_on.is_set() if isinstance(is_going_on, threading.Event) else is_going_on.is_done()
    ):
        enqueue(store, 2)
        step = watch.time("finish and claim", holder.step, outcomes, Want("work", 10))
        outcomes = [Completed(lease) for lease in step.claimed]
        for lease in step.claimed[:1]:
            watch.time("get", store.jobs.get, lease.id)
        rounds += 1
        if rounds > 200:
            break
    holder.record(outcomes)


def test_adding_partitions_beside_an_open_reader_blocks_no_finish(
    postgres_dsn_every: str, stores: Open
) -> None:
    """New days are attached at once although a report reads history, and finishes around them wait for nobody: behind the
    report they would wait for ever."""
    store = stores(postgres_dsn_every)
    holder, watch = store.join(), Stopwatch()
    with open_reader(postgres_dsn_every), psycopg.connect(postgres_dsn_every, autocommit=True) as upkeep:
        attaching = Waiting(lambda: partitions.ensure(upkeep, days=20))
        finish_while(holder, store, watch, attaching)
        assert len(attaching.result()) == 13
    assert_consistent(postgres_dsn_every, store)


def test_removing_a_partition_beside_an_open_reader_blocks_no_finish(
    postgres_dsn_every: str, stores: Open
) -> None:
    """The removal waits for the report; finishes and look-ups meanwhile wait for nobody; when the report ends, the day
    is gone and the counts know it."""
    store = stores(postgres_dsn_every)
    old = make_old_history(postgres_dsn_every)
    database = store.db
    assert isinstance(database, PostgresDatabase)
    holder, watch, keep = (
        store.join(),
        Stopwatch(),
        Retention(completed=OLD / 2, failed=OLD / 2, cancelled=OLD / 2),
    )
    with open_reader(postgres_dsn_every) as reader:
        dropping = Waiting(lambda: database.drop_history(keep))
        eventually(lambda: blocked_sessions(postgres_dsn_every) or dropping.is_done(), "the removal to wait")
        over = threading.Event()
        threading.Timer(0.7, over.set).start()
        finish_while(holder, store, watch, over)
        assert not dropping.is_done(), "the removal should wait for the reader"
        # The report still sees what it saw.
        assert reader.execute(
            "SELECT count(*) FROM windlass.job_done WHERE finished_at < now() - interval '10 days'"
        ).fetchone() == (3,)
    assert dropping.result() == 3
    with psycopg.connect(postgres_dsn_every) as connection:
        assert connection.execute("SELECT to_regclass(%s)", (f"windlass.{old}",)).fetchone() == (None,)
    assert_consistent(postgres_dsn_every, store)


def test_a_day_is_removed_whole_though_edges_and_keys_name_its_jobs(postgres_dsn: str, stores: Open) -> None:
    """Where no child waits for them and no key leads to them: row by row it would take long."""
    store = stores(postgres_dsn)
    old = make_old_history(postgres_dsn)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO windlass.job_dep (parent, child, policy, parent_state, parent_ended_at) "
            f"SELECT d.id, gen_random_uuid(), 'cancel', 'completed', now() FROM windlass.{old} AS d"
        )
        connection.execute(
            "INSERT INTO windlass.job_key (scope, key, job, body_hash, expires_at) "
            f"SELECT 'debounce', d.id::text, d.id, '', now() + interval '9 days' FROM windlass.{old} AS d"
        )
        assert store.upkeep.prune(Retention(completed=OLD / 2, failed=OLD / 2, cancelled=OLD / 2)) == 3
        assert connection.execute("SELECT to_regclass(%s)", (f"windlass.{old}",)).fetchone() == (None,)


def test_an_instance_that_stops_removes_no_further_day(postgres_dsn: str, stores: Open) -> None:
    """Beside a report each day would take as long as the removal has patience."""
    store = stores(postgres_dsn)
    old = make_old_history(postgres_dsn)  # and an empty day before it
    keep = Retention(completed=OLD / 2, failed=OLD / 2, cancelled=OLD / 2)
    asked: list[None] = []

    def is_stopping() -> bool:
        asked.append(None)
        return len(asked) > 1

    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        before = set(partitions.attached(connection))
        assert store.db.drop_history(keep, is_stopping=is_stopping) == 0
        (gone,) = before - set(partitions.attached(connection))
        assert gone < old
        Pruning(store.db, keep, is_stopping=lambda: True).step()
        assert old in partitions.attached(connection)
        assert store.db.drop_history(keep) == 3


@pytest.mark.slow
def test_a_removal_that_gave_up_is_finished_later(postgres_dsn_every: str, stores: Open) -> None:
    """The report stays open longer than the removal has patience: nothing fails, finishes go on, the half-removed day
    is left for the next time, and goes once the report is over."""
    store = stores(postgres_dsn_every)
    old = make_old_history(postgres_dsn_every)
    holder, watch = store.join(), Stopwatch()
    cutoff = datetime.now(UTC) - OLD / 2
    with psycopg.connect(postgres_dsn_every, autocommit=True) as upkeep:
        upkeep.execute("SET lock_timeout = '500ms'")
        with open_reader(postgres_dsn_every):
            for _ in range(2):
                dropping = Waiting(lambda: partitions.drop_before(upkeep, cutoff))
                finish_while(holder, store, watch, dropping)
                assert old not in dropping.result()
        assert sum(partitions.drop_before(upkeep, cutoff)[old].values()) == 3
        assert old not in partitions.attached(upkeep)
    watch.assert_no_wait(0.4)
    assert_consistent(postgres_dsn_every, store)


@pytest.mark.parametrize("way", ["short", "long", "cancel queued", "recovery"])
def test_a_missing_partition_heals_itself(postgres_dsn_every: str, stores: Open, way: str) -> None:
    """Nobody prepared today's partition: the finish makes it and goes through, by whichever way the job ends."""
    store = stores(postgres_dsn_every)
    holder = store.join(lease=timedelta(milliseconds=50) if way == "recovery" else timedelta(seconds=30))
    (job_id,) = enqueue(store, key=Key("k") if way == "long" else None, max_attempts=1)
    lease = None if way == "cancel queued" else claim(holder)[0]
    with psycopg.connect(postgres_dsn_every, autocommit=True) as connection:
        for name in partitions.attached(connection):
            connection.execute(f"DROP TABLE windlass.{name}")
    if way == "cancel queued":
        store.jobs.cancel(job_id)
    elif way == "recovery":
        eventually(lambda: store.recovery.recover(), "recovery")
    else:
        assert lease is not None
        holder.record([Completed(lease) if way == "short" else Failed(lease, BOOM)])
    assert store.jobs.get(job_id).state is {"short": State.COMPLETED, "cancel queued": State.CANCELLED}.get(
        way, State.FAILED
    )
    with psycopg.connect(postgres_dsn_every, autocommit=True) as connection:
        assert len(partitions.attached(connection)) == partitions.DAYS_AHEAD + 2
    assert_consistent(postgres_dsn_every, store)


def test_a_missing_partition_is_healed_once_by_many(postgres_dsn: str, stores: Open) -> None:
    """Eight threads finish at the same moment and none has a partition: all go through."""
    store = stores(postgres_dsn)
    holder = store.join()
    enqueue(store, 8)
    leases = claim(holder, 8)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        for name in partitions.attached(connection):
            connection.execute(f"DROP TABLE windlass.{name}")
    barrier = threading.Barrier(8)

    def finish(number: int) -> object:
        barrier.wait()
        return holder.complete(leases[number])

    calls = [Waiting(lambda n=n: finish(n)) for n in range(8)]  # type: ignore[misc]
    assert {str(call.result()) for call in calls} == {"recorded"}
    assert_consistent(postgres_dsn, store)


def test_a_missing_partition_is_healed_beside_a_waiting_removal(postgres_dsn: str, stores: Open) -> None:
    """Attaching today's partition does not wait for a removal that waits for a report."""
    store = stores(postgres_dsn)
    make_old_history(postgres_dsn)
    holder = store.join()
    enqueue(store)
    (lease,) = claim(holder)
    with psycopg.connect(postgres_dsn, autocommit=True) as upkeep:
        today = partitions.name_of(datetime.now(UTC).date())
        upkeep.execute(f"DROP TABLE windlass.{today}")
        with open_reader(postgres_dsn):
            dropping = Waiting(lambda: partitions.drop_before(upkeep, datetime.now(UTC) - OLD / 2))
            eventually(lambda: blocked_sessions(postgres_dsn) or dropping.is_done(), "the removal to wait")
            assert str(holder.complete(lease)) == "recorded"  # it would wait for the report for ever
            assert not dropping.is_done()
        dropping.result()
    assert_consistent(postgres_dsn, store)
