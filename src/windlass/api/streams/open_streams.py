"""The streams that a server has open: how many each caller has, and their end when the server stops."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from windlass.api.access.caller import Caller
from windlass.api.middleware.places import Places
from windlass.api.problems.problem import ProblemError


class OpenStream:
    """One open stream; ``over`` is set when it has to end."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.over = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """End it, from any thread."""
        with suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self.over.set)


class OpenStreams:
    """All open streams of one server."""

    def __init__(self, most: int) -> None:
        self.places = Places(most, "too-many-streams")
        self._lock = threading.Lock()
        self._open: set[OpenStream] = set()
        self._is_over = False

    def __len__(self) -> int:
        return len(self._open)

    def open(self, caller: Caller) -> OpenStream:
        """A further stream of a caller; a problem if it has too many, or if the server stops."""
        if self._is_over:
            raise ProblemError("stopping")
        self.places.take(caller)
        made = OpenStream(caller)
        with self._lock:
            self._open.add(made)
        return made

    def close(self, stream: OpenStream) -> None:
        """Note that a stream has ended."""
        with self._lock:
            is_known = stream in self._open
            self._open.discard(stream)
        if is_known:
            self.places.free(stream.caller)

    def end(self) -> None:
        """End all streams; no further one is opened. Any thread may call it."""
        with self._lock:
            self._is_over = True
            found = list(self._open)
        for stream in found:
            stream.end()
