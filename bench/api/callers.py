"""``python -m bench.api.callers URL CALLERS SECONDS``: a process with so many callers of ``enqueue_async``; prints what they did as JSON."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import nullcontext

import click
import uvloop

from bench.limited import make
from windlass.app.app import App
from windlass.model.principal import Principal


async def submit(app: App, callers: int, seconds: float, principal: Principal | None) -> tuple[int, float]:
    """Submit jobs; returns how many, and in how many seconds."""
    noop = app.kind("noop")
    await noop.enqueue_async(number=0)
    began = time.perf_counter()
    ends_at = began + seconds
    count = 0

    async def call() -> None:
        nonlocal count
        with nullcontext() if principal is None else app.as_principal(principal):
            while time.perf_counter() < ends_at:
                await noop.enqueue_async(number=7)
                count += 1

    await asyncio.gather(*(call() for _ in range(callers)))
    return count, time.perf_counter() - began


@click.command()
@click.argument("url")
@click.argument("callers", type=int)
@click.argument("seconds", type=float)
@click.option("--principal", is_flag=True, help="Jobs carry a principal, as those of the API do.")
def main(url: str, callers: int, seconds: float, principal: bool) -> None:
    """Submit jobs for so many seconds."""
    app, _ = make(url, None, 1)
    who = Principal("bench", roles=frozenset({"windlass:submit"})) if principal else None
    with app:
        cpu = time.process_time()
        count, spent = uvloop.run(submit(app, callers, seconds, who))
        print(json.dumps({"rate": count / spent, "cpu ms": (time.process_time() - cpu) * 1000 / count}))


if __name__ == "__main__":
    main()
