"""The chunk loop: a long job in slices, each committed by itself, resumed at the last one after a crash.

    for chunk in ctx.chunks(total=count(), size=1000):       # numbered: chunk.offset, chunk.limit
        with chunk as tx:                                    # effects, checkpoint and progress: one commit
            write(tx.connection, fetch(chunk.offset, chunk.limit))

    for chunk in ctx.chunks(size=1000):                      # keyset: chunk.after, total unknown
        with chunk:
            rows = fetch_after(chunk.after, chunk.limit)
            chunk.reached(rows[-1].id if rows else None, count=len(rows))   # None: that was the last one

The transaction is begun when ``tx`` is first used. A chunk whose effect is elsewhere (a file, another system's API) never uses it: then the
checkpoint is saved after the effect, and a crash between the two repeats that one chunk.

A chunk that raises is rolled back and comes again by its own retry policy (three tries with waits of 1 and 2 seconds between them, unless said otherwise);
after the last try, or when the policy wants no further one, the exception is the job's. Between chunks the loop checks whether the job should stop. In async handlers it is
``async for`` and ``async with``, and ``await tx.execute(...)``.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from windlass.arguments.asyncness import is_async, is_on_a_loop
from windlass.arguments.json_checks import explain
from windlass.errors import ConfigError, LeaseLost, NotAllowedError, StoreError, WindlassError
from windlass.handlers.chunk_host import ChunkHost
from windlass.handlers.chunk_transaction import ChunkTransaction
from windlass.handlers.own_thread import OwnThread
from windlass.model import Lease, Progress, wrap_position
from windlass.model.retry import RetryPolicy, next_delay, why_stopped
from windlass.model.signals import STOPPED, Fail, Signal, Stopped
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.ranges import is_whole

SKIPPED = "skipped:"


@dataclass(slots=True)
class _State:
    """The position of the loop; ``done`` is the number of records behind it."""

    number: int = 0
    done: int = 0
    after: Any = None
    is_last: bool = False
    skipped: int = 0


class Chunks:
    """See ``Context.chunks``. One loop per attempt; iterate it once."""

    def __init__(
        self,
        host: ChunkHost,
        *,
        total: int | None,
        size: int,
        retry: RetryPolicy,
        skip_limit: int,
        cleanup: Callable[[], Any] | None,
    ) -> None:
        if not is_whole(size, 1):
            raise ConfigError("size", size, "a whole number of 1 or more records a chunk")
        if total is not None and not is_whole(total, 0):
            raise ConfigError("total", total, "a whole number from 0, or None where it is not known")
        if not is_whole(skip_limit, 0):
            raise ConfigError("skip_limit", skip_limit, "a whole number from 0")
        self._host = host
        self._size = size
        self._retry = retry
        self._skip_limit = skip_limit
        self._cleanup = cleanup
        self._is_clean = cleanup is None
        self.total = total
        self._state = _State()
        self._began = time.monotonic()
        self._first = 0
        self.thread = OwnThread()

    # ------------------------------------------------------------------ sync and async

    def __iter__(self) -> Iterator[Chunk]:
        if is_async(self._cleanup):
            raise ConfigError("cleanup", self._cleanup, "a plain function, in a plain handler")
        self._refuse_on_a_loop()
        self._resume()
        try:
            while (chunk := self._next()) is not None:
                while True:
                    self._edge()
                    yield chunk
                    if chunk.is_done:
                        break
                    self._host.sleep(chunk.again_after(self._host.lease))
                    chunk = chunk.again()
                self._passed(chunk)
            self._edge()
        except Stopped:
            self.clean_up()
            raise

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        await asyncio.to_thread(self._resume)
        try:
            while (chunk := self._next()) is not None:
                while True:
                    self._edge()
                    yield chunk
                    if chunk.is_done:
                        break
                    await self._host.sleep_async(chunk.again_after(self._host.lease))
                    chunk = chunk.again()
                self._passed(chunk)
            self._edge()
        except STOPPED:
            await self.clean_up_async()
            raise
        finally:
            self.thread.dismiss()

    def _refuse_on_a_loop(self) -> None:
        """Refuse the sync form on an event loop: it would block other coroutines, and transactions they have open."""
        if self._host.is_async and is_on_a_loop():
            raise WindlassError(
                f"job {self._host.lease.id} has a coroutine as its handler, and `for chunk in ctx.chunks(…)` would block the event loop; "
                "write `async for chunk in ctx.chunks(…)` and `async with chunk as tx`, and `await tx.execute(…)`"
            )

    def _edge(self) -> None:
        """Between two chunks: stop here if the job should."""
        self._host.alive()
        self._host.check_stop()

    def clean_up(self) -> Any:
        """Call the handler's own clean-up, once; returns its result."""
        if self._is_clean or self._cleanup is None:
            return None
        self._is_clean = True
        return self._cleanup()

    async def clean_up_async(self) -> None:
        """Call the handler's own clean-up, once; it may be a coroutine function."""
        if inspect.isawaitable(result := self.clean_up()):
            await result

    def _resume(self) -> None:
        if self._host.has_loop:
            raise WindlassError(
                f"job {self._host.lease.id} is in its second loop of chunks, which would go on where the first one ended; "
                "a phase has one: make the other a phase of its own (app.pipeline)"
            )
        self._host.has_loop = True
        saved = self._host.resume()
        state = self._state
        if saved is not None:
            state.number, state.after, state.is_last = _place(saved)
            state.done = saved.done
            least = max(saved.done, saved.total or 0)
            if self.total is not None and self.total < least:
                raise ConfigError(
                    "total",
                    self.total,
                    f"at least {least}, as it was ({saved.done} are done); a total may grow, not shrink",
                )
        if self._skip_limit:
            state.skipped = sum(
                len(output.value)
                for output in self._host.outputs()
                if output.phase == self._host.lease.phase and output.name.startswith(SKIPPED)
            )
        self._first = state.done

    def _next(self) -> Chunk | None:
        state = self._state
        if self.total is None:
            return None if state.is_last else Chunk(self, state.number, state.done, self._size, state.after)
        left = self.total - state.done
        return Chunk(self, state.number, state.done, min(self._size, left), None) if left > 0 else None

    def _passed(self, chunk: Chunk) -> None:
        state = self._state
        state.number += 1
        state.done = chunk.offset + chunk.count
        state.after = chunk.reaches
        state.is_last = chunk.is_last
        state.skipped += len(chunk.skipped)

    # ------------------------------------------------------------------ what a chunk asks for

    def position(self, chunk: Chunk) -> Any:
        """The position that is saved with a chunk: where the next one begins, and the rate, for people."""
        done = chunk.offset + chunk.count
        spent = time.monotonic() - self._began
        rate = round((done - self._first) / spent, 3) if spent > 0 and done > self._first else None
        after = chunk.reaches if self.total is None else None
        return wrap_position(after, chunk=chunk.number + 1, rate=rate, last=chunk.is_last or None)

    def may_skip(self, chunk: Chunk) -> None:
        """Refuse one more bad record than allowed."""
        if self._state.skipped + len(chunk.skipped) > self._skip_limit:
            raise Fail(
                "too_many_skipped",
                f"more than {self._skip_limit} records were skipped; the last one: {chunk.skipped[-1]['reason']}",
            )


