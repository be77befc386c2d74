"""The messages between an instance and its child processes: JSON, each after its length.

    to the child      init   once: database, log level, limits, the main script
                      run    a job: its lease, the address of its handler, its following phase
                      stop   the job should stop
    to the instance   ready     after init
                      begun     the handler is about to be called: from here on a death counts as a crash of the job
                      touch     progress of the job
                      recorded  a transaction of the handler ended the job
                      awaits commit  the job's end is in a transaction that the handler commits itself
                      duplicate an output of the job existed already
                      token     a raw token that the job was given; it is removed from all that is recorded
                      ended     how the job ended

Never pickle: messages of a child are only data, whatever a handler did to the child.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from windlass.model import Flag, Json, Lease

LARGEST = 2**30
Message = dict[str, Any]
_LENGTH = struct.Struct("!I")


def pack(message: Mapping[str, Any]) -> bytes:
    """Return a message as bytes: ASCII, so that text with lone surrogates passes."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Splits a stream of bytes into messages; ``ValueError`` for invalid bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer)
            if length > LARGEST:
                raise ValueError(f"a message of {length} bytes")
            end = _LENGTH.size + length
            if len(buffer) < end:
                return
            message = json.loads(buffer[_LENGTH.size : end])
            del buffer[:end]
            if not isinstance(message, dict):
                raise ValueError("a message that is not an object")
            yield message


def lease_facts(lease: Lease) -> Message:
    """Return a lease as JSON."""
    return {
        "id": lease.id,
        "token": lease.token,
        "kind": lease.kind,
        "phase": lease.phase,
        "priority": lease.priority,
        "generation": lease.generation,
        "attempt": lease.attempt,
        "max_attempts": lease.max_attempts,
        "crashes": lease.crashes,
        "flags": int(lease.flags),
        "args_json": lease.args_json,
        "correlation_id": lease.correlation_id,
        "created_at": lease.created_at.isoformat(),
        "ready_at": lease.ready_at.isoformat(),
        "claimed_at": lease.claimed_at.isoformat(),
    }


def to_lease(facts: Message) -> Lease:
    """Return the lease that ``lease_facts`` described."""
    moments = {name: datetime.fromisoformat(facts[name]) for name in ("created_at", "ready_at", "claimed_at")}
    return Lease(**{**facts, **moments, "flags": Flag(facts["flags"]), "args_json": Json(facts["args_json"])})
