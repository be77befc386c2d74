"""How a peer's script talks, and all of it that does not depend on the peer. Runs in the peer's own interpreter.

A script is started as ``SCRIPT VERB`` with one JSON object on stdin, the order, and prints one JSON object, the answer:

    verb          answer
    setup         {}: the schema is in the given fresh database
    enqueue_one   {jobs, seconds, stored}: one at a time, for order.seconds
    enqueue_bulk  {jobs, seconds, stored}: order.jobs jobs, order.batch per call
    fill          the same as enqueue_bulk; only the filling matters
    drain         {handled, sum, began_at, ended_at, left}: a worker, until the store says that nothing is left
    latency       the same, and starts: [[number, time], ...] of every handler; the worker of a latency
    trickle       {returns: [time, ...]}: one job every order.interval seconds (with is_random on average, as independent callers
                  would), and when each call returned

Jobs carry their number, so that sums can tell "each once". Times are seconds since 1970, as several processes compare
them. Processes that drain together share a board: a file with sixteen bytes for each, in which it writes how many
jobs it has handled. They start together when all have written there, and ask the store only once enough were handled.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

SLOT = 16
TICK_SECONDS = 0.01


@dataclass(frozen=True)
class Order:
    """What a script is asked for; ``patience`` is how long nothing may happen before a worker gives up, ``rest`` the seconds that each
    handler of a latency waits."""

    store: str
    options: Mapping[str, Any]
    jobs: int = 0
    seconds: float = 0.0
    interval: float = 0.05
    is_random: bool = False
    rest: float = 0.0
    batch: int = 1000
    board: str = ""
    process: int = 0
    processes: int = 1
    patience: float = 30.0


class Client(Protocol):
    """What a peer's script provides."""

    async def setup(self) -> None: ...

    async def one(self, number: int) -> object: ...

    async def many(self, numbers: Sequence[int]) -> object: ...

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        """Run a worker whose handler calls ``tally.start(number)``, and waits for ``tally.rest`` seconds if there are any, until stop is set."""
        ...

    def left(self) -> int:
        """How many jobs the store has not recorded as done; called from a thread, over a connection of its own."""
        ...


@dataclass
class Tally:
    """What the handlers of this process did."""

    keeps_starts: bool = False
    rest: float = 0.0
    handled: int = 0
    total: int = 0
    began_at: float | None = None
    starts: list[tuple[int, float]] = field(default_factory=list)

    def start(self, number: int) -> None:
        if self.keeps_starts:
            self.starts.append((number, time.time()))
        if self.began_at is None:
            self.began_at = time.time()
        self.handled += 1
        self.total += number


class Board:
    """How much each process has handled; a process that has written nothing yet is not ready."""

    def __init__(self, path: str, process: int, processes: int) -> None:
        self._process, self._processes = process, processes
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def post(self, handled: int) -> None:
        os.pwrite(self._file, b"%*d" % (SLOT, handled), SLOT * self._process)

    def total(self) -> int | None:
        """The sum; None while someone is missing."""
        text = os.pread(self._file, SLOT * self._processes, 0)
        slots = [text[at : at + SLOT].strip(b"\0 ") for at in range(0, SLOT * self._processes, SLOT)]
        return sum(map(int, slots)) if all(slots) else None


def payload(number: int) -> dict[str, Any]:
    """About 100 bytes as JSON."""
    return {"number": number, "text": "x" * 75}


def serve(
    connect: Callable[[Order], AbstractAsyncContextManager[Client]],
    run: Callable[[Coroutine[Any, Any, dict[str, Any]]], dict[str, Any]] = asyncio.run,
) -> None:
    """Do what the command line and stdin ask for."""
    verb = sys.argv[1] if len(sys.argv) == 2 else ""
    if verb not in VERBS:
        sys.exit(f"one verb wanted, of: {', '.join(VERBS)}")
    order = Order(**json.load(sys.stdin))

    async def obey() -> dict[str, Any]:
        async with connect(order) as client:
            return await VERBS[verb](client, order)

    print(json.dumps(run(obey())), flush=True)


