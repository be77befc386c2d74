"""Procrastinate: an async task, several at a time, psycopg's pool, woken by LISTEN."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import procrastinate  # type: ignore[import-not-found, unused-ignore]
from protocol import Order, Tally, payload, postgres_count, serve  # type: ignore[import-not-found, unused-ignore]


class ProcrastinateClient:
    def __init__(self, app: Any, options: dict[str, Any], left: Callable[[], int]) -> None:
        self._app, self._options = app, options
        self._tally = Tally()
        self.left = left

        @app.task(name="noop")
        async def noop(number: int, text: str) -> None:
            self._tally.start(number)

        self._task = noop

    async def setup(self) -> None:
        await self._app.schema_manager.apply_schema_async()

    async def one(self, number: int) -> None:
        await self._task.defer_async(**payload(number))

    async def many(self, numbers: Sequence[int]) -> None:
        await self._task.batch_defer_async(*map(payload, numbers))

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        self._tally = tally
        worker = asyncio.create_task(
            self._app.run_worker_async(
                concurrency=self._options["concurrency"], install_signal_handlers=False
            )
        )
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({worker, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not worker.done():
            worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker


@asynccontextmanager
async def connect(order: Order) -> AsyncIterator[ProcrastinateClient]:
    least, most = order.options["pool"]
    connector = procrastinate.PsycopgConnector(conninfo=order.store, min_size=least, max_size=most)
    unfinished = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    app = procrastinate.App(connector=connector)
    async with app.open_async(), postgres_count(order.store, unfinished) as left:
        yield ProcrastinateClient(app, order.options, left)


if __name__ == "__main__":
    serve(connect)
