"""Failed jobs by their cause: kind, phase, type of the error, and the place it was raised at."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from windlass.model.failures import FailureGroup, Failures
from windlass.store.database import Database, Row
from windlass.store.ids import LARGEST

WINDOW = 5000
MOST = 100_000
BUDGET = 0.07
"""Seconds that windows are read for."""


class FailureReader:
    """Groups the failed jobs of history."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def read(
        self, scope: Mapping[str, str | None], *, kind: str | None = None, phase: str | None = None
    ) -> Failures:
        """Group the newest failed jobs that are in scope: at most 100,000, as many as can be read in a short time."""
        now = self._db.now()
        found: dict[tuple[str, ...], FailureGroup] = {}
        before, searched, done, more = LARGEST, 0, 0, True
        end = time.monotonic() + BUDGET
        while more:
            began = time.monotonic()
            rows = self._db.read(
                "failures",
                before=before,
                limit=WINDOW,
                hour=now - timedelta(hours=1),
                day=now - timedelta(days=1),
                week=now - timedelta(days=7),
                kind=kind,
                phase=phase,
                **scope,
            )
            for row in rows:
                if row[0] is not None:
                    _add(found, self._group(row))
            searched += sum(int(row[-3]) for row in rows)
            count = sum(int(row[-2]) for row in rows)
            done += count
            more = count == WINDOW
            ended = time.monotonic()
            if not more or done >= MOST or 2 * ended - began >= end:  # the next window would take as long
                break
            before = min(str(row[-1]) for row in rows)
        groups = sorted(found.values(), key=lambda group: group.last_at, reverse=True)
        return Failures(groups, searched, more)

    def _group(self, row: Row) -> FailureGroup:
        kind, phase, type_, code, place, message, hour, day, week, total, first, last, sample, *_ = row
        return FailureGroup(
            kind=kind,
            phase=phase,
            type=type_ or "",
            code=code or "",
            place=place,
            message=message or "",
            hour=int(hour),
            day=int(day),
            week=int(week),
            total=int(total),
            first_at=self._db.moment(first),
            last_at=self._db.moment(last),
            sample=str(sample),
        )


def _add(found: dict[tuple[str, ...], FailureGroup], group: FailureGroup) -> None:
    key = (group.kind, group.phase, group.type, group.code, group.place or "")
    known = found.get(key)
    found[key] = (
        group
        if known is None
        else replace(
            known,
            hour=known.hour + group.hour,
            day=known.day + group.day,
            week=known.week + group.week,
            total=known.total + group.total,
            first_at=min(known.first_at, group.first_at),
            last_at=max(known.last_at, group.last_at),
        )
    )
