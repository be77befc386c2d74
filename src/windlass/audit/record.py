"""One line of the audit trail."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

SYSTEM: Final = "system"
"""The actor of what Windlass does by itself."""


def _new_id() -> str:
    from windlass.store.ids import new_id  # a client without a database only reads records

    return new_id()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One act: ``actor`` did ``act`` ("job.cancel") to ``target`` ("job") ``name`` (its id), for ``reason``.

    ``before`` and ``after`` are what the act changed, as JSON values, with secrets hidden. ``at`` is the database's time, None before the
    record is stored.
    """

    actor: str
    act: str
    target: str
    name: str
    reason: str | None = None
    before: Any = None
    after: Any = None
    subject: str | None = None
    issuer: str | None = None
    tenant: str | None = None
    id: str = field(default_factory=_new_id)
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A slice of the audit trail, newest first; ``next_cursor`` is None at the end."""

    records: list[AuditRecord]
    next_cursor: str | None
