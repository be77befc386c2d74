"""A job submitted in a caller's transaction exists if and only if that transaction commits, whatever the library."""

from __future__ import annotations

import gc
import warnings
import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.conformance.life import assert_counts_are_true
from tests.transactions.kinds import Hand, Open, run
from windlass import JobOptions
from windlass.app.app import App
from windlass.app.kinds import JobKind
from windlass.clock import ManualClock
from windlass.errors import ConfigError, KeyConflictError, PayloadError, UnknownParentError
from windlass.features import open_store
from windlass.model import JobFilter, State
from windlass.store.ids import new_id

ODD = {"é": "ü\U0001f600 %s %(x)s $1 :now ? \\", "n": 2**70, "quote": "'\"", "deep": [[None]]}


@pytest.fixture
def welcome(app: App) -> JobKind[..., Any]:
    @app.job
    def welcome(user_id: int, note: Any = None) -> None: ...

    return welcome


def jobs(app: App) -> list[str]:
    return [job.id for job in app.store.jobs.list(JobFilter()).jobs]


def test_commit_makes_the_job_and_rollback_makes_none(
    kind: str, app: App, opened: Open, welcome: Any
) -> None:
    async def work() -> None:
        async with opened(app.url) as hand:
            await hand.execute("CREATE TABLE orders (n integer)")
            first = await hand.enqueue(welcome, user_id=7, note=ODD)
            assert jobs(app) == []
            await hand.commit()
        assert jobs(app) == [first.id] and first.created
        async with opened(app.url) as hand:
            await hand.execute("INSERT INTO orders VALUES (1)")
            await hand.enqueue(welcome, user_id=8)
            await hand.enqueue_many(welcome, [{"user_id": n} for n in range(20)])
            await hand.rollback()
        assert jobs(app) == [first.id]
        async with opened(app.url) as hand:
            assert await hand.execute("SELECT count(*) FROM orders") == [(0,)]
            await hand.rollback()
        job = app.store.jobs.get(first.id)
        assert (job.kind, job.state, job.reason) == ("welcome", State.QUEUED, "inbox")
        assert job.args == {"user_id": 7, "note": ODD}
        assert app.store.upkeep.promote() == {"welcome": 1}
        (lease,) = app.store.join().claim("welcome", 5)
        assert lease.id == first.id
        assert_counts_are_true(app.store)

    run(kind, work)


def test_jobs_with_options_keys_and_parents(kind: str, app: App, opened: Open, welcome: Any) -> None:
    """Several statements, on every driver; a key that is taken answers the job that has it."""
    (before,) = [welcome.options(key="taken", correlation_id="c-1").enqueue(user_id=1)]
    made_by_hand = new_id()

    async def work() -> None:
        async with opened(app.url) as hand:
            later = await hand.enqueue(welcome.options(delay=3600, priority=9, max_attempts=7), user_id=2)
            at = await hand.enqueue(welcome.options(run_at=datetime(2090, 1, 1, tzinfo=UTC)), user_id=2)
            again = await hand.enqueue(welcome.options(key="taken"), user_id=1)
            fresh = await hand.enqueue(welcome.options(key="fresh"), user_id=3)
            child = await hand.enqueue(welcome.options(after=[before, fresh]), user_id=4)
            own = await hand.enqueue(welcome.options(id=made_by_hand), user_id=5)
            twice = await hand.enqueue(welcome.options(id=made_by_hand), user_id=5)
            assert not await hand.enqueue_many(welcome, [])
            await hand.commit()
        assert (again.id, again.created) == (before.id, False)
        assert (own.id, own.created, twice.id, twice.created) == (made_by_hand, True, made_by_hand, False)
        get = app.store.jobs.get
        assert get(later.id).state is State.SCHEDULED
        assert (get(later.id).priority, get(later.id).max_attempts) == (9, 7)
        assert get(at.id).run_at == datetime(2090, 1, 1, tzinfo=UTC)
        assert get(child.id).state is State.WAITING and get(child.id).correlation_id == "c-1"
        assert len(jobs(app)) == 6
        app.store.dependencies.link()
        assert_counts_are_true(app.store)

    run(kind, work)


