"""Clients of a server over plain sockets, which cost as little as a client can: each sends its next request when the response came."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

_HEAD = re.compile(rb"HTTP/1\.1 (\d+)[^\r]*\r\n(.*?)\r\n\r\n", re.DOTALL)
PATIENCE = 30.0
"""Seconds that responses may take when the time is over."""
_LENGTH = re.compile(rb"(?:^|\r\n)content-length: *(\d+)", re.IGNORECASE)


def request(
    method: str, path: str, body: bytes = b"", *, token: str | None = None, headers: str = ""
) -> bytes:
    """The bytes of a request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}"
    if token is not None:
        head += f"Authorization: Bearer {token}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


@dataclass
class Load:
    """What clients measured: seconds of each request, and how many responses had each status."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    """Requests whose connection broke."""

    @property
    def failed(self) -> int:
        """Requests without a response, or with a refusal."""
        return self.lost + sum(count for status, count in self.statuses.items() if status >= 400)


class Client(asyncio.Protocol):
    """One connection: requests one after the other until the time is over. Responses have a Content-Length."""

    def __init__(self, load: Load, make: Callable[[], bytes], ends_at: float) -> None:
        self._load, self._make, self._ends_at = load, make, ends_at
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = _HEAD.match(self._buffer)
        if head is None:
            return
        length = _LENGTH.search(head[2])
        if len(self._buffer) < head.end() + (int(length[1]) if length else 0):
            return
        self._load.seconds.append(time.perf_counter() - self._began)
        self._load.statuses[int(head[1])] += 1
        self._buffer = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self._load.lost += 1
            self.over.set_result(None)

    def _next(self) -> None:
        self._began = time.perf_counter()
        if self._began >= self._ends_at:
            self.over.set_result(None)
            self._transport.close()
        else:
            self._transport.write(self._make())


async def load(port: int, clients: int, seconds: float, make: Callable[[], bytes]) -> Load:
    """Have so many clients send requests that ``make`` makes for so many seconds."""
    found = Load()
    ends_at = time.perf_counter() + seconds
    loop = asyncio.get_running_loop()
    made = [
        (await loop.create_connection(lambda: Client(found, make, ends_at), "127.0.0.1", port))[1]
        for _ in range(clients)
    ]
    async with asyncio.timeout(seconds + PATIENCE):
        await asyncio.gather(*(one.over for one in made))
    return found
