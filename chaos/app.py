"""The application that the workers of every experiment serve. Each handler writes down that it was started.

Where it is started is told by the environment: WINDLASS_DATABASE_URL and, for the ledger, CHAOS_FOLDER.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import windlass
from chaos.ledger import INSERT_EFFECT, note_start
from windlass import Context
from windlass.urls import dialect_of

PATIENT = windlass.retry.fixed(attempts=50, wait=0.3)  # for jobs that others are killed around
app = windlass.App()


def effect(ctx: Context) -> tuple[str, tuple[Any, ...]]:
    """The statement that is this attempt's effect."""
    lease = ctx._lease
    return INSERT_EFFECT[dialect_of(app.url)], (lease.id, lease.token, lease.attempt, os.getpid())


def die(how: str | None) -> None:
    """End this process the bad way, if asked to."""
    match how:
        case None:
            return
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "instance":
            is_child = "windlass.engine.processes.child.main" in sys.modules
            os.kill(os.getppid() if is_child else os.getpid(), signal.SIGKILL)
    time.sleep(60)


@app.job(retry=PATIENT)
def order(ctx: Context, ms: int = 0, inside_ms: int = 0, die_by: str | None = None) -> None:
    """A plain function: works a while, then writes its effect in the transaction that ends the job."""
    note_start(ctx._lease)
    die(die_by)
    time.sleep(ms / 1000)
    with ctx.transaction() as tx:
        tx.connection.execute(*effect(ctx))
        time.sleep(inside_ms / 1000)


@app.job(retry=PATIENT, processors=20)
async def letter(ctx: Context, ms: int = 0) -> None:
    """The same as a coroutine."""
    note_start(ctx._lease)
    await asyncio.sleep(ms / 1000)
    async with ctx.transaction() as tx:
        await tx.execute(*effect(ctx))


@app.job(retry=PATIENT, processors=50)
async def note(ctx: Context, ms: int = 0) -> int:
    """A coroutine whose only effect is its result: it goes the short way, in batches."""
    note_start(ctx._lease)
    if ms:
        await asyncio.sleep(ms / 1000)
    return ms


@app.job(retry=PATIENT, executor="process", processors=2)
def press(ctx: Context, ms: int = 0, die_by: str | None = None) -> None:
    """A function in a process of its own."""
    note_start(ctx._lease)
    die(die_by)
    time.sleep(ms / 1000)
    with ctx.transaction() as tx:
        tx.connection.execute(*effect(ctx))


# ---------------------------------------------------------------------- jobs that do harm


@app.job(retry=PATIENT, processors=1)
async def blocker(ctx: Context, seconds: float) -> None:
    """Blocks the event loop."""
    note_start(ctx._lease)
    time.sleep(seconds)  # noqa: ASYNC251  that is the point
    async with ctx.transaction() as tx:
        await tx.execute(*effect(ctx))


@app.job(retry=windlass.retry.fixed(attempts=2, wait=0.1), executor="process", timeout=2.0, processors=2)
def sleeper(ctx: Context, seconds: float) -> None:
    """Outruns its time limit."""
    note_start(ctx._lease)
    time.sleep(seconds)


@app.job(retry=windlass.retry.fixed(attempts=2, wait=0.1), executor="process", processors=2)
def hog(ctx: Context, megabytes: int) -> int:
    """Takes memory until there is no more."""
    note_start(ctx._lease)
    hoard = [b"x" * 1024**2 for _ in range(megabytes)]
    return len(hoard)


@app.job
def witness(ctx: Context, go: str) -> None:
    """A good one that runs until there is a file."""
    note_start(ctx._lease)
    while not Path(go).exists():
        ctx.sleep(0.02)
    with ctx.transaction() as tx:
        tx.connection.execute(*effect(ctx))


# ---------------------------------------------------------------------- jobs that came out wrong


@app.job(retry=windlass.retry.fixed(attempts=2, wait=0.1))
def strict(ctx: Context, number: int) -> int:
    """Takes a whole number and nothing else."""
    note_start(ctx._lease)
    return number


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def strange(what: str) -> Any:
    """A result that cannot be stored."""
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    return {
        "object": object(),
        "nan": math.nan,
        "nul": "a\0b",
        "surrogate": "\ud800",
        "deep": deep,
        "huge": "x" * 50_000_000,
        "bytes": b"\xff",
        "cycle": _cycle(),
    }[what]


def _cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@app.job(retry=windlass.retry.fixed(attempts=2, wait=0.1))
def odd(ctx: Context, what: str) -> Any:
    """Returns what cannot be stored, or raises what cannot be shown."""
    note_start(ctx._lease)
    if what == "unprintable":
        raise UnprintableError
    if what == "exit":
        raise SystemExit(3)
    return strange(what)


import chaos.shapes  # noqa: E402, F401  it defines its jobs on this app
