"""Every kind of connection and session that a caller may bring, each with the same few words.

A test is written once, as a coroutine. For plain libraries it never waits, and runs without an event loop, which Django insists on.
"""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import Any

from windlass.handlers.context import Context

# Libraries are imported where they are used: child processes of tests start with only one of them.


@dataclass
class Hand:
    """A caller with a transaction under way: what it writes, and how it ends."""

    where: Any
    is_async: bool
    run: Callable[[str], Any]
    end: Callable[[str], Any]

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """A statement of the caller's own."""
        rows: list[tuple[Any, ...]] = await self._awaited(self.run(sql))
        return rows

    async def commit(self) -> None:
        await self._awaited(self.end("commit"))

    async def rollback(self) -> None:
        await self._awaited(self.end("rollback"))

    async def enqueue(self, kind: Any, *args: Any, **options: Any) -> Any:
        if self.is_async:
            return await kind.enqueue_in_async(self.where, *args, **options)
        return kind.enqueue_in(self.where, *args, **options)

    async def enqueue_many(self, kind: Any, calls: Any) -> Any:
        if self.is_async:
            return await kind.enqueue_many_in_async(self.where, calls)
        return kind.enqueue_many_in(self.where, calls)

    async def complete(self, ctx: Any, result: Any = None) -> None:
        if self.is_async:
            await ctx.complete_in_async(self.where, result)
        else:
            ctx.complete_in(self.where, result)

    async def checkpoint(self, ctx: Any, position: Any, **how: Any) -> None:
        if self.is_async:
            await ctx.checkpoint_in_async(self.where, position, **how)
        else:
            ctx.checkpoint_in(self.where, position, **how)

    async def _awaited(self, answer: Any) -> Any:
        return await answer if self.is_async else answer


Open = Callable[[str], AbstractAsyncContextManager[Hand]]


def _rows(cursor: Any) -> list[Any]:
    return cursor.fetchall() if cursor.description else []


# ---------------------------------------------------------------------------------------------- PostgreSQL


@asynccontextmanager
async def open_psycopg(url: str) -> AsyncIterator[Hand]:
    import psycopg

    with psycopg.connect(url) as connection:
        yield Hand(
            connection,
            False,
            lambda sql: _rows(connection.execute(sql.encode())),
            lambda how: getattr(connection, how)(),
        )


@asynccontextmanager
async def open_psycopg_async(url: str) -> AsyncIterator[Hand]:
    import psycopg

    async with await psycopg.AsyncConnection.connect(url) as connection:

        async def run(sql: str) -> Any:
            cursor = await connection.execute(sql.encode())
            return await cursor.fetchall() if cursor.description else []

        yield Hand(connection, True, run, lambda how: getattr(connection, how)())


@asynccontextmanager
async def open_asyncpg(url: str) -> AsyncIterator[Hand]:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        async with _asyncpg_hand(connection) as hand:
            yield hand
    finally:
        await connection.close()


@asynccontextmanager
async def open_asyncpg_pool(url: str) -> AsyncIterator[Hand]:
    import asyncpg

    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        _asyncpg_hand(connection) as hand,
    ):
        yield hand


@asynccontextmanager
async def _asyncpg_hand(connection: Any) -> AsyncIterator[Hand]:
    transaction = connection.transaction()
    await transaction.start()

    async def run(sql: str) -> Any:
        return [tuple(row) for row in await connection.fetch(sql)]

    async def end(how: str) -> None:
        await getattr(transaction, how)()

    yield Hand(connection, True, run, end)


def _sa_url(url: str, driver: str) -> str:
    name, _, rest = url.partition("://")
    return f"{'sqlite' if name == 'sqlite' else 'postgresql'}+{driver}://{rest}"


def _sa_rows(result: Any) -> list[Any]:
    return [tuple(row) for row in result] if result.returns_rows else []


def open_sa_connection(driver: str) -> Open:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[Hand]:
        import sqlalchemy as sa
        from sqlalchemy.pool import NullPool

        engine = sa.create_engine(_sa_url(url, driver), poolclass=NullPool)
        with engine.connect() as connection:
            yield Hand(
                connection,
                False,
                lambda sql: _sa_rows(connection.execute(sa.text(sql))),
                lambda how: getattr(connection, how)(),
            )

    return open_it


def open_sa_session(driver: str, *, is_scoped: bool = False) -> Open:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[Hand]:
        import sqlalchemy as sa
        from sqlalchemy import orm
        from sqlalchemy.pool import NullPool

        engine = sa.create_engine(_sa_url(url, driver), poolclass=NullPool)
        maker = orm.sessionmaker(engine)
        with closing(orm.scoped_session(maker) if is_scoped else maker()) as session:
            yield Hand(
                session,
                False,
                lambda sql: _sa_rows(session.execute(sa.text(sql))),
                lambda how: getattr(session, how)(),
            )

    return open_it


