"""``ctx.transaction()`` in a coroutine that is told to stop at a bad moment."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Self, cast

import pytest

from tests.waiting import PATIENCE, eventually
from windlass.errors import StoreUnreachableError
from windlass.handlers.transaction import JobTransaction

pytestmark = pytest.mark.timing


class Effect:
    """An effect transaction that takes a while to begin, as one that waits for a lock or a connection."""

    def __init__(self, error: Exception | None = None) -> None:
        self.is_asked, self.may_begin, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.said: list[str] = []
        self._error = error

    def announce(self, *, blocks: bool = False) -> None:
        """Nobody else waits for this one."""

    def __enter__(self) -> Self:
        self.is_asked.set()
        assert self.may_begin.wait(PATIENCE)
        if self._error is not None:
            raise self._error
        self.said.append("begun")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.said.append("committed" if kind is None else f"rolled back: {kind.__name__}")
        self.ended.set()


def transaction(effect: Effect) -> JobTransaction:
    nothing = cast(Any, None)
    return JobTransaction(lambda _: effect, nothing, nothing, ends=False, on_end=lambda _, __: None)


def test_a_coroutine_stopped_while_its_transaction_begins_leaves_none_open() -> None:
    """It would keep a connection, or SQLite's one write lock, for as long as the process lives."""
    effect = Effect()

    async def handler() -> None:
        async with transaction(effect):
            raise AssertionError("it was stopped before")

    async def stop_it() -> None:
        task = asyncio.create_task(handler())
        assert await asyncio.to_thread(effect.is_asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        effect.may_begin.set()

    asyncio.run(stop_it())
    assert effect.ended.wait(PATIENCE)
    assert effect.said == ["begun", "rolled back: CancelledError"]
    _assert_no_thread_is_left()


def test_a_transaction_that_cannot_begin_is_not_ended() -> None:
    effect = Effect(StoreUnreachableError("away"))
    effect.may_begin.set()

    async def handler() -> None:
        async with transaction(effect):
            raise AssertionError("it never began")

    with pytest.raises(StoreUnreachableError):
        asyncio.run(handler())
    _assert_no_thread_is_left()
    assert effect.said == []


def _assert_no_thread_is_left() -> None:
    eventually(
        lambda: not any(thread.name.startswith("windlass-transaction") for thread in threading.enumerate())
    )
