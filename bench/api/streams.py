"""Many open streams: what they cost submits, and how many queries they are."""

from __future__ import annotations

import asyncio
import resource
import statistics
from collections.abc import Sequence
from functools import partial
from typing import cast

import uvloop

from bench.api.clients import Load, load, request
from bench.api.many import BODY, _noop
from bench.api.process import ServerProcess, serving
from bench.load import percentile
from bench.report import Row
from windlass import App

SLOWER = 2.0
"""The p99 of submits with the streams, in that without."""
CALLERS = 8
SPARE = 200
"""Open files beside the streams."""


def measure(name: str, url: str, *, streams: int, seconds: float, rounds: int) -> list[Row]:
    """The p99 of submits without and with so many streams: half of them of the overview, half of one job each."""
    _raise_limit(streams + SPARE)
    with App(url) as app:
        noop = app.job(name="noop")(_noop)
        token = app.tokens.create("bench-streams", ["admin"]).text
        jobs = [noop.enqueue(number=number).id for number in range(streams // 2)]
    with serving(url) as server:
        return [uvloop.run(_measure(name, server, token, jobs, streams, seconds, rounds))]


def broken(rows: Sequence[Row]) -> list[str]:
    """Submits that the streams slow down."""
    return [
        f"submits on {row['database']}: p99 is {row['p99 with / without']:.2f} times as long with the streams; {SLOWER:g} is the limit"
        for row in rows
        if row["p99 with / without"] > SLOWER
    ]


async def _measure(
    name: str,
    server: ServerProcess,
    token: str,
    jobs: Sequence[str],
    streams: int,
    seconds: float,
    rounds: int,
) -> Row:
    submit = partial(bytes, request("POST", "/v1/jobs", BODY, token=token))
    await load(server.port, CALLERS, min(1.0, seconds), submit)  # connects, prepares
    without, having, ratios, queries, cpu = [], [], list[float](), 0.0, 0.0
    for _ in range(rounds):
        without.append(_p99(await load(server.port, CALLERS, seconds, submit)))
        readers = await _open(server, token, jobs, streams)
        before = await asyncio.to_thread(server.facts)
        await asyncio.sleep(seconds)
        after = await asyncio.to_thread(server.facts)
        if after["streams"] != streams:
            raise RuntimeError(f"{after['streams']} of {streams} streams are open")
        cpu = (after["cpu"] - before["cpu"]) / seconds
        queries = (
            sum(after["reads"].get(verb, 0) - count for verb, count in before["reads"].items()) / seconds
        )
        having.append(_p99(await load(server.port, CALLERS, seconds, submit)))
        ratios.append(having[-1] / without[-1])
        await _close(server, readers)
    return {
        "database": name,
        "streams": streams,
        "p99 ms without": statistics.median(without),
        "p99 ms with": statistics.median(having),
        "p99 with / without": statistics.median(ratios),
        "queries/s of the streams": queries,
        "CPU s/s of the streams": cpu,
    }


def _p99(done: Load) -> float:
    if done.failed or not done.seconds:
        raise RuntimeError(f"{done.failed} submits failed: {done.statuses}")
    return percentile(done.seconds, 0.99) * 1000


class _Reader(asyncio.Protocol):
    """A client of a stream: takes what comes, and says when the first event came."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.began.done() and b"event: " in data:
            self.began.set_result(None)


async def _open(server: ServerProcess, token: str, jobs: Sequence[str], streams: int) -> list[_Reader]:
    loop, made = asyncio.get_running_loop(), list[_Reader]()
    paths = [*(f"/v1/jobs/{job}/events" for job in jobs), *["/v1/events"] * (streams - len(jobs))]
    for path in paths:
        reader = _Reader(request("GET", path, token=token))
        await loop.create_connection(lambda reader=reader: reader, "127.0.0.1", server.port)  # type: ignore[misc]
        made.append(reader)
    async with asyncio.timeout(60):
        await asyncio.gather(*(reader.began for reader in made))
    return made


async def _close(server: ServerProcess, readers: Sequence[_Reader]) -> None:
    for reader in readers:
        reader.transport.close()
    async with asyncio.timeout(60):
        while (await asyncio.to_thread(server.facts))["streams"]:  # noqa: ASYNC110  in another process
            await asyncio.sleep(0.05)


def _raise_limit(files: int) -> None:
    """Let this process and the server that it starts have so many open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (files if hard == resource.RLIM_INFINITY else min(files, hard), hard)
        )
