"""Jobs with a shape, for the experiments about pipelines, chunks and cancels. Imported by app.py, which has the others."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import windlass
from chaos.app import PATIENT, app, effect
from chaos.ledger import note_start
from windlass import Context
from windlass.urls import dialect_of

INSERT_STEP = "INSERT INTO chaos_step (job, step, number) VALUES ({0}, {0}, {0})"
CREATE_STEPS = (
    "CREATE TABLE IF NOT EXISTS chaos_step (job text NOT NULL, step text NOT NULL, number integer NOT NULL)"
)


def step(ctx: Context, name: str, number: int) -> tuple[str, tuple[Any, ...]]:
    """The statement that says: this step of this job took effect."""
    mark = "?" if dialect_of(app.url) == "sqlite" else "%s"
    return INSERT_STEP.format(mark), (ctx.job_id, name, number)


def stumble(share: float) -> None:
    """Fail now and then."""
    if random.random() < share:
        raise ConnectionError("on purpose")


line = app.pipeline("line")


@line.phase("first", retry=PATIENT, processors=20)
def first(ctx: Context, n: int, trouble: float) -> Any:
    """Writes its effect and moves on, in one commit."""
    note_start(ctx._lease)
    stumble(trouble)
    time.sleep(0.005)
    with ctx.transaction() as tx:
        tx.connection.execute(*step(ctx, "first", 1))
        tx.complete(n + 1)


@line.phase("second", retry=PATIENT, processors=20)
async def second(ctx: Context, n: int, trouble: float) -> Any:
    """The same as a coroutine; half of the time it stumbles with its effect written."""
    note_start(ctx._lease)
    got = await asyncio.to_thread(ctx.output, "first")
    async with ctx.transaction() as tx:
        await tx.execute(*step(ctx, "second", 2))
        stumble(trouble)
        tx.complete(got + 1)


@line.phase("third", retry=PATIENT, processors=20)
def third(ctx: Context, n: int, trouble: float) -> Any:
    """Ends the job."""
    note_start(ctx._lease)
    with ctx.transaction() as tx:
        tx.connection.execute(*step(ctx, "third", 3))
        stumble(trouble)
        tx.complete({"n": n, "sum": ctx.output("second")})


@app.job(
    retry=windlass.retry.fixed(attempts=1000, wait=0.05),
    chunk_retry=windlass.retry.fixed(attempts=3, wait=0.02),
)
def ledger(ctx: Context, chunks: int, size: int, ms: float) -> int:
    """A long job: each chunk is a commit."""
    note_start(ctx._lease)
    for chunk in ctx.chunks(total=chunks * size, size=size):
        with chunk as tx:
            tx.connection.execute(*step(ctx, "chunk", chunk.number))
        time.sleep(ms / 1000)
    return chunks


@app.job(retry=windlass.retry.fixed(attempts=1), processors=30)
async def brief(ctx: Context, ms: float) -> None:
    """A short one that may be cancelled at any moment."""
    note_start(ctx._lease)
    await asyncio.sleep(ms / 1000)
    async with ctx.transaction() as tx:
        await tx.execute(*effect(ctx))
