"""Schedules: when jobs are made by the clock, and whether they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from windlass.control.given import check_count, check_texts
from windlass.control.noun import Noun, off_loop
from windlass.model import Enqueued, Schedule, Tick
from windlass.schedules.times import times_of


class ScheduleControl(Noun):
    """Lists, pauses, resumes and runs schedules."""

    def list(self) -> Sequence[Schedule]:
        """All schedules by name."""
        self._actor.require_all("list schedules")
        return [self._payload.schedule(one) for one in self._store.schedules.list()]

    def get(self, name: str) -> Schedule:
        """One schedule; ``ScheduleNotFoundError`` if there is none of this name."""
        self._actor.require_all("read a schedule")
        return self._payload.schedule(self._store.schedules.get(name))

    def ticks(self, name: str, limit: int = 10) -> Sequence[Tick]:
        """The last due times that made jobs, newest first."""
        self._actor.require_all("read a schedule")
        check_texts(name=name)
        check_count("limit", limit)
        return self._store.schedules.ticks(name, limit)

    def next_times(self, name: str, count: int = 10) -> Sequence[datetime]:
        """The next due times; empty while the schedule does not fire."""
        check_count("count", count)
        found = self.get(name)
        times, at = times_of(found), found.next_at
        coming: Sequence[datetime] = []
        while at is not None and len(coming) < count:
            coming = [*coming, at]
            at = times.next_after(at)
        return coming

    def pause(self, name: str, reason: str) -> Schedule:
        """Stop a schedule; jobs that it made continue. Due times until it is resumed make no jobs."""
        self._actor.require_all("pause a schedule")
        before = _facts(self.get(name))
        record = self._record("schedule.pause", "schedule", name, reason, before=before)
        paused = self._audited(record, lambda also: self._store.schedules.pause(name, reason, also=also))
        return self._payload.schedule(paused)

    def resume(self, name: str, reason: str | None = None) -> bool:
        """Let a paused schedule fire again, from its next due time on; False if it was not paused."""
        self._actor.require_all("resume a schedule")
        found = self.get(name)
        if found.paused_at is None:
            return False
        record = self._record("schedule.resume", "schedule", name, reason, before=_facts(found))
        return self._audited(record, lambda also: self._store.schedules.resume(name, also=also))

    def run_now(self, name: str, reason: str | None = None) -> Enqueued:
        """Make one job of a schedule now, paused or not; its due times stay as they are."""
        self._actor.require_all("run a schedule")
        record = self._record("schedule.run", "schedule", name, reason)
        return self._audited(record, lambda also: self._store.schedules.run_now(name, also=also))

    def remove(self, name: str, reason: str | None = None) -> None:
        """Remove a schedule; jobs that it made stay. One that code defines comes back when a worker with that code starts."""
        self._actor.require_all("remove a schedule")
        record = self._record("schedule.remove", "schedule", name, reason, before=_facts(self.get(name)))
        self._audited(record, lambda also: self._store.schedules.remove(name, also=also))

    list_async = off_loop(list)
    get_async = off_loop(get)
    ticks_async = off_loop(ticks)
    next_times_async = off_loop(next_times)
    pause_async = off_loop(pause)
    resume_async = off_loop(resume)
    run_now_async = off_loop(run_now)
    remove_async = off_loop(remove)


def _facts(schedule: Schedule) -> dict[str, str | None]:
    paused = schedule.paused_at
    return {
        "kind": schedule.kind,
        "expression": schedule.expression,
        "paused_at": None if paused is None else paused.isoformat(),
        "pause_reason": schedule.pause_reason,
    }
