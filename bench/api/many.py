"""Many clients for a minute: no error, and the memory of the server does not grow."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import uvloop

from bench.api.clients import Load, load, request
from bench.api.process import ServerProcess, serving
from bench.load import percentile
from bench.report import Row
from windlass import App

GROWTH = 1.1
"""The memory in the last third of the time, in that of the second third."""
BODY = b'{"kind":"noop","arguments":{"number":7}}'


def measure(name: str, url: str, *, clients: int, seconds: float) -> list[Row]:
    """Submits, reads and lists of so many clients."""
    with App(url) as app:
        noop = app.job(name="noop")(_noop)
        token = app.tokens.create("bench-clients", ["admin"]).text
        jobs = [noop.enqueue(number=number).id for number in range(50)]
    with serving(url) as server:
        done, memory = uvloop.run(_load(server, clients, seconds, _mixed(token, jobs)))
    second, last = (_third(memory, seconds, number) for number in (1, 2))
    return [
        {
            "database": name,
            "clients": clients,
            "requests/s": len(done.seconds) / seconds,
            "p50 ms": percentile(done.seconds, 0.5) * 1000,
            "p99 ms": percentile(done.seconds, 0.99) * 1000,
            "failed": done.failed,
            "MB, second third": second,
            "MB, last third": last,
        }
    ]


def broken(rows: Sequence[Row]) -> list[str]:
    """Errors, and memory that grows."""
    found = [f"{row['failed']} requests failed on {row['database']}" for row in rows if row["failed"]]
    return found + [
        f"the memory grew on {row['database']}: {row['MB, second third']:.0f} to {row['MB, last third']:.0f} MB"
        for row in rows
        if not row["MB, last third"] <= GROWTH * row["MB, second third"]
    ]


def _noop(number: int = 0) -> None: ...


def _mixed(token: str, jobs: Sequence[str]) -> Callable[[], bytes]:
    """Makes requests: as many submits as reads of one job, and a list in ten."""
    submit = request("POST", "/v1/jobs", BODY, token=token)
    reads = [request("GET", f"/v1/jobs/{job}", token=token) for job in jobs]
    others = [request("GET", path, token=token) for path in ("/v1/jobs?limit=20", "/v1/phases")]
    choose = random.Random(1)

    def make() -> bytes:
        number = choose.randrange(20)
        return submit if number < 9 else choose.choice(reads if number < 18 else others)

    return make


async def _load(
    server: ServerProcess, clients: int, seconds: float, make: Callable[[], bytes]
) -> tuple[Load, list[tuple[float, float]]]:
    """What the clients measured, and the megabytes of the server by the seconds since the beginning."""
    began, memory = time.perf_counter(), list[tuple[float, float]]()

    async def sample() -> None:
        while True:
            facts: dict[str, Any] = await asyncio.to_thread(server.facts)
            memory.append((time.perf_counter() - began, facts["megabytes"]))
            await asyncio.sleep(min(1.0, seconds / 20))

    sampling = asyncio.create_task(sample())
    try:
        return await load(server.port, clients, seconds, make), memory
    finally:
        sampling.cancel()


def _third(memory: Sequence[tuple[float, float]], seconds: float, number: int) -> float:
    """The median memory in a third of the time; a third without a sample says nothing about memory, so it is an error."""
    found = [size for at, size in memory if number * seconds / 3 <= at < (number + 1) * seconds / 3]
    if not found:
        raise RuntimeError(f"the server did not say its memory in third {number + 1} of the time")
    return statistics.median(found)