def open_sa_async_connection(driver: str) -> Open:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[Hand]:
        import sqlalchemy as sa
        from sqlalchemy.ext import asyncio as sa_async
        from sqlalchemy.pool import NullPool

        engine = sa_async.create_async_engine(_sa_url(url, driver), poolclass=NullPool)
        async with engine.connect() as connection:

            async def run(sql: str) -> Any:
                return _sa_rows(await connection.execute(sa.text(sql)))

            yield Hand(connection, True, run, lambda how: getattr(connection, how)())

    return open_it


def open_sa_async_session(driver: str) -> Open:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[Hand]:
        import sqlalchemy as sa
        from sqlalchemy.ext import asyncio as sa_async
        from sqlalchemy.pool import NullPool

        engine = sa_async.create_async_engine(_sa_url(url, driver), poolclass=NullPool)
        async with sa_async.AsyncSession(engine) as session:

            async def run(sql: str) -> Any:
                return _sa_rows(await session.execute(sa.text(sql)))

            yield Hand(session, True, run, lambda how: getattr(session, how)())

    return open_it


@asynccontextmanager
async def open_django(url: str) -> AsyncIterator[Hand]:
    from django.db import transaction

    from tests.transactions import django_project

    class RolledBackError(Exception):
        pass

    with django_project.connected(url, f"db{uuid.uuid4().hex}") as connection:
        block = transaction.atomic(using=connection.alias)
        block.__enter__()
        is_open = True

        def run(sql: str) -> Any:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return _rows(cursor)

        def end(how: str) -> None:
            nonlocal is_open
            is_open = False
            if how == "commit":
                block.__exit__(None, None, None)
            else:
                block.__exit__(RolledBackError, RolledBackError(), None)

        try:
            yield Hand(connection, False, run, end)
        finally:
            if is_open:
                end("rollback")


# ---------------------------------------------------------------------------------------------- SQLite


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


@asynccontextmanager
async def open_sqlite3(url: str) -> AsyncIterator[Hand]:
    with closing(sqlite3.connect(_path(url))) as connection:
        yield Hand(
            connection,
            False,
            lambda sql: connection.execute(sql).fetchall(),
            lambda how: getattr(connection, how)(),
        )


@asynccontextmanager
async def open_aiosqlite(url: str) -> AsyncIterator[Hand]:
    import aiosqlite

    async with aiosqlite.connect(_path(url)) as connection:

        async def run(sql: str) -> Any:
            return list(await connection.execute_fetchall(sql))

        yield Hand(connection, True, run, lambda how: getattr(connection, how)())


ON_POSTGRES: dict[str, Open] = {
    "psycopg": open_psycopg,
    "psycopg-async": open_psycopg_async,
    "asyncpg": open_asyncpg,
    "asyncpg-pool": open_asyncpg_pool,
    "sqlalchemy-connection": open_sa_connection("psycopg"),
    "sqlalchemy-session": open_sa_session("psycopg"),
    "sqlalchemy-scoped": open_sa_session("psycopg", is_scoped=True),
    "sqlalchemy-async-connection": open_sa_async_connection("asyncpg"),
    "sqlalchemy-async-session": open_sa_async_session("asyncpg"),
    "sqlalchemy-async-session-psycopg": open_sa_async_session("psycopg"),
    "django": open_django,
}
ON_SQLITE: dict[str, Open] = {
    "sqlite3": open_sqlite3,
    "aiosqlite": open_aiosqlite,
    "sqlalchemy-session-sqlite": open_sa_session("pysqlite"),
    "sqlalchemy-async-session-sqlite": open_sa_async_session("aiosqlite"),
    "django-sqlite": open_django,
}
KINDS = {**ON_POSTGRES, **ON_SQLITE}
THE_FIVE = ["psycopg", "asyncpg", "sqlalchemy-session", "sqlalchemy-async-session", "django"]


def is_async(kind: str) -> bool:
    return "async" in kind or kind == "aiosqlite"


def run(kind: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine."""
    if is_async(kind):
        asyncio.run(work())
        return
    with suppress(StopIteration):
        work().send(None)
        raise AssertionError("a plain library has nothing to wait for")


def handler(kind: str, url: str, body: Callable[[Hand, Context, int], Coroutine[Any, Any, Any]]) -> Any:
    """A handler, plain or async as its library is, that opens a transaction of its own and does something in it."""
    if is_async(kind):

        async def work_async(n: int, ctx: Context) -> Any:
            async with KINDS[kind](url) as hand:
                return await body(hand, ctx, n)

        return work_async

    def work(n: int, ctx: Context) -> Any:
        results = []

        async def inside() -> None:
            async with KINDS[kind](url) as hand:
                results.append(await body(hand, ctx, n))

        run(kind, inside)
        return results[0]

    return work
