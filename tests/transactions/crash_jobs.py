"""Handlers that insert a row, end their job in the same transaction of their own, and break where they are told to.

At the top of a module, so that child processes find them.
"""

from __future__ import annotations

import os
from typing import Any

import psycopg

from tests.transactions.kinds import KINDS, Hand, run
from windlass.handlers.context import Context

PLACES = ("after the insert", "after the end", "after the commit")
WAYS = ("exit", "raise", "cut")


class BrokenError(Exception):
    """What a handler raises on purpose."""


async def body(kind: str, n: int, place: str, how: str, url: str, ctx: Context) -> None:
    async with KINDS[kind](url) as hand:
        if await hand.execute(f"SELECT count(*) FROM effect WHERE n = {n}") != [(0,)]:
            await hand.execute(f"INSERT INTO broken VALUES ({n}, 'an effect without its end')")
            await hand.commit()
            return
        await hand.execute(f"INSERT INTO effect VALUES ({n}, {_run_of(ctx)})")
        await _pass("after the insert", hand, place, how, url, ctx)
        await hand.complete(ctx, _run_of(ctx))
        await _pass("after the end", hand, place, how, url, ctx)
        await hand.commit()
        if how != "cut":
            await _pass("after the commit", hand, place, how, url, ctx)


def _run_of(ctx: Context) -> int:
    """Which run this is. The death of an instance spends no attempt."""
    return ctx.attempt + int(ctx.is_recovered)


async def _pass(here: str, hand: Hand, place: str, how: str, url: str, ctx: Context) -> None:
    if here != place or _run_of(ctx) > 1:
        return
    if how == "exit":
        os._exit(9)
    if how == "raise":
        raise BrokenError(here)
    ((pid,),) = await hand.execute("SELECT pg_backend_pid()")
    with psycopg.connect(url, autocommit=True) as killer:
        killer.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def _run(kind: str, *arguments: Any) -> None:
    run(kind, lambda: body(kind, *arguments))


def in_psycopg(n: int, place: str, how: str, url: str, ctx: Context) -> Any:
    _run("psycopg", n, place, how, url, ctx)


async def in_asyncpg(n: int, place: str, how: str, url: str, ctx: Context) -> Any:
    await body("asyncpg", n, place, how, url, ctx)


def in_sqlalchemy_session(n: int, place: str, how: str, url: str, ctx: Context) -> Any:
    _run("sqlalchemy-session", n, place, how, url, ctx)


async def in_sqlalchemy_async_session(n: int, place: str, how: str, url: str, ctx: Context) -> Any:
    await body("sqlalchemy-async-session", n, place, how, url, ctx)


def in_django(n: int, place: str, how: str, url: str, ctx: Context) -> Any:
    _run("django", n, place, how, url, ctx)


def in_sqlite3(n: int, place: str, how: str, url: str, ctx: Context) -> Any:
    _run("sqlite3", n, place, how, url, ctx)


THE_FIVE_JOBS = [in_psycopg, in_asyncpg, in_sqlalchemy_session, in_sqlalchemy_async_session, in_django]
