"""The responses of a stream, for the OpenAPI document: the schema is that of one event."""

from __future__ import annotations

from typing import Any

from windlass.api.records.events import JobEventRecord, PhaseEventRecord, ResetRecord, SampleRecord
from windlass.api.records.record import Record
from windlass.api.streams.encoding import MEDIA_TYPE

EVENTS: dict[str, type[Record]] = {
    "job": JobEventRecord,
    "phase": PhaseEventRecord,
    "overview": SampleRecord,
    "reset": ResetRecord,
}
"""The records that are the data of events, by the names of events."""


def streamed(*names: str) -> dict[int | str, dict[str, Any]]:
    """The responses of a stream of these events."""
    return {
        200: {
            "description": "Server-sent events. Comments every 15 s show that the stream lives.",
            "content": {MEDIA_TYPE: {"schema": {"oneOf": [_event(name) for name in names]}}},
        },
        204: {
            "description": "There is nothing left to stream: the job has ended, and the client has all of its events."
        },
    }


def _event(name: str) -> dict[str, Any]:
    data = {"$ref": f"#/components/schemas/{EVENTS[name].__name__}"}
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "event": {"const": name},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
        },
        "required": ["event", "data"],
    }
