"""The effect transactions that this process has open on one SQLite file, and the writes that would wait for one of them forever.

SQLite has one write lock for a file, and an effect transaction holds it until the handler leaves its block. Other writers wait for that.
Two waits never end, so they are refused at once: a write of the handler inside its own block, and a write that blocks the event loop on
which another coroutine has such a block open, because that block cannot be left while the loop is blocked. The first is detected by the
context of the caller, which tasks and ``asyncio.to_thread`` inherit; the second by the loop that runs in the caller's thread.
"""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

from windlass import forking
from windlass.errors import StoreError


class OpenEffect:
    """One effect transaction: the job it belongs to, the event loop its handler runs on, and the thread that executes its statements."""

    __slots__ = ("is_open", "job_id", "loop", "thread")

    def __init__(self, job_id: str, loop: asyncio.AbstractEventLoop | None) -> None:
        self.job_id = job_id
        self.loop = loop
        self.thread: int | None = None
        self.is_open = True


_own: ContextVar[tuple[OpenEffect, ...]] = ContextVar("windlass_open_effects", default=())
"""The transactions of the handler that runs in this context."""


class OpenEffects:
    """The open effect transactions on one file. ``begin`` is called where the handler's code runs; on a loop before anything waits for the lock."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.all: set[OpenEffect] = set()
        """Empty while no effect transaction is open: a write that checks it pays nothing."""
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Forget the transactions of the parent, which are open there."""
        self.all = set()

    def begin(self, job_id: str, *, blocks: bool) -> OpenEffect:
        """Note a transaction that is about to begin; ``blocks`` where the thread of the caller waits for it."""
        self.refuse(blocks=blocks)
        effect = OpenEffect(job_id, _running_loop())
        _own.set((*(one for one in _own.get() if one.is_open), effect))
        self.all.add(effect)
        return effect

    def end(self, effect: OpenEffect) -> None:
        effect.is_open = False
        self.all.discard(effect)

    def refuse(self, *, blocks: bool) -> None:
        """Raise if a write of the caller would wait for a transaction that cannot end meanwhile."""
        others = self.all.copy()
        if not others:
            return
        own, thread = _own.get(), threading.get_ident()
        for effect in others:
            if effect in own or (blocks and effect.thread == thread):
                raise StoreError(
                    f"{self._path}: job {effect.job_id} has a transaction open here, which holds the file's one write lock; "
                    "this call would wait for it without end. Do it through that transaction (kind.enqueue_in(tx, …), "
                    "tx.enqueue, tx.put_output, tx.checkpoint), or after its block. Nothing was stored"
                )
        loop = _running_loop() if blocks else None
        if loop is None:
            return
        for effect in others:
            if effect.loop is loop:
                raise StoreError(
                    f"{self._path}: job {effect.job_id}, which runs on this event loop, has a transaction open, and this call "
                    "would block the loop, so that the transaction could not end. In a coroutine use the forms that do not block: "
                    "await kind.enqueue_async(…), async with ctx.transaction(), async for chunk in ctx.chunks(…), "
                    "await ctx.checkpoint_async(…). Nothing was stored"
                )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
