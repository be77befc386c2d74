"""Server-sent events as bytes (HTML, section 9.2)."""

from __future__ import annotations

from typing import NamedTuple

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 2000\n\n"
"""How long a client waits before it connects again, in milliseconds; sent first."""


class Message(NamedTuple):
    """One event: its name, its data (JSON without line breaks), and where a stream that was cut continues."""

    event: str
    data: str
    position: str


def encoded(event: str, data: str, event_id: str | None = None) -> bytes:
    """The bytes of one event."""
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {event}\ndata: {data}\n\n".encode()
