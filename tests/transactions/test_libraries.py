"""What the libraries have of their own: modes, codecs, kinds of rows, blocks within blocks."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from django.db import transaction
from psycopg.rows import dict_row
from sqlalchemy import orm

from tests.engine.shop import Shop
from tests.transactions.apps import alchemy, count
from tests.transactions.django_project import connected
from tests.transactions.kinds import THE_FIVE, Open, run
from tests.waiting import eventually
from windlass.errors import KeyConflictError
from windlass.handlers.context import Context
from windlass.model import JobFilter, State

pytestmark = pytest.mark.timing


# ---------------------------------------------------------------------------------------------- from commit to run


@pytest.mark.parametrize("kind", [*THE_FIVE, "sqlite3"])
def test_a_committed_job_is_run_at_once_and_no_other(kind: str, shop: Shop, opened: Open) -> None:
    """The engine hears of the commit; its own look would come after 30 s."""
    ran: list[int] = []

    @shop.app.job
    def welcome(user_id: int) -> None:
        ran.append(user_id)

    shop.serve(recovery=600.0)

    async def work() -> None:
        for n in range(6):
            async with opened(shop.app.url) as hand:
                await hand.enqueue(welcome, n)
                await (hand.commit() if n % 2 else hand.rollback())

    run(kind, work)
    shop.until(lambda: sorted(ran) == [1, 3, 5])
    assert [job.args["user_id"] for job in shop.store.jobs.list(JobFilter()).jobs] == [5, 3, 1]


# ---------------------------------------------------------------------------------------------- blocks within blocks


def test_a_block_within_a_block_takes_its_jobs_with_it(on_postgres: Any) -> None:
    app, welcome = on_postgres
    with psycopg.connect(app.url) as connection, connection.transaction():
        welcome.enqueue_in(connection, 1)
        with connection.transaction(force_rollback=True):
            welcome.options(key="k").enqueue_in(connection, 2)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    engine = sa.create_engine(alchemy(app.url, "psycopg"))
    with orm.Session(engine) as session:
        with session.begin_nested() as inner:
            welcome.options(key="k").enqueue_in(session, 3)
            inner.rollback()
        welcome.enqueue_in(session, 4)
        session.commit()
    engine.dispose()
    with connected(app.url, "nested"), transaction.atomic(using="nested"):
        from django.db import connections

        welcome.enqueue_in(connections["nested"], 5)
        with pytest.raises(ZeroDivisionError), transaction.atomic(using="nested"):
            welcome.options(key="k").enqueue_in(connections["nested"], 6)
            raise ZeroDivisionError
    found = [job.args["user_id"] for job in app.store.jobs.list(JobFilter()).jobs]
    assert sorted(found) == [1, 4, 5] and count(app) == 3


# ---------------------------------------------------------------------------------------------- tastes of the owner


@pytest.mark.parametrize("factory", [psycopg.RawCursor, psycopg.ClientCursor, psycopg.Cursor])
def test_a_psycopg_connection_with_tastes_of_its_own(on_postgres: Any, factory: Any) -> None:
    app, welcome = on_postgres
    with psycopg.connect(app.url, row_factory=dict_row, cursor_factory=factory) as connection:
        connection.adapters.register_dumper(str, psycopg.types.string.StrDumperVarchar)
        parent = welcome.options(key="k").enqueue_in(connection, 1)
        welcome.options(after=[parent]).enqueue_in(connection, 2)
    assert count(app) == 2


def test_an_asyncpg_connection_with_codecs_of_its_own(on_postgres: Any) -> None:
    """The usual ones: json and jsonb as objects. Text in a json parameter would be encoded once more."""
    app, welcome = on_postgres

    async def work() -> None:
        connection = await asyncpg.connect(app.url)
        for name in ("json", "jsonb"):
            await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        await connection.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog")
        async with connection.transaction():
            parent = await welcome.options(key="k").enqueue_in_async(connection, 1)
            await welcome.options(after=[parent]).enqueue_in_async(connection, 2)
        await connection.close()

    asyncio.run(work())
    assert count(app) == 2


def test_a_sqlite_connection_with_tastes_of_its_own(on_sqlite: Any, sqlite_path: Path) -> None:
    app, welcome = on_sqlite
    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        parent = welcome.options(key="k").enqueue_in(connection, 1)
        welcome.options(after=[parent]).enqueue_in(connection, 2)
        connection.commit()

    async def work() -> None:
        async with aiosqlite.connect(sqlite_path) as other:
            other.row_factory = lambda cursor, row: {"row": row}  # type: ignore[assignment]
            parent = await welcome.options(key="k2").enqueue_in_async(other, 1)
            await welcome.options(after=[parent]).enqueue_in_async(other, 2)
            await other.commit()

    asyncio.run(work())
    assert count(app) == 4


# ---------------------------------------------------------------------------------------------- being stopped


def test_a_caller_that_is_stopped_in_the_middle_leaves_its_connection_in_order(on_postgres: Any) -> None:
    """The plain code behind an async call waits for a key that somebody has; its caller is cancelled."""
    app, welcome = on_postgres

    async def work(open_it: Callable[[], Any], begin: Callable[[Any], Any]) -> None:
        connection = await open_it()
        with psycopg.connect(app.url) as other:
            welcome.options(key="k").enqueue_in(other, 1)
            block = begin(connection)
            await block.__aenter__()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await welcome.options(key="k").enqueue_in_async(connection, 1)
            await block.__aexit__(TimeoutError, TimeoutError(), None)
            other.rollback()
        async with begin(connection):
            assert (
                await welcome.options(key=type(connection).__module__).enqueue_in_async(connection, 1)
            ).created
        await connection.close()

    asyncio.run(work(lambda: asyncpg.connect(app.url), lambda connection: connection.transaction()))
    _no_ferry_is_left()

    asyncio.run(
        work(lambda: psycopg.AsyncConnection.connect(app.url), lambda connection: _PsycopgBlock(connection))
    )
    _no_ferry_is_left()
    assert count(app) == 2


class _PsycopgBlock:
    """A transaction that is rolled back without raising again."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        await (self._connection.rollback() if kind else self._connection.commit())


