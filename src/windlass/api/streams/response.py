"""The response that a stream is: it sends events, heartbeats while there are none, and ends with its client, its server, its events or its credentials."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.api.streams.encoding import HEARTBEAT, MEDIA_TYPE, RETRY
from windlass.api.streams.open_streams import OpenStream, OpenStreams
from windlass.observe.logger import get_logger

log = get_logger("windlass.api")
HEARTBEAT_EVERY = 15.0
PATIENCE = 20.0
"""Seconds that a client has to read what it was sent; a slower one is dropped, and continues with its last id."""

SPREAD = 0.0002
"""Seconds for each open stream over which the events of one moment are sent. Sent at once, the events of 1,000 streams would hold all requests up."""
CHECKS_EVERY = 2.5
"""Seconds between two checks that the credentials of a stream are still accepted. A check may use a read as old: a token is read once in that time,
for however many streams, and a stream ends within twice that time."""
SLOTS = 10
"""In how many moments of that time checks are made."""


class EventStream(Response):
    """Streams events to one client."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        events: AsyncIterator[bytes],
        first: bytes,
        stream: OpenStream,
        streams: OpenStreams,
        is_accepted: Callable[[float], Awaitable[bool]],
        *,
        heartbeat: float = HEARTBEAT_EVERY,
        patience: float = PATIENCE,
        checks_every: float | None = None,
    ) -> None:
        super().__init__(
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Encoding": "identity"}
        )
        del self.headers["content-length"]
        self._events, self._first = events, first
        self._stream, self._streams = stream, streams
        self._is_accepted = is_accepted
        self._heartbeat, self._patience = heartbeat, patience
        self._checks_every = CHECKS_EVERY if checks_every is None else checks_every

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_gone(receive))
        over = asyncio.create_task(self._stream.over.wait())
        refused = asyncio.create_task(self._refused())
        try:
            async with asyncio.timeout(self._patience):
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send(send, RETRY + self._first)
            await self._follow(send, {gone, over, refused})
            if not gone.done():
                await self._send(send, b"", is_last=True)
        except TimeoutError:
            log.info("a client read its stream too slowly, and was dropped")
        finally:
            self._streams.close(self._stream)
            for task in (gone, over, refused):
                task.cancel()
            await asyncio.gather(gone, over, refused, return_exceptions=True)
            await self._close()

    async def _follow(self, send: Send, ends: set[asyncio.Task[object]]) -> None:
        """Send events until there are none left, or one of ``ends`` is done."""
        pending = asyncio.ensure_future(anext(self._events, None))
        try:
            while True:
                done, _ = await asyncio.wait(
                    {pending, *ends}, timeout=self._heartbeat, return_when=asyncio.FIRST_COMPLETED
                )
                if done & ends:
                    return
                if not done:
                    await self._send(send, HEARTBEAT)
                    continue
                chunk = pending.result()
                if chunk is None:
                    return
                await asyncio.sleep(random.random() * SPREAD * len(self._streams))
                await self._send(send, chunk)
                pending = asyncio.ensure_future(anext(self._events, None))
        finally:
            pending.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await pending

    async def _refused(self) -> None:
        """Wait until the credentials of the stream are no longer accepted."""
        while await self._is_accepted(self._checks_every):
            now, slot = asyncio.get_running_loop().time(), self._checks_every / SLOTS
            await asyncio.sleep((now + self._checks_every) // slot * slot - now)
        log.info("a stream ends: its credentials are no longer accepted")

    async def _send(self, send: Send, chunk: bytes, *, is_last: bool = False) -> None:
        async with asyncio.timeout(self._patience):
            await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})

    async def _close(self) -> None:
        closing = getattr(self._events, "aclose", None)
        if closing is not None:
            await closing()


async def _gone(receive: Receive) -> None:
    """Wait until the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
