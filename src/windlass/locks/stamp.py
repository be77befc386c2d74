"""The value under a lock's key: its worker, its time, a random token that no other lock has, and the claim of the job, if there is one."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import datetime

from windlass.locks.contract import Owner


@dataclass(frozen=True, slots=True)
class Stamp:
    """``{"worker": …, "token": …, "at": …, "claim": …}``; without ``claim`` if the owner has not claimed the job."""

    owner: Owner
    at: datetime
    token: str

    @classmethod
    def of(cls, owner: Owner, at: datetime) -> Stamp:
        """Make a stamp with a new token."""
        return cls(owner, at, secrets.token_hex(16))

    @property
    def text(self) -> str:
        parts: dict[str, object] = {"worker": self.owner.worker, "token": self.token}
        parts["at"] = self.at.isoformat(timespec="milliseconds")
        if self.owner.claim is not None:
            parts["claim"] = self.owner.claim
        return json.dumps(parts)


def read_stamp(text: str) -> tuple[Owner | None, datetime | None]:
    """Return owner and time of a stamp; None for parts that cannot be read: other programs may have written the value."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(found, dict):
        return None, None
    worker, at, claim = found.get("worker"), found.get("at"), found.get("claim")
    try:
        since = datetime.fromisoformat(at) if isinstance(at, str) else None
    except ValueError:
        since = None
    if not isinstance(worker, str) or not (claim is None or type(claim) is int):
        return None, since
    return Owner(worker, claim), since
