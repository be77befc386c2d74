"""The fence in a transaction that is not ours: what it locks, what it leaves alone, and when it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

import windlass
from tests.engine.shop import Shop
from tests.transactions.kinds import THE_FIVE, Hand, Open, handler, run
from windlass.errors import LeaseLost
from windlass.features import Store, open_store
from windlass.handlers.attempt_context import AttemptContext
from windlass.handlers.context import Context
from windlass.handlers.registry import Registry
from windlass.model import JobError, JobFilter, Lease, NewJob, State
from windlass.store.jobs.holder import Holder

pytestmark = pytest.mark.timing

BOOM = JobError(type="Boom", code="boom", message="it broke")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as made:
        made.upkeep.maintain()
        yield made


def held(store: Store) -> tuple[Holder, Lease]:
    store.enqueue([NewJob(kind="work")])
    holder = store.join()
    (lease,) = holder.claim("work", 1)
    return holder, lease


def context(holder: Holder, lease: Lease) -> AttemptContext:
    def work() -> Any: ...

    hold: Any = holder
    return AttemptContext(lease, Registry().define("work", work), hold)


def test_a_lost_lease_is_told_and_nothing_is_written(kind: str, store: Store, url: str, opened: Open) -> None:
    """Another holder has the job by now; the one who lost it rolls back."""
    holder, lease = held(store)
    holder.retry_later(lease, BOOM, timedelta(0))
    store.upkeep.promote()
    (second,) = store.join().claim("work", 1)
    ctx = context(holder, lease)

    async def work() -> None:
        for verb in ("complete", "checkpoint"):
            async with opened(url) as hand:
                await hand.execute(f"CREATE TABLE effect_{verb} (n integer)")
                with pytest.raises(LeaseLost):
                    await (hand.complete(ctx) if verb == "complete" else hand.checkpoint(ctx, 1, done=1))
                await hand.rollback()

    run(kind, work)
    assert not ctx.awaits_commit
    found = store.jobs.get(second.id)
    assert found.state is State.PROCESSING and found.progress is None and found.attempt == 2


def test_a_second_end_of_the_same_attempt_is_refused(kind: str, store: Store, url: str, opened: Open) -> None:
    """A handler that does not know whether its commit came may do its transaction again: only one of them can be."""
    holder, lease = held(store)
    ctx = context(holder, lease)

    async def work() -> None:
        async with opened(url) as hand:
            await hand.complete(ctx, "first")
            await hand.commit()
        async with opened(url) as hand:
            with pytest.raises(LeaseLost):
                await hand.complete(ctx, "second")
            await hand.rollback()

    run(kind, work)
    assert store.jobs.get(lease.id).result == "first"


@pytest.mark.parametrize("kind", THE_FIVE)
@pytest.mark.parametrize(("own", "inside"), [("0", "25s"), ("60s", "25s"), ("7s", "7s"), ("25001", "25s")])
def test_only_the_transaction_itself_is_limited(
    kind: str, store: Store, url: str, opened: Open, own: str, inside: str
) -> None:
    """From the fence on it may idle for the lease less its margin; a shorter limit of its owner's stays, and so does the session's."""
    holder, lease = held(store)
    ctx = context(holder, lease)
    shown = "SELECT current_setting('idle_in_transaction_session_timeout')"

    async def work() -> None:
        async with opened(url) as hand:
            await hand.execute(f"SET SESSION idle_in_transaction_session_timeout = '{own}'")
            before = await hand.execute(shown)
            await hand.checkpoint(ctx, 1, done=1)
            assert await hand.execute(shown) == [(inside,)]
            await hand.commit()
            if kind == "psycopg":  # the others may have another connection by now
                assert await hand.execute(shown) == before
                await hand.rollback()

    run(kind, work)


@pytest.mark.slow
def test_a_handler_that_leaks_its_transaction_stops_nobody_for_long(postgres_dsn: str) -> None:
    """It keeps the row locked; the recorder waits for it, until the server ends the transaction."""
    shop, leaked = Shop(postgres_dsn), []

    @shop.app.job(retry=windlass.retry.fixed(attempts=2, wait=0.01))
    def work(n: int, ctx: Context) -> Any:
        connection = psycopg.connect(postgres_dsn)
        ctx.complete_in(connection, ctx.attempt)
        if ctx.attempt == 1:
            leaked.append(connection)
            return "forgot to commit"
        with closing(connection):
            connection.commit()
        return "done"

    try:
        job = work.enqueue(n=1)
        shop.serve(lease=3.0)  # the server ends the transaction before that
        shop.until(lambda: shop.job(job).state is State.COMPLETED)
        assert shop.job(job).result == 2
    finally:
        for connection in leaked:
            connection.close()
        shop.close()


def test_what_a_session_keeps_back_is_sent_before_the_fence(postgres_dsn: str) -> None:
    """The job's row is locked for as short as can be, and a row that the database refuses is refused before that."""

    class Base(orm.DeclarativeBase):
        pass

    class Effect(Base):
        __tablename__ = "effect"
        n: orm.Mapped[int] = orm.mapped_column(primary_key=True)

    engine = sa.create_engine(postgres_dsn.replace("postgresql://", "postgresql+psycopg://"))
    Base.metadata.create_all(engine)
    sent: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda c, cursor, text, *rest: sent.append(text))
    with open_store(postgres_dsn) as store:
        store.upkeep.maintain()
        holder, lease = held(store)
        ctx = context(holder, lease)
        with orm.Session(engine) as session:
            session.add(Effect(n=7))
            ctx.complete_in(session)
            session.commit()
        words = [text.split()[0] for text in sent]
        assert words.index("INSERT") < next(n for n, text in enumerate(sent) if "FOR UPDATE" in text)
        assert store.jobs.get(lease.id).state is State.COMPLETED
    engine.dispose()


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy-session", "django", "sqlite3"])
def test_a_cancel_is_heard_at_the_checkpoint(kind: str, shop: Shop) -> None:
    """A plain handler is only asked; a coroutine would be stopped at its next await, wherever that is."""

    async def body(hand: Hand, ctx: Context, n: int) -> str:
        shop.store.jobs.cancel(ctx.job_id)
        await hand.execute(f"INSERT INTO effect VALUES ({n}, 1)")
        await hand.checkpoint(ctx, None, done=1)
        await hand.commit()
        ctx.check_stop()
        return "went on"

    work = shop.app.job(name="work")(handler(kind, shop.app.url, body))
    job = work.enqueue(n=1)
    shop.drained(shop.serve())
    assert shop.job(job).state is State.CANCELLED
    assert len(shop.run("SELECT n FROM effect")) == 1, "what was committed stays"


@pytest.mark.parametrize("kind", [*THE_FIVE, "sqlite3"])
def test_an_end_and_a_new_job_in_one_transaction(kind: str, shop: Shop) -> None:
    """A chain: the next job exists if and only if this one is completed."""

    async def body(hand: Hand, ctx: Context, n: int) -> None:
        if n < 3:
            await hand.enqueue(work, n=n + 1)
        await hand.complete(ctx, n)
        await (hand.rollback() if ctx.attempt == 1 and n == 1 else hand.commit())

    soon = windlass.retry.fixed(attempts=3, wait=0.01)
    work = shop.app.job(name="work", retry=soon)(handler(kind, shop.app.url, body))
    work.enqueue(n=0)
    shop.drained(shop.serve())
    found = shop.store.jobs.list(JobFilter()).jobs
    assert sorted(job.result for job in found) == [0, 1, 2, 3]
    assert all(job.state is State.COMPLETED for job in found)
