"""A request of the client, and what all of them are made of."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, NoReturn, TypeVar
from urllib.parse import quote

from windlass.arguments.encoding import encode
from windlass.arguments.limits import LARGEST

T = TypeVar("T")
Seconds = float | timedelta
AnyFilter = str | None
"""A filter as a text; of a ``Filter`` it is ``str(filter)``."""


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """A request, and how to read its response. ``may_repeat`` says that sending it twice has the effect of sending it once."""

    method: str
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    """Seconds that the server may wait before it responds."""

    @property
    def may_repeat(self) -> bool:
        return self.method == "GET" or "Idempotency-Key" in self.headers


def no_stream(_: Any) -> NoReturn:
    raise ValueError("no stream of events")


class Stream(Generic[T]):
    """A stream of events: the request, the lines of its response, and where it continues after a cut (HTML, section 9.2)."""

    def __init__(self, path: str, read: Callable[[Any, int], T], *, last_id: str | None = None) -> None:
        self._path, self._read, self._last_id = path, read, last_id
        self._event: dict[str, str] = {}
        self._count = 0
        self.is_over = False

    def ask(self) -> Ask[NoReturn]:
        """The request for what is left."""
        self._event = {}
        headers = {"Accept": "text/event-stream"}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        return Ask("GET", self._path, no_stream, headers=headers)

    def line(self, text: str) -> T | None:
        """The event that a line ends, if it does."""
        if text:
            name, _, value = text.partition(":")
            self._event[name] = value.removeprefix(" ")
            return None
        event, self._event = self._event, {}
        if "data" not in event or event.get("event") == "reset":
            return None
        self._last_id = event.get("id", self._last_id)
        self._count += 1
        record = json.loads(event["data"])
        self.is_over = bool(record.get("is_last"))
        return self._read(record, self._count)


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def text(only: AnyFilter) -> str:
    """A filter as the query of an address has it."""
    return "" if only is None else str(only)


def seconds(value: Seconds | None) -> float | None:
    """A span of time as JSON has it."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def moment(value: datetime | None) -> str | None:
    """A time as the query of an address has it."""
    return None if value is None else value.isoformat()


def post(path: str, body: Mapping[str, Any], read: Callable[[Any], T], *, wait: float = 0.0) -> Ask[T]:
    """A request that changes something; the server is asked to wait for ``wait`` seconds."""
    headers = {"Prefer": f"wait={math.ceil(wait)}"} if wait else {}
    return Ask("POST", path, read, body=as_json(body), headers=headers, wait=wait)


def as_json(body: Any) -> str:
    """The JSON of a body: dates, UUIDs and models as the library writes them; ``PayloadError`` for what JSON cannot hold."""
    return encode(body, what="request", limits=LARGEST)


def name_of(name: str) -> str:
    """A name that may have slashes, as the end of a path."""
    return quote(name, safe="/") or "-"


def part(name: str) -> str:
    """A name as one part of a path."""
    return quote(str(name), safe="") if name not in ("", ".", "..") else "-"


def no_result(found: Any) -> None:
    """Reads a response that says nothing."""
