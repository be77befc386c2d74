"""Per-minute statistics of a phase, so that graphs outlive the process that counted.

An instance writes absolute numbers of its own minutes, again and again until a minute is over: a write whose reply was lost is
repeated, and instances never touch each other's rows. Readers get the sum over all instances.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby, zip_longest

from windlass.model import Rollup
from windlass.store.database import Database, Row


class Rollups:
    """Keeps per-minute numbers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, instance: str, rows: Sequence[Rollup]) -> None:
        """Write minutes of one instance; they replace what it wrote for the same minute and phase before."""
        latest = {(row.minute, row.phase): row for row in rows}
        if latest:
            # In one order, so that writers of the same minutes cannot deadlock.
            texts = [self._text(latest[key]) for key in sorted(latest)]
            self._db.run("rollup.put", instance=instance, rows=f"[{','.join(texts)}]")

    def read(
        self, *, since: datetime, until: datetime | None = None, phase: str | None = None
    ) -> list[Rollup]:
        """The minutes that began at ``since`` or later, and before ``until``, in order; for each phase, all instances together."""
        rows = self._db.read("rollup.read", since=since, until=until, phase=phase)
        return [
            self._sum(minute, name, group) for (minute, name), group in groupby(rows, lambda row: row[:2])
        ]

    def prune(self, before: datetime) -> int:
        """Remove minutes that began before a time; returns how many rows were removed."""
        return int(self._db.run("rollup.prune", before=before)[0][0])

    def _text(self, row: Rollup) -> str:
        return json.dumps(
            {
                "minute": self._db.stamp(row.minute),
                "phase": row.phase,
                "completed": row.completed,
                "failed": row.failed,
                "retried": row.retried,
                "cancelled": row.cancelled,
                "released": row.released,
                "wait": list(row.wait),
                "run": list(row.run),
                "wait_ms_sum": row.wait_ms_sum,
                "run_ms_sum": row.run_ms_sum,
            }
        )

    def _sum(self, minute: object, phase: str, rows: Iterable[Row]) -> Rollup:
        columns = list(zip(*rows, strict=True))
        completed, failed, retried, cancelled, released = (sum(column) for column in columns[2:7])
        return Rollup(
            minute=self._db.moment(minute),
            phase=phase,
            completed=completed,
            failed=failed,
            retried=retried,
            cancelled=cancelled,
            released=released,
            wait=_sums(columns[7]),
            run=_sums(columns[8]),
            wait_ms_sum=sum(columns[9]),
            run_ms_sum=sum(columns[10]),
        )


def _sums(texts: Sequence[str]) -> tuple[int, ...]:
    """Lists of counts, added place by place; a shorter one has nothing in the rest."""
    if len(texts) == 1:
        return tuple(json.loads(texts[0]))
    return tuple(sum(place) for place in zip_longest(*(json.loads(text) for text in texts), fillvalue=0))
