"""Runs sync code over an async connection.

The code that enqueues jobs with keys, or ends a job, is written once and is sync. Here it runs on a thread of its own, and each of
its statements is awaited by the caller's own task, on the caller's loop: that task alone touches the connection, so its
cancellation, its time-outs and its order of statements are what they would be without us.

    caller's task:  await lend(work) ──> await execute ──> await execute ──> result
    thread:              work ── statement ─┘   └─ rows ── statement ─┘  └─ rows ── return
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, NamedTuple, TypeVar

from windlass.store.database import Row
from windlass.transactions.protocols import AsyncExecute, Execute

T = TypeVar("T")


class Abandoned(BaseException):
    """Raised in the sync code whose caller has gone: it must not go on, and its result is dropped."""


class _Statement(NamedTuple):
    text: str
    values: Any
    result: Future[list[Row] | None]


async def run_in_thread(execute: AsyncExecute, work: Callable[[Execute], T]) -> T:
    """Run ``work`` on a thread; the statements it executes are awaited here."""
    loop = asyncio.get_running_loop()
    statements: asyncio.Queue[_Statement | None] = asyncio.Queue()
    result: Future[T] = Future()
    is_abandoned = False

    def take(statement: _Statement) -> None:  # on the loop, so that it never misses the caller's leaving
        if is_abandoned:
            statement.result.set_exception(Abandoned())
        else:
            statements.put_nowait(statement)

    def cross(text: str, values: Any) -> list[Row] | None:
        statement = _Statement(text, values, Future())
        loop.call_soon_threadsafe(take, statement)
        return statement.result.result()

    def run() -> None:
        try:
            result.set_result(work(cross))
        except BaseException as error:  # noqa: BLE001  raised to the caller
            result.set_exception(error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(statements.put_nowait, None)

    context = copy_context()
    threading.Thread(target=context.run, args=(run,), name="windlass-ferry", daemon=True).start()
    statement: _Statement | None = None
    try:
        while (statement := await statements.get()) is not None:
            try:
                rows = await execute(statement.text, statement.values)
            except Exception as error:  # noqa: BLE001  the sync code may handle it
                statement.result.set_exception(error)
            else:
                statement.result.set_result(rows)
        return result.result()
    finally:
        is_abandoned = True
        if statement is not None and not statement.result.done():
            statement.result.set_exception(Abandoned())
        while not statements.empty():
            if (left := statements.get_nowait()) is not None:
                left.result.set_exception(Abandoned())