def test_a_refused_job_leaves_nothing_in_a_transaction_that_goes_on(
    kind: str, app: App, opened: Open, welcome: Any
) -> None:
    """A caller may catch the refusal and commit the rest. A key that was taken on the way to it would belong to no job, for ever."""
    welcome.options(key="taken").enqueue(user_id=1)

    def keyed(key: str) -> Any:
        return welcome.options(key=key).request(user_id=2)

    async def refused(hand: Hand, error: type[Exception], calls: list[Any]) -> None:
        with pytest.raises(error):
            await hand.enqueue_many(welcome, calls)

    async def work() -> None:
        async with opened(app.url) as hand:
            await hand.execute("CREATE TABLE orders (n integer)")
            await refused(hand, KeyConflictError, [keyed("other"), keyed("taken")])
            orphan = welcome.options(after=[new_id()]).request(user_id=2)
            await refused(hand, UnknownParentError, [keyed("third"), orphan])
            await refused(hand, PayloadError, [{"user_id": 1}, {"user_id": "no number"}])
            await hand.execute("INSERT INTO orders VALUES (1)")
            await hand.commit()
        async with opened(app.url) as hand:
            assert await hand.execute("SELECT count(*) FROM orders") == [(1,)]
            await hand.rollback()
        assert len(jobs(app)) == 1
        assert welcome.options(key="other").enqueue(user_id=9).created
        assert welcome.options(key="third").enqueue(user_id=9).created
        assert_counts_are_true(app.store)

    run(kind, work)


def test_a_clock_that_a_test_holds_counts_here_too(kind: str, url: str, opened: Open) -> None:
    clock = ManualClock()
    with open_store(url, clock=clock) as store:
        app = App(url, store=store)

        @app.job
        def welcome(user_id: int) -> None: ...

        async def work() -> None:
            async with opened(url) as hand:
                now = await hand.enqueue(welcome, user_id=1)
                later = await hand.enqueue(welcome.options(delay=60, key="k"), user_id=1)
                brief = await hand.enqueue(welcome.options(expires=60), user_id=1)
                until = await hand.enqueue(
                    welcome.options(expires=clock.now() + timedelta(seconds=61)), user_id=1
                )
                await hand.commit()
            assert store.jobs.get(now.id).created_at == clock.now()
            assert store.jobs.get(later.id).run_at == clock.now() + timedelta(seconds=60)
            assert store.expiries.get(brief.id) == clock.now() + timedelta(seconds=60)
            assert store.expiries.get(until.id) == clock.now() + timedelta(seconds=61)

        run(kind, work)


def test_no_store_is_opened_for_it(kind: str, app: App, url: str, opened: Open) -> None:
    """A web process that only submits needs no connections besides its own."""
    other = App(url)

    @other.job
    def welcome(user_id: int) -> None: ...

    async def work() -> None:
        async with opened(url) as hand:
            await hand.enqueue(welcome, user_id=1)
            await hand.enqueue(welcome.options(key="k"), user_id=1)
            await hand.commit()

    run(kind, work)
    assert other.parts._store is None
    assert len(jobs(app)) == 2


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "sqlite3", "sqlalchemy-async-session"])
def test_a_transaction_on_another_kind_of_database_is_refused(kind: str, app: App, opened: Open) -> None:
    other = App("postgresql://nowhere/x" if app.url.startswith("sqlite") else "sqlite:///nowhere.db")

    @other.job
    def welcome(user_id: int) -> None: ...

    async def work() -> None:
        async with opened(app.url) as hand:
            with pytest.raises(ConfigError, match="the database that the jobs are in, which is"):
                await hand.enqueue(welcome, user_id=1)

    run(kind, work)


@pytest.mark.parametrize("options", [{}, {"key": "k"}], ids=["plain", "with a key"])
def test_a_connection_that_its_owner_dropped_is_gone_at_once(postgres_dsn: str, options: JobOptions) -> None:
    """And with it its open transaction and locks: nothing of Windlass may wait for the cyclic garbage collector."""
    with App(postgres_dsn) as app:

        @app.job
        def welcome(user_id: int) -> None: ...

        gc.disable()
        try:
            connection = psycopg.connect(postgres_dsn)
            welcome.options(**options).enqueue_in(connection, user_id=7)
            left = weakref.ref(connection)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                del connection
            assert left() is None
        finally:
            gc.enable()