def _place(saved: Progress) -> tuple[int, Any, bool]:
    """Number and place of the next chunk, and whether there is none. Earlier releases had them in the position itself, beside nothing else;
    any other position is the handler's own."""
    if saved.chunk is None and isinstance(saved.position, dict):
        old = saved.position
        if type(old.get("chunk")) is int and old.keys() <= {"chunk", "after", "last", "rate"}:
            return old["chunk"], old.get("after"), bool(old.get("last", False))
    return saved.chunk or 0, saved.position if saved.chunk else None, saved.is_last


class Chunk:
    """One slice: records ``offset`` to ``offset + limit``, or up to ``limit`` records after ``after``."""

    def __init__(
        self, chunks: Chunks, number: int, offset: int, limit: int, after: Any, *, attempt: int = 1
    ) -> None:
        self._chunks = chunks
        self.number = number
        self.offset = offset
        self.limit = limit
        self.after = after
        self.attempt = attempt
        self.count = limit if chunks.total is not None else 0
        self.reaches: Any = after
        self.is_last = False
        self.skipped: list[dict[str, Any]] = []
        self.is_done = False
        self._has_reached = chunks.total is not None
        self._error: BaseException | None = None
        self._delay = 0.0
        self._tx: ChunkTransaction | None = None

    def reached(self, after: Any, *, count: int) -> None:
        """Report how far a keyset chunk came: the next chunk begins after the key ``after``, and this one had ``count`` records. None: it was the last."""
        if self._chunks.total is not None:
            raise WindlassError(
                "a numbered chunk knows its place; chunk.reached() is for loops without a total"
            )
        if not is_whole(count, 0):
            raise ConfigError("count", count, "how many records the chunk had, from 0")
        self.reaches, self.count, self.is_last, self._has_reached = after, count, after is None, True

    def skip(self, record: Any, reason: str) -> None:
        """Leave out a bad record; it is kept with its reason among the job's outputs. More than ``skip_limit`` fail the job."""
        self.skipped.append({"record": record, "reason": str(reason)})
        self._chunks.may_skip(self)

    def again(self) -> Chunk:
        """A new chunk for the same slice, for the next try."""
        return Chunk(self._chunks, self.number, self.offset, self.limit, self.after, attempt=self.attempt + 1)

    def again_after(self, lease: Lease) -> float:
        """How long to wait before this chunk comes again."""
        if self._error is None:
            raise WindlassError(
                f"chunk {self.number} of job {lease.id} was not used; write `with chunk as tx:` in the loop's body"
            )
        emit(
            events.CHUNK_RETRIED,
            self.attempt,
            self._chunks._retry.attempts,
            lease=lease,
            chunk=self.number,
            reason=explain(self._error),
            delay_seconds=self._delay,
            exc_info=self._error,
        )
        return self._delay

    # ------------------------------------------------------------------ sync handlers

    def _reached(self, point: str) -> None:
        if (probe := self._chunks._host.probe) is not None:
            probe(point, self.number)

    def __enter__(self) -> ChunkTransaction:
        self._reached("chunk.begin")
        self._tx = ChunkTransaction(self._chunks._host.transaction(ends=False))
        return self._tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._tx is not None
        if error is not None:
            self._tx.roll_back(error)
            if isinstance(error, STOPPED):
                self._chunks.clean_up()
            return self._is_tried_again(error)
        self._commit(self._tx)
        self.is_done = True
        return False

    def _commit(self, tx: ChunkTransaction) -> None:
        try:
            self._require_reached()
            self._reached("chunk.commit")
        except BaseException as error:
            tx.roll_back(error)
            raise
        self._save(tx)
        self._reached("chunk.committed")

    def _save(self, tx: ChunkTransaction) -> None:
        host = self._chunks._host
        done, total, position = self.offset + self.count, self._chunks.total, self._chunks.position(self)
        if not tx.is_open and not self.skipped:
            host.save(position, done, total)
            return
        with tx.opened() as open_tx:
            if self.skipped:
                open_tx.put_output(f"{SKIPPED}{self.number}", self.skipped)
            # a chunk of a keyset may have no record: the last one, where the number of records is a multiple of the size
            open_tx.checkpoint(position, done=done, total=total, must_go_on=self.count > 0)

    def _require_reached(self) -> None:
        if not self._has_reached:
            raise WindlassError(
                "a chunk without a total must say how far it came: chunk.reached(last key or None, count=…)"
            )

    def _is_tried_again(self, error: BaseException) -> bool:
        """Whether an error is the chunk's own business; signals, lost leases, missing rights and a database that is
        away are not."""
        if not isinstance(error, Exception) or isinstance(
            error, Signal | LeaseLost | NotAllowedError | StoreError
        ):
            return False
        retry = self._chunks._retry
        if self.attempt >= retry.attempts:
            return False
        delay = next_delay(retry, self.attempt, error)
        if delay is None:
            error.add_note(f"chunk {self.number} was {why_stopped(retry, error)}")
            return False
        self._error, self._delay = error, delay.total_seconds()
        return True

    # ------------------------------------------------------------------ async handlers

    async def __aenter__(self) -> ChunkTransaction:
        self._reached("chunk.begin")
        self._tx = ChunkTransaction(self._chunks._host.transaction(ends=False), self._chunks.thread)
        return self._tx

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        tx = self._tx
        assert tx is not None
        try:
            if error is not None:
                await tx.run_here(tx.roll_back, error)
                if isinstance(error, STOPPED):
                    await self._chunks.clean_up_async()
                return self._is_tried_again(error)
            await tx.run_here(self._commit, tx)
            self.is_done = True
            return False
        except asyncio.CancelledError:  # cancelled in the middle of the commit, which goes on
            await tx.run_here(_nothing)  # on the same thread: after it
            await self._chunks.clean_up_async()
            raise


def _nothing() -> None: ...