def _no_ferry_is_left() -> None:
    eventually(
        lambda: not any(thread.name == "windlass-ferry" for thread in threading.enumerate()),
        "a thread waits for an answer that nobody will give",
    )


def test_a_refused_key_is_heard_through_the_ferry(on_postgres: Any) -> None:
    app, welcome = on_postgres
    welcome.options(key="k").enqueue(1)

    async def work() -> None:
        connection = await asyncpg.connect(app.url)
        async with connection.transaction():
            with pytest.raises(KeyConflictError):
                await welcome.options(key="k").enqueue_in_async(connection, 2)
            assert (await welcome.options(key="other").enqueue_in_async(connection, 2)).created
        await connection.close()

    asyncio.run(work())
    assert count(app) == 2
    _no_ferry_is_left()


# ---------------------------------------------------------------------------------------------- windlass's own


@pytest.mark.parametrize("kind", ["psycopg", "sqlite3"])
def test_the_tx_of_a_job_is_a_transaction_like_others(shop: Shop, kind: str) -> None:
    """`welcome.enqueue_in(tx, …)` in a handler: both colours, and chunks."""
    welcomed: list[int] = []

    @shop.app.job
    def welcome(user_id: int) -> None:
        welcomed.append(user_id)

    @shop.app.job
    def plain(ctx: Context) -> None:
        with ctx.transaction() as tx:
            welcome.enqueue_in(tx, 1)
            welcome.enqueue_in(tx.connection, 2)

    @shop.app.job
    async def coroutine(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await welcome.enqueue_in_async(tx, 3)
            await welcome.enqueue_many_in_async(tx, [{"user_id": 4}, {"user_id": 5}])

    @shop.app.job
    def chunked(ctx: Context) -> None:
        for chunk in ctx.chunks(total=2, size=1):
            with chunk as tx:
                welcome.enqueue_in(tx, 6 + chunk.offset)

    for job in (plain, coroutine, chunked):
        job.options(correlation_id="c-7").enqueue()
    shop.drained(shop.serve())
    assert sorted(welcomed) == [1, 2, 3, 4, 5, 6, 7]
    found = shop.store.jobs.list(JobFilter(kind="welcome")).jobs
    assert all(job.state is State.COMPLETED for job in found)
    assert sum(job.correlation_id == "c-7" for job in found) == 7, (
        "also the one that is given a bare connection: its handler is known"
    )
