"""History of two years, one partition a day: a worker brings it down by itself, and nothing that looks jobs up grows with its days."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.interleavings import years
from tests.interleavings.sessions import Open, Waiting, assert_consistent
from tests.waiting import eventually
from windlass.app.app import App
from windlass.cli import main
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import Store
from windlass.model import After, JobFilter, NewJob, State
from windlass.store.migrate import migrate
from windlass.store.postgres.transaction import PostgresTransaction

pytestmark = [pytest.mark.timing, pytest.mark.slow]

DAYS = 740
FEW = 90
"""Up to 66 days and 8 to come; and two dozen months."""
DEFAULTS = {"max_connections": "100", "max_locks_per_transaction": "64"}


def count(dsn: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'windlass.job_done'::regclass"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
def test_two_years_of_days_become_months(own_postgres: Callable[..., PostgresServer], stores: Open) -> None:
    """With 740 days, two dozen transactions that had looked a job up ran out of the server's locks."""
    dsn = own_postgres(durable=False, settings=DEFAULTS).dsn()
    migrate(dsn)
    today = datetime.now(UTC).date()
    years.fill(dsn, today - timedelta(days=DAYS - 1), today - timedelta(days=2), each=2)
    before = years.contents(dsn)
    assert main(["db", "merge-history", "--url", dsn]) == 0
    assert count(dsn) <= FEW
    assert years.contents(dsn) == before
    store = stores(dsn)
    parents = years.ids(dsn)[:24]
    _all_at_once(dsn, store, parents)
    assert _locks_of(dsn, store, parents[0]) < 6 * FEW
    assert_consistent(dsn, store)


def test_a_worker_makes_months_by_itself(postgres_dsn: str) -> None:
    """From more than 120 partitions on."""
    today = datetime.now(UTC).date()
    years.fill(postgres_dsn, today - timedelta(days=130), today - timedelta(days=2), each=1)
    before = years.contents(postgres_dsn)
    assert count(postgres_dsn) > 120
    app = App(postgres_dsn)

    @app.job
    def work() -> None: ...

    engine = app.worker()
    engine.start()
    try:
        eventually(lambda: count(postgres_dsn) <= FEW, lambda: f"{count(postgres_dsn)} partitions")
        assert engine.report().degraded == []
    finally:
        engine.stop()
        app.close()
    assert years.contents(postgres_dsn) == before


def _all_at_once(dsn: str, store: Store, parents: list[str]) -> None:
    """So many transactions that hold, all at once, what a look-up and an enqueue with a parent take."""
    barrier = threading.Barrier(len(parents), timeout=60)
    errors: list[BaseException] = []

    def look(parent: str) -> None:
        try:
            with psycopg.connect(dsn) as connection:
                tx = PostgresTransaction(connection, None, prepare=False, is_foreign=True)
                assert tx.run("get", id=parent)
                store.enqueuer.enqueue_in(tx, [NewJob(kind="child", after=[After(parent)])])
                barrier.wait()
                connection.rollback()
        except BaseException as error:  # noqa: BLE001  the others need not wait
            errors.append(error)
            barrier.abort()

    for call in [Waiting(lambda parent=parent: look(parent)) for parent in parents]:  # type: ignore[misc]
        call.result()
    assert errors == []


def _locks_of(dsn: str, store: Store, job_id: str) -> int:
    """The most locks that a verb takes that looks at history by id or in order."""
    most = 0
    verbs: dict[str, dict[str, object]] = {
        "get": {"id": job_id},
        "retry.peek": {"id": job_id},
        "retry.take": {"id": job_id},
        "timeline": {"id": job_id},
    }
    for verb, parameters in verbs.items():
        with psycopg.connect(dsn) as connection:
            connection.execute("SET plan_cache_mode = force_generic_plan")
            PostgresTransaction(connection, None, prepare=False, is_foreign=True).run(verb, **parameters)
            row = connection.execute("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()").fetchone()
            assert row is not None
            most = max(most, int(row[0]))
            connection.rollback()
    assert len(store.jobs.list(JobFilter(state=State.FAILED), limit=50).jobs) == 50
    return most


def _merge(dsn: str) -> None:
    years.merge(dsn, page=2)


def test_whoever_is_killed_another_one_goes_on(postgres_dsn: str, stores: Open) -> None:
    """The process that makes the month is killed as soon as it has got on by a step, again and again."""
    first, last = years.two_months_ago(datetime.now(UTC))
    years.fill(postgres_dsn, first, last)
    before, store = years.contents(postgres_dsn), stores(postgres_dsn)
    spawn, kills, seen = multiprocessing.get_context("spawn"), 0, set()

    def state() -> tuple[object, ...]:
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            made = connection.execute("SELECT day, after, copied, waits_for FROM windlass.month").fetchone()
            tables = connection.execute(
                "SELECT count(*) FROM pg_class WHERE relname LIKE 'job_done_%%' AND relkind = 'r'"
            ).fetchone()
        return (str(made), tables)

    while kills < 3:
        was = state()
        process = spawn.Process(target=_merge, args=(postgres_dsn,))
        process.start()
        eventually(lambda was=was, process=process: state() != was or not process.is_alive(), "a step")  # type: ignore[misc]
        assert process.pid is not None
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        seen.add(state())
        assert years.contents(postgres_dsn) == before
        if process.exitcode == 0:
            break
    assert len(seen) > 1, "it was killed at different places"
    years.merge(postgres_dsn)
    assert years.contents(postgres_dsn) == before
    assert_consistent(postgres_dsn, store)
