"""Windlass itself, measured by the same script as its peers, with the settings a worker process has."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from protocol import Order, Tally, payload, serve  # type: ignore[import-not-found, unused-ignore]

from windlass import App
from windlass.engine.tuning import tune_process
from windlass.store.migrate import migrate


class WindlassClient:
    def __init__(self, order: Order) -> None:
        self._options = order.options
        if not order.options.get("uvloop", True):
            sys.modules["uvloop"] = None  # type: ignore[assignment]  # as where it is not installed
        self._url = order.store if "://" in order.store else f"sqlite:///{order.store}"
        migrate(self._url)
        self._app = App(self._url)
        self._tally = Tally()

        @self._app.job(processors=self._options["processors"])
        async def noop(number: int, text: str) -> None:
            self._tally.start(number)
            if self._tally.rest:
                await asyncio.sleep(self._tally.rest)

        self._noop = noop

    async def setup(self) -> None:
        self._app.store.upkeep.maintain()

    async def one(self, number: int) -> None:
        self._noop.enqueue(**payload(number))

    async def many(self, numbers: Sequence[int]) -> None:
        self._noop.enqueue_many(payload(number) for number in numbers)

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        self._tally = tally
        tune_process()
        engine = self._app.worker(page=self._options["batch"])
        engine.start()
        await stop.wait()
        await asyncio.to_thread(engine.stop)

    def left(self) -> int:
        counts: Any = self._app.store.phases.counts().get("noop")
        return counts.queued + counts.processing + counts.scheduled if counts else 0

    def close(self) -> None:
        self._app.close()


@asynccontextmanager
async def connect(order: Order) -> AsyncIterator[WindlassClient]:
    client = WindlassClient(order)
    try:
        yield client
    finally:
        client.close()


if __name__ == "__main__":
    serve(connect)
