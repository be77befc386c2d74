"""huey on SQLite: one thread per process, polling. It takes a job out of the store before it runs it."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from huey import SqliteHuey  # type: ignore[import-not-found, unused-ignore]
from huey.consumer_options import ConsumerConfig  # type: ignore[import-not-found, unused-ignore]
from protocol import Order, Tally, payload, serve  # type: ignore[import-not-found, unused-ignore]


class HueyClient:
    def __init__(self, order: Order) -> None:
        self._options = order.options
        self._tally = Tally()
        self._huey: Any = SqliteHuey(filename=order.store, fsync=order.options["fsync"])
        self._eyes = sqlite3.connect(order.store, check_same_thread=False)

        @self._huey.task(name="noop")
        def noop(number: int, text: str) -> None:
            self._tally.start(number)

        self._task = noop

    async def setup(self) -> None:
        """The constructor has made the tables."""

    async def one(self, number: int) -> None:
        self._task(**payload(number))

    async def many(self, numbers: Sequence[int]) -> None:
        # There is no bulk call.
        for number in numbers:
            self._task(**payload(number))

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        self._tally = tally
        delay = self._options["delay"]
        if self._options["log"]:
            ConsumerConfig(logfile=os.devnull).setup_logger(logging.getLogger("huey"))
        consumer = self._huey.create_consumer(
            workers=1, worker_type="thread", periodic=False, initial_delay=delay, max_delay=delay
        )
        consumer.start()
        await stop.wait()
        consumer.stop(graceful=True)

    def left(self) -> int:
        return int(self._eyes.execute("SELECT count(*) FROM task").fetchone()[0])

    def close(self) -> None:
        self._eyes.close()
        self._huey.storage.close()


@asynccontextmanager
async def connect(order: Order) -> AsyncIterator[HueyClient]:
    client = HueyClient(order)
    try:
        yield client
    finally:
        client.close()


if __name__ == "__main__":
    serve(connect)
