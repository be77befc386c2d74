"""PgQueuer at its best setting: asyncpg, one connection, uvloop, large batches, no limit of concurrency."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-not-found, unused-ignore]
import uvloop  # type: ignore[import-not-found, unused-ignore]
from pgqueuer import PgQueuer  # type: ignore[import-not-found, unused-ignore]
from protocol import Order, Tally, payload, postgres_count, serve  # type: ignore[import-not-found, unused-ignore]


class PgQueuerClient:
    def __init__(self, queuer: Any, options: dict[str, Any], left: Callable[[], int]) -> None:
        self._queuer, self._options = queuer, options
        self._queries = queuer.qm.queries
        self.left = left

    async def setup(self) -> None:
        await self._queries.install()

    async def one(self, number: int) -> None:
        await self._queries.enqueue("noop", json.dumps(payload(number)).encode())

    async def many(self, numbers: Sequence[int]) -> None:
        payloads = [json.dumps(payload(number)).encode() for number in numbers]
        await self._queries.enqueue(["noop"] * len(payloads), payloads, [0] * len(payloads))

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        manager = self._queuer.qm

        @manager.entrypoint("noop")
        async def noop(job: Any) -> None:
            tally.start(json.loads(job.payload)["number"])
            if tally.rest:
                await asyncio.sleep(tally.rest)

        worker = asyncio.create_task(manager.run(batch_size=self._options["batch_size"]))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({worker, stopped}, return_when=asyncio.FIRST_COMPLETED)
        manager.shutdown.set()
        stopped.cancel()
        await worker


@asynccontextmanager
async def connect(order: Order) -> AsyncIterator[PgQueuerClient]:
    connection = await asyncpg.connect(order.store)
    try:
        # A job is deleted when it is done; what was logged of it lies in another table.
        async with postgres_count(order.store, "SELECT count(*) FROM pgqueuer") as left:
            queuer = PgQueuer.from_asyncpg_connection(connection)
            yield PgQueuerClient(queuer, order.options, left)
    finally:
        await connection.close()


if __name__ == "__main__":
    serve(connect, uvloop.run)
