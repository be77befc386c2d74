"""Several topics in one stream, since a browser has few connections for each host.

The id of an event has the positions of all topics, so that a stream that was cut continues on any server. A client that comes back after more
than a minute, or with an id that is not of this stream, gets ``reset``: it forgets what it has, and gets everything anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from windlass.api.records.events import ResetRecord
from windlass.api.streams.encoding import Message, encoded
from windlass.api.streams.topics import Topic

WINDOW = 60.0
"""Seconds after which a stream that was cut begins anew."""
QUEUED = 100
"""Messages that wait for a client; while there are so many, its topics wait. A topic keeps its newest value only."""
SEPARATOR = "~"


def first_positions(topics: Sequence[Topic], last_event_id: str | None) -> tuple[list[str], bool]:
    """The positions that an id has, and whether the stream begins anew although the client has seen a part of it."""
    anew = [""] * len(topics)
    if not last_event_id:
        return anew, False
    sent_at, *positions = last_event_id.split(SEPARATOR)
    is_known = (
        sent_at.isascii() and sent_at.isdigit() and len(sent_at) <= 15 and len(positions) == len(topics)
    )
    if not is_known or abs(time.time() - int(sent_at) / 1000) > WINDOW:
        return anew, True
    return positions, False


async def merged(topics: Sequence[Topic], last_event_id: str | None) -> AsyncIterator[bytes]:
    """The events of all topics as bytes; ends when all topics have ended."""
    positions, is_reset = first_positions(topics, last_event_id)
    if is_reset:
        yield encoded("reset", ResetRecord(topics=[topic.name for topic in topics]).model_dump_json())
    queue: asyncio.Queue[tuple[int, Message | BaseException | None]] = asyncio.Queue(QUEUED)

    async def read(place: int, topic: Topic) -> None:
        try:
            async for message in topic.messages(positions[place] or None):
                await queue.put((place, message))
        except Exception as error:  # noqa: BLE001  raised by the reader of the queue
            await queue.put((place, error))
        else:
            await queue.put((place, None))

    tasks = [asyncio.create_task(read(place, topic)) for place, topic in enumerate(topics)]
    left = len(tasks)
    try:
        while left:
            place, message = await queue.get()
            if message is None:
                left -= 1
                continue
            if isinstance(message, BaseException):
                raise message
            positions[place] = message.position or positions[place]
            event_id = SEPARATOR.join([str(int(time.time() * 1000)), *positions])
            yield encoded(message.event, message.data, event_id)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def single(topic: Topic, after: str | None) -> AsyncIterator[bytes]:
    """The events of one topic as bytes; ids are its positions."""
    async for message in topic.messages(after):
        yield encoded(message.event, message.data, message.position or None)
