"""Handlers that use the store from child processes. Importable by name, as all such handlers must be."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from windlass.handlers.context import Context
from windlass.model import NewJob


def use_context(ctx: Context) -> dict[str, Any]:
    before = ctx.resume()
    ctx.checkpoint({"page": 3}, done=3, total=10)
    after = ctx.resume()
    assert after is not None
    put = ctx.put_output("sheet", {"rows": [1, 2]})
    again = ctx.put_output("sheet", "other")
    made = ctx.enqueue(NewJob(kind="other", args={"from": ctx.job_id}))
    return {
        "resumed": None if before is None else before.done,
        "position": after.position,
        "created": [put.created, again.created],
        "output": ctx.output("use_context", name="sheet"),
        "enqueued": made.created,
        "key": ctx.key,
    }


def chunk_limits(ctx: Context, fails: bool) -> list[int]:
    """The process that works through five records, and the sizes of its chunks; with ``fails`` the first try of a chunk raises."""
    limits = [os.getpid()]
    for chunk in ctx.chunks(total=5):
        with chunk:
            if fails and chunk.attempt == 1:
                raise ConnectionError("once")
            limits.append(chunk.limit)
    return limits


def end_in_transaction(ctx: Context) -> Any:
    with ctx.transaction() as tx:
        tx.connection.execute("INSERT INTO ledger (job) VALUES ('x')")
        tx.enqueue(NewJob(kind="other"))
        tx.complete({"in": "transaction"})
    return "ignored"


async def end_in_async_transaction(ctx: Context) -> None:
    async with ctx.transaction() as tx:
        await tx.execute("INSERT INTO ledger (job) VALUES ('x')")


def end_and_crash(ctx: Context) -> NoReturn:
    with ctx.transaction() as tx:
        tx.complete(1)
    os._exit(5)


def roll_back(ctx: Context) -> NoReturn:
    with ctx.transaction() as tx:
        tx.connection.execute("INSERT INTO ledger (job) VALUES ('x')")
        raise ValueError("not this time")


def put_twice(ctx: Context) -> list[bool]:
    """The second and the fourth find an output there."""
    made = [ctx.put_output("page", n).created for n in range(2)]
    with ctx.transaction(ends=False) as tx:
        return [*made, tx.put_output("other", 1).created, tx.put_output("page", 9).created]


def complete_badly(ctx: Context) -> list[int]:
    with ctx.transaction() as tx:
        tx.connection.execute("INSERT INTO ledger (job) VALUES ('x')")
        tx.complete(["one"])
    return []


def advance_in_transaction(ctx: Context) -> list[int]:
    with ctx.transaction() as tx:
        tx.complete([1, 2])
    return []


def raise_after_end(ctx: Context) -> str:
    with ctx.transaction() as tx:
        tx.complete("x")
    raise ValueError("too late")


def return_after_end(ctx: Context) -> str:
    with ctx.transaction():
        pass
    return "value"
