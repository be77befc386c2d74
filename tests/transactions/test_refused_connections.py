"""Connections without a transaction, of an unknown library or to another database are refused with the reason."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
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
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tests.transactions.apps import alchemy, count, make_app
from tests.transactions.django_project import connected
from tests.transactions.kinds import Open, is_async, run
from windlass import JobOptions
from windlass.errors import ConfigError, SchemaError

pytestmark = pytest.mark.timing

WAYS: list[JobOptions] = [{}, {"key": "k"}]


# ---------------------------------------------------------------------------------------------- no transaction


def refuses(call: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError, match="open a transaction first"):
        call()


def test_connections_that_commit_each_statement_are_refused(on_postgres: Any, tmp_path: Path) -> None:
    app, welcome = on_postgres
    with psycopg.connect(app.url, autocommit=True) as connection:
        refuses(lambda: welcome.enqueue_in(connection, 1))
        refuses(lambda: welcome.options(key="k").enqueue_in(connection, 1))
        with connection.transaction():
            welcome.enqueue_in(connection, 1)
    engine = sa.create_engine(alchemy(app.url, "psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as bound:
        refuses(lambda: welcome.enqueue_in(bound, 1))
    with orm.Session(engine) as session:
        refuses(lambda: welcome.enqueue_in(session, 1))
    engine.dispose()
    with connected(app.url, "no_transaction") as of_django:
        refuses(lambda: welcome.enqueue_in(of_django, 1))
        with transaction.atomic(using="no_transaction"):
            welcome.enqueue_in(of_django, 2)
    assert count(app) == 2


def test_async_connections_that_commit_each_statement_are_refused(on_postgres: Any) -> None:
    app, welcome = on_postgres

    async def work() -> None:
        connection = await asyncpg.connect(app.url)
        for options in WAYS:
            with pytest.raises(ConfigError, match="open a transaction first"):
                await welcome.options(**options).enqueue_in_async(connection, 1)
        await connection.close()
        async with await psycopg.AsyncConnection.connect(app.url, autocommit=True) as other:
            with pytest.raises(ConfigError, match="open a transaction first"):
                await welcome.enqueue_in_async(other, 1)
        engine = create_async_engine(alchemy(app.url, "asyncpg"), isolation_level="AUTOCOMMIT")
        async with AsyncSession(engine) as session:
            with pytest.raises(ConfigError, match="open a transaction first"):
                await welcome.enqueue_in_async(session, 1)
        await engine.dispose()

    asyncio.run(work())
    assert count(app) == 0


def test_on_sqlite_too(on_sqlite: Any, sqlite_path: Path) -> None:
    app, welcome = on_sqlite
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        refuses(lambda: welcome.enqueue_in(connection, 1))
        connection.execute("BEGIN")
        welcome.enqueue_in(connection, 1)
        welcome.options(key="k").enqueue_in(connection, 2)
        connection.execute("COMMIT")
    with connected(app.url, "sqlite_file") as of_django:
        refuses(lambda: welcome.enqueue_in(of_django, 1))
    engine = sa.create_engine(app.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as bound:
        refuses(lambda: welcome.enqueue_in(bound, 1))
    engine.dispose()

    async def work() -> None:
        async with aiosqlite.connect(sqlite_path, isolation_level=None) as other:
            with pytest.raises(ConfigError, match="open a transaction first"):
                await welcome.enqueue_in_async(other, 1)

    asyncio.run(work())
    assert count(app) == 2


def test_sqlalchemys_recipe_for_begin_on_sqlite(on_sqlite: Any) -> None:
    """Many have SQLAlchemy send BEGIN itself, so that savepoints work: the driver then never begins."""
    app, welcome = on_sqlite
    engine = sa.create_engine(app.url)
    sa.event.listen(engine, "connect", lambda driver, _: setattr(driver, "isolation_level", None))
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with orm.Session(engine) as session:
        welcome.enqueue_in(session, 1)
        session.rollback()
        welcome.enqueue_in(session, 1)
        welcome.options(key="k").enqueue_in(session, 2)
        session.commit()
    engine.dispose()
    assert count(app) == 2


# ---------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("what", [None, "session", object(), sqlite3, sa.create_engine("sqlite://")])
def test_anything_else_is_refused_with_what_is_accepted(what: Any) -> None:
    _, welcome = make_app("sqlite:///nowhere.db")
    for call in (
        lambda: welcome.enqueue_in(what, 1),
        lambda: asyncio.run(welcome.enqueue_in_async(what, 1)),
        lambda: welcome.enqueue_many_in(what, [{"user_id": 1}]),
    ):
        with pytest.raises(
            ConfigError, match=r"psycopg Connection.*asyncpg.*sqlite3.*SQLAlchemy.*django"
        ) as caught:
            call()
        assert type(what).__qualname__ in str(caught.value)


def test_the_other_colour_is_named(kind: str, url: str, opened: Open) -> None:
    _, welcome = make_app(url)

    async def work() -> None:
        async with opened(url) as hand:
            if hand.is_async:
                with pytest.raises(ConfigError, match="ends in _async"):
                    welcome.enqueue_in(hand.where, 1)
            else:
                with pytest.raises(ConfigError, match="does not end in _async"):
                    await welcome.enqueue_in_async(hand.where, 1)
            assert hand.is_async == is_async(kind)

    run(kind, work)


def test_a_database_without_the_tables_is_named(
    kind: str, opened: Open, postgres_empty_dsn: str, tmp_path: Path
) -> None:
    """Nearly always the transaction is on another database than the jobs."""
    url = f"sqlite:///{tmp_path / 'other.db'}" if "sqlite" in kind else postgres_empty_dsn
    _, welcome = make_app(url)

    async def work() -> None:
        for options in WAYS:
            async with opened(url) as hand:
                with pytest.raises(SchemaError, match="must share one database") as caught:
                    await hand.enqueue(welcome.options(**options), 1)
                assert caught.value.__cause__ is not None
                await hand.rollback()

    run(kind, work)


def test_errors_of_the_callers_driver_stay_what_they_are(on_postgres: Any) -> None:
    """A caller who repeats a transaction after a serialisation failure must recognise it."""
    _, welcome = on_postgres
    with psycopg.connect(on_postgres[0].url) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1/0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            welcome.enqueue_in(connection, 1)
        connection.rollback()
        connection.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            welcome.enqueue_in(connection, 1)


def test_no_library_is_imported_that_is_not_in_use(sqlite_path: Path) -> None:
    program = f"""
import sqlite3, sys
import windlass
app = windlass.App("sqlite:///{sqlite_path}")
@app.job
def welcome(user_id: int) -> None: ...
app.store
connection = sqlite3.connect({str(sqlite_path)!r})
welcome.enqueue_in(connection, 1)
connection.commit()
others = {{"psycopg", "asyncpg", "aiosqlite", "sqlalchemy", "django", "flask", "fastapi"}}
print(sorted(others & {{name.partition(".")[0] for name in sys.modules}}))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
