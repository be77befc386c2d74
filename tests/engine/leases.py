"""Leases made by hand, for parts of the engine that never see a database."""

from __future__ import annotations

from datetime import UTC, datetime

from windlass.model import Flag, Json, Lease
from windlass.store.ids import new_id

AT = datetime(2026, 1, 1, tzinfo=UTC)


def lease(phase: str = "a", job_id: str | None = None, token: int = 1) -> Lease:
    job_id = job_id or new_id()
    return Lease(job_id, token, phase, phase, 5, 1, 1, 3, 0, Flag(0), Json("{}"), job_id, AT, AT, AT)