async def setup(client: Client, _order: Order) -> dict[str, Any]:
    await client.setup()
    return {}


async def enqueue_one(client: Client, order: Order) -> dict[str, Any]:
    number = 0
    began = time.perf_counter()
    while (spent := time.perf_counter() - began) < order.seconds:
        await client.one(number)
        number += 1
    return {"jobs": number, "seconds": spent, "stored": client.left()}


async def enqueue_bulk(client: Client, order: Order) -> dict[str, Any]:
    began = time.perf_counter()
    for start in range(0, order.jobs, order.batch):
        await client.many(range(start, min(start + order.batch, order.jobs)))
    return {"jobs": order.jobs, "seconds": time.perf_counter() - began, "stored": client.left()}


async def drain(client: Client, order: Order) -> dict[str, Any]:
    return await work(client, order, Tally())


async def latency(client: Client, order: Order) -> dict[str, Any]:
    tally = Tally(keeps_starts=True, rest=order.rest)
    return {**await work(client, order, tally), "starts": tally.starts}


async def trickle(client: Client, order: Order) -> dict[str, Any]:
    returns: list[float] = []
    steps, due = random.Random(7), time.perf_counter()  # the same moments for each peer
    for number in range(order.jobs):
        due += steps.expovariate(1 / order.interval) if order.is_random else order.interval
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await client.one(number)
        returns.append(time.time())
    return {"returns": returns}


async def work(client: Client, order: Order, tally: Tally) -> dict[str, Any]:
    """A worker beside a thread that watches it."""
    board = Board(order.board, order.process, order.processes)
    client.left()  # connects
    _await_all(board, order.patience)
    stop, is_over = asyncio.Event(), threading.Event()
    worker = asyncio.create_task(client.work(tally, stop))
    watcher = asyncio.create_task(asyncio.to_thread(_watch, client, order, tally, board, is_over))
    try:
        # A worker has no reason to end by itself: if it does, its error is the answer.
        await asyncio.wait({worker, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if worker.done():
            await worker
            raise RuntimeError("the worker ended by itself")
        stop.set()
        await worker
    finally:
        is_over.set()
    ended_at, left = await watcher
    # After the worker's end, so that a job that ran once too often is counted, too.
    return {
        "handled": tally.handled,
        "sum": tally.total,
        "began_at": tally.began_at,
        "ended_at": ended_at,
        "left": left,
    }


def _await_all(board: Board, patience: float) -> None:
    board.post(0)
    deadline = time.monotonic() + patience
    while board.total() is None:
        if time.monotonic() > deadline:
            raise TimeoutError("the other processes did not start")
        time.sleep(0.005)


def _watch(
    client: Client, order: Order, tally: Tally, board: Board, is_over: threading.Event
) -> tuple[float | None, int]:
    """When the store was empty, or None and what is left if nothing happens any more."""
    seen, changed = -1, time.monotonic()
    while not is_over.wait(TICK_SECONDS):
        board.post(tally.handled)
        total = board.total() or 0
        if total != seen:
            seen, changed = total, time.monotonic()
        if total >= order.jobs and client.left() == 0:
            return time.time(), 0
        if time.monotonic() - changed > order.patience:
            break
    return None, client.left()


VERBS: dict[str, Callable[[Client, Order], Coroutine[Any, Any, dict[str, Any]]]] = {
    "setup": setup,
    "enqueue_one": enqueue_one,
    "enqueue_bulk": enqueue_bulk,
    "fill": enqueue_bulk,
    "drain": drain,
    "latency": latency,
    "trickle": trickle,
}


@asynccontextmanager
async def postgres_count(dsn: str, query: str) -> AsyncIterator[Callable[[], int]]:
    """A function that runs one counting query over a connection of its own, made at its first call."""
    import psycopg

    connection: psycopg.Connection[Any] | None = None

    def count() -> int:
        nonlocal connection
        if connection is None:
            connection = psycopg.connect(dsn, autocommit=True)
        return int(connection.execute(query).fetchone()[0])  # type: ignore[index]

    try:
        yield count
    finally:
        if connection is not None:
            connection.close()
