"""An app whose jobs read their parents in every place that runs handlers. Importable by name, for child processes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from windlass import App, Context, Fail


class Size(BaseModel):
    width: int


app = App()


@app.job
def resize(n: int) -> Size:
    if n == 2:
        raise Fail("too dark")
    return Size(width=n)


def read(ctx: Context) -> dict[str, Any]:
    parents = ctx.parents(resize)
    assert all(isinstance(size, Size) for size in parents.results())
    return {
        "typed": [size.width for size in parents.results()],
        "plain": list(ctx.parents().results()),
        "as a type": [size["width"] for size in ctx.parents(dict[str, int]).results()],
        "failures": [(item.error or {})["message"] for item in parents.failures()],
        "total": ctx.parents().counts().total,
    }


@app.job(executor="thread")
def in_a_thread(ctx: Context) -> dict[str, Any]:
    return read(ctx)


@app.job(executor="process")
def in_a_process(ctx: Context) -> dict[str, Any]:
    return read(ctx)


@app.job(executor="process")
async def in_a_process_async(ctx: Context) -> dict[str, Any]:
    return await read_async(ctx)


@app.job
async def on_the_loop(ctx: Context) -> dict[str, Any]:
    return await read_async(ctx)


async def read_async(ctx: Context) -> dict[str, Any]:
    parents = ctx.parents(resize)
    return {
        "typed": [size.width async for size in parents.results()],
        "plain": [value async for value in ctx.parents().results()],
        "as a type": [size["width"] async for size in ctx.parents(dict[str, int]).results()],
        "failures": [(item.error or {})["message"] async for item in parents.failures()],
        "total": (await ctx.parents().counts_async()).total,
    }


EXPECTED = {
    "typed": [0, 1, 3],
    "plain": [{"width": 0}, {"width": 1}, {"width": 3}],
    "as a type": [0, 1, 3],
    "failures": ["too dark"],
    "total": 4,
}
