"""The limit: Windlass's own statement, claim and complete with history, in a bare loop on one connection, without anything around."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import psycopg
from protocol import Order, Tally, payload, serve  # type: ignore[import-not-found, unused-ignore]

from windlass.features import open_store
from windlass.model import Json, NewJob, Want
from windlass.store.jobs.claim_columns import claim_columns
from windlass.store.jobs.low_water import LANES
from windlass.store.jobs.outcome_rows import finish_columns
from windlass.store.migrate import migrate
from windlass.store.postgres.transaction import STATEMENTS


class RawClient:
    def __init__(self, order: Order) -> None:
        self._options = order.options
        self._url = order.store
        migrate(self._url)
        self._store = open_store(self._url)

    async def setup(self) -> None:
        self._store.upkeep.maintain()

    async def one(self, number: int) -> None:
        self._store.enqueue([_job(number)])

    async def many(self, numbers: Sequence[int]) -> None:
        self._store.enqueue([_job(number) for number in numbers])

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        await asyncio.to_thread(self._loop, tally)
        await stop.wait()

    def _loop(self, tally: Tally) -> None:
        holder = self._store.join()
        text, names = STATEMENTS["step"][0]
        batch = int(self._options["batch_size"])
        marks: list[datetime | None] = [None] * LANES
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SET plan_cache_mode = force_generic_plan")
            connection.execute("SET jit = off")
            ends, held = finish_columns([]), 0
            while True:
                values: dict[str, Any] = {
                    **ends, "instance": holder.id, "expected": held, "aside": 0, "emptied": [],
                    **claim_columns([Want("noop", batch)], marks), "now": None,
                }  # fmt: skip
                rows = connection.execute(
                    text, {name: values[name] for name in names}, prepare=True, binary=True
                ).fetchall()
                claimed = [row for row in rows if row[1] is not None]
                for row in claimed:
                    tally.start(json.loads(row[11])["number"])
                if not claimed and not held:
                    break
                ends |= {
                    "ids": f"{{{','.join([row[1] for row in claimed])}}}",
                    "tokens": f"{{{','.join([str(row[2]) for row in claimed])}}}",
                }
                held = len(claimed)
                if claimed:  # the low-water mark, as the engine has it
                    marks[claimed[-1][5]] = max(row[14] for row in claimed)

    def left(self) -> int:
        counts: Any = self._store.phases.counts().get("noop")
        return counts.queued + counts.processing if counts else 0

    def close(self) -> None:
        self._store.close()


def _job(number: int) -> NewJob:
    return NewJob(kind="noop", args=Json(json.dumps(payload(number))))


@asynccontextmanager
async def connect(order: Order) -> AsyncIterator[RawClient]:
    client = RawClient(order)
    try:
        yield client
    finally:
        client.close()


if __name__ == "__main__":
    serve(connect)
