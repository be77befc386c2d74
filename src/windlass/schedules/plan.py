"""Plans the jobs of one due schedule."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windlass.model import Fired, Json, NewJob, Schedule, Tick
from windlass.schedules.missed import GRACE, Due, due
from windlass.schedules.times import times_of
from windlass.store.jobs.checked import check


@dataclass(slots=True)
class Plan:
    """The plan for one due schedule: its ticks, and a checked job for each."""

    schedule: Schedule
    due: Due
    ticks: list[Tick]
    entries: list[Any]

    def keep(self, new: Collection[tuple[str, datetime]]) -> None:
        """Drop all ticks but these, and their jobs."""
        both = [
            (tick, entry)
            for tick, entry in zip(self.ticks, self.entries, strict=True)
            if (tick.schedule, tick.at) in new
        ]
        self.ticks, self.entries = [tick for tick, _ in both], [entry for _, entry in both]

    def fired(self) -> Fired:
        """The result that is shown for the schedule."""
        return Fired(
            self.schedule.name, self.schedule.phase, self.ticks, self.due.skipped, self.due.is_capped
        )


def plan_ticks(schedule: Schedule, now: datetime) -> Plan:
    """The plan for a schedule that is due at ``now``."""
    assert schedule.next_at is not None
    what = due(times_of(schedule), schedule.missed, schedule.cap, schedule.next_at, now)
    entries = check([job_of(schedule, at, run_at=_jittered(schedule, at, now)) for at, _ in what.ticks])
    ticks = [
        Tick(schedule.name, at, now, entry.id, covers)
        for (at, covers), entry in zip(what.ticks, entries, strict=True)
    ]
    return Plan(schedule, what, ticks, entries)


def job_of(schedule: Schedule, at: datetime, *, run_at: datetime | None = None) -> NewJob:
    """The job of one tick. Its correlation id names the schedule and the due time, unless the schedule has one of its own."""
    moment = at.astimezone(UTC)
    args: Any = schedule.args_json
    if schedule.due_as is not None:
        args = Json(json.dumps({**schedule.args, schedule.due_as: moment.isoformat()}))
    return NewJob(
        kind=schedule.kind,
        phase=schedule.phase,
        args=args,
        priority=schedule.priority,
        max_attempts=schedule.max_attempts,
        run_at=run_at,
        correlation_id=schedule.correlation_id or f"{schedule.name}@{moment:%Y-%m-%dT%H:%M:%SZ}",
        principal=schedule.principal,
        expires=schedule.expires,
    )


def _jittered(schedule: Schedule, at: datetime, now: datetime) -> datetime | None:
    """When a tick's job runs: after a share of the jitter that is the same on every instance. The jobs of missed ticks are spread
    from now on."""
    if not schedule.jitter:
        return None
    digest = hashlib.sha256(f"{schedule.name} {at.timestamp()}".encode()).digest()
    share = int.from_bytes(digest[:6], "big") / 2**48
    return (at if now - at <= GRACE else now) + schedule.jitter * share
