"""With default settings a phase runs ten jobs at once, whatever its handlers do: the eleventh never starts beside ten."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.settings import PROCESSORS


class Running:
    """Counts the handlers that run."""

    def __init__(self) -> None:
        self.now = self.most = self.ended = 0
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= 1
                self.ended += 1


@pytest.mark.parametrize("how", ["async", "plain"])
def test_the_eleventh_handler_never_starts_beside_ten(shop: Shop, how: str) -> None:
    """No-op jobs first, so that jobs are claimed ahead; then ten that wait, with no-op and waiting jobs behind them."""
    running, gate = Running(), threading.Event()

    async def on_loop(waits: bool) -> None:
        with running.one():
            if waits:
                await asyncio.to_thread(gate.wait, PATIENCE)

    def in_thread(waits: bool) -> None:
        with running.one():
            if waits:
                gate.wait(PATIENCE)

    work = shop.app.job(name="work")(on_loop if how == "async" else in_thread)

    @shop.app.job
    async def other() -> None: ...

    work.enqueue_many({"waits": False} for _ in range(500))
    engine = shop.serve(scan_unheard=0.05)
    shop.drained(engine)
    work.enqueue_many({"waits": True} for _ in range(PROCESSORS))
    shop.until(lambda: running.now == PROCESSORS)
    work.enqueue_many({"waits": bool(n % 2)} for n in range(60))
    for _ in range(20):  # steps that could claim and start more
        other.enqueue().result(PATIENCE)
    assert (running.now, running.ended) == (PROCESSORS, 500)
    gate.set()
    shop.drained(engine)
    assert (running.most, running.ended) == (PROCESSORS, 500 + PROCESSORS + 60)
