"""The value under a lock's key: its worker, its time, and a random token that no other lock has."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Stamp:
    """``{"worker": …, "token": …, "at": …}``"""

    worker: str
    at: datetime
    token: str

    @classmethod
    def of(cls, worker: str, at: datetime) -> Stamp:
        """Make a stamp with a new token."""
        return cls(worker, at, secrets.token_hex(16))

    @property
    def text(self) -> str:
        return json.dumps(
            {"worker": self.worker, "token": self.token, "at": self.at.isoformat(timespec="milliseconds")}
        )


def holder_of(text: str) -> tuple[str | None, datetime | None]:
    """Return worker and time of a stamp; None for parts that cannot be read: other programs may have written the value."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(found, dict):
        return None, None
    worker, at = found.get("worker"), found.get("at")
    try:
        since = datetime.fromisoformat(at) if isinstance(at, str) else None
    except ValueError:
        since = None
    return worker if isinstance(worker, str) else None, since
