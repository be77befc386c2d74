"""An app whose handlers run in child processes inside middleware. Importable by name, as all such handlers must be.

Each middleware and handler writes a line into the file that the job's header ``file`` names.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from windlass import App, Context, CurrentAttempt
from windlass.model.retry import fixed

app = App()
tenant = contextvars.ContextVar("tenant", default="nobody")
PARENT = os.environ.setdefault("WINDLASS_TEST_PARENT", str(os.getpid()))


def note(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{text}\n")


@app.middleware
@contextmanager
def outer(attempt: CurrentAttempt) -> Iterator[None]:
    tenant.set(attempt.headers["tenant"])
    assert str(os.getpid()) != PARENT, "in the child process"
    note(attempt.headers["file"], f"outer {attempt.kind} {attempt.attempt}")
    try:
        yield
    finally:
        code = attempt.error.code if attempt.error else None
        note(attempt.headers["file"], f"outer {attempt.outcome} {code} {type(attempt.exception).__name__}")


@app.middleware
@contextmanager
def inner(attempt: CurrentAttempt) -> Iterator[None]:
    note(attempt.headers["file"], "inner")
    yield
    note(attempt.headers["file"], f"inner {attempt.outcome}")
    if attempt.kind == "spoilt":
        raise RuntimeError("after it")


@app.job(executor="process")
def work(ctx: Context) -> str:
    note(ctx.headers["file"], f"handler {tenant.get()}")
    return tenant.get()


@app.job(executor="process")
async def work_async(ctx: Context) -> str:
    note(ctx.headers["file"], f"handler {tenant.get()}")
    return tenant.get()


@app.job(executor="process", retry=fixed(2, wait=0.01))
def bad(ctx: Context) -> None:
    raise ValueError("on purpose")


@app.job(executor="process")
def spoilt(ctx: Context) -> None: ...


@app.job(executor="process")
def committed(ctx: Context) -> int:
    with ctx.transaction() as tx:
        tx.complete(1)
    raise ValueError("too late")


@app.job(executor="process")
def stopped(ctx: Context) -> None:
    note(ctx.headers["file"], "begun")
    ctx.sleep(600)


@app.job(executor="process")
async def stopped_async(ctx: Context) -> None:
    import asyncio

    note(ctx.headers["file"], "begun")
    await asyncio.sleep(600)


@app.job(executor="process")
def typed(number: int, ctx: Context) -> None: ...


async_app = App()


@async_app.middleware
@asynccontextmanager
async def waiting(attempt: CurrentAttempt) -> AsyncIterator[None]:
    tenant.set("async")
    yield
    note(attempt.headers["file"], f"waiting {attempt.outcome}")


@async_app.job(executor="process")
async def awaited(ctx: Context) -> str:
    return tenant.get()
