"""Calls a function that blocks for all that wait for it at the same time: one hop to a thread, and one call for each distinct argument.

Each call begins after its callers came: what they get is never older than their question, unless they accept an age.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

K = TypeVar("K")
V = TypeVar("V")
MOST_KEPT = 1000


class Gathered(Generic[K, V]):
    """The async form of a function of one argument. Any event loop may use it."""

    def __init__(self, function: Callable[[K], V], *, now: Callable[[], float] = time.monotonic) -> None:
        self._function = function
        self._now = now
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line[K, V]] = WeakKeyDictionary()
        self._kept: dict[K, tuple[float, V]] = {}

    async def __call__(self, argument: K, age: float = 0.0) -> V:
        """What the function returns for the argument; with ``age`` a call may be as old, in seconds. Errors are not kept."""
        if age and (kept := self._kept.get(argument)) is not None and kept[0] >= self._now() - age:
            return kept[1]
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = _Line()
        future: asyncio.Future[V] = loop.create_future()
        line.waiting.append((argument, future))
        if line.task is None:
            line.task = loop.create_task(self._serve(line))
        return await future

    async def _serve(self, line: _Line[K, V]) -> None:
        """Call for all that wait, until none is left."""
        loop = asyncio.get_running_loop()
        try:
            while batch := line.waiting:
                line.waiting = []
                try:
                    found = await loop.run_in_executor(None, self._each, {argument for argument, _ in batch})
                except RuntimeError as error:  # no thread can be started
                    found = {argument: error for argument, _ in batch}
                for argument, future in batch:
                    if not future.done():
                        _settle(future, found[argument])
        finally:
            line.task = None

    def _each(self, arguments: Collection[K]) -> dict[K, V | Exception]:
        found: dict[K, V | Exception] = {}
        for argument in arguments:
            began = self._now()
            try:
                found[argument] = made = self._function(argument)
            except Exception as error:  # noqa: BLE001  raised where it was asked for
                found[argument] = error
                self._kept.pop(argument, None)
                continue
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[argument] = began, made
        return found


class _Line(Generic[K, V]):
    """The callers of one event loop."""

    __slots__ = ("task", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[K, asyncio.Future[V]]] = []
        self.task: asyncio.Task[None] | None = None


def _settle(future: asyncio.Future[V], result: V | Exception) -> None:
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
