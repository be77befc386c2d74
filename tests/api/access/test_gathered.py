"""Callers that wait at the same time share a call, and what a caller gets is never older than its question."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.waiting import PATIENCE
from windlass.api.access.gathered import Gathered

pytestmark = pytest.mark.one_database


def test_callers_that_come_during_a_call_share_the_next_one() -> None:
    calls: list[str] = []
    has_begun, may_end = threading.Event(), threading.Event()

    def read(name: str) -> tuple[str, int]:
        calls.append(name)
        has_begun.set()
        assert may_end.wait(PATIENCE)
        return name, len(calls)

    async def ask() -> None:
        gathered = Gathered(read)
        first = asyncio.create_task(gathered("a"))
        await asyncio.to_thread(has_begun.wait, PATIENCE)
        later = [asyncio.create_task(gathered(name)) for name in "aabab"]
        gone = asyncio.create_task(gathered("c"))
        await asyncio.sleep(0)
        gone.cancel()
        may_end.set()
        assert await first == ("a", 1)
        found = await asyncio.gather(*later)
        assert all(number > 1 for _, number in found)
        assert [name for name, _ in found] == list("aabab")
        assert await gathered("a") == ("a", len(calls))

    asyncio.run(ask())
    assert calls.count("a") == 3 and calls.count("b") == 1


def test_an_error_is_raised_where_it_was_asked_for() -> None:
    def read(name: str) -> str:
        if name == "bad":
            raise ValueError(name)
        return name

    gathered = Gathered(read)

    async def ask() -> None:
        good, bad = await asyncio.gather(gathered("good"), gathered("bad"), return_exceptions=True)
        assert good == "good" and isinstance(bad, ValueError)

    asyncio.run(ask())
    asyncio.run(ask())  # on another loop
