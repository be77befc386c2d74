"""Per-minute statistics of a phase, so that graphs outlive the process that counted.

An instance writes absolute numbers of its own minutes, again and again until a minute is over: a write whose reply was lost is
repeated, and instances never touch each other's rows. Readers get the sum over all instances.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from operator import itemgetter

from windlass.model import Rollup
from windlass.store.database import Database, Row

HOUR = 3600
SPANS = {HOUR: timedelta(days=90), 86_400: timedelta(days=731)}
"""The lengths of hours and days in seconds, and how long their statistics are kept."""
_MOMENT_AND_PHASE = itemgetter(0, 1)
LATE = timedelta(minutes=5)
"""How long after its end an hour or a day is folded: instances write their minutes every few seconds, and again after a fault."""


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
        return [*self.each(since=since, until=until, phase=phase)]

    def each(
        self, *, since: datetime, until: datetime | None = None, phase: str | None = None
    ) -> Iterator[Rollup]:
        """``read``, one after the other: a chart reads thousands, and a garbage collection that has to walk over all of them at once takes
        longer than the rest."""
        return self._each(self._db.read("rollup.read", since=since, until=until, phase=phase))

    def _each(self, rows: Sequence[Row]) -> Iterator[Rollup]:
        """One for each time and phase. All histograms are parsed at once, each text once, and a row that needs no sum gets none."""
        texts = dict.fromkeys(text for row in rows for text in row[7:9])
        parsed = dict(zip(texts, map(tuple, json.loads(f"[{','.join(texts)}]")), strict=True))
        minute, at = None, self._db.moment(None)
        last: Rollup | None = None
        for row in sorted(rows, key=_MOMENT_AND_PHASE):
            is_same = row[0] == minute
            if not is_same:
                minute = row[0]
                at = self._db.moment(minute)
            phase, completed, failed, retried, cancelled, released, wait, run, wait_ms, run_ms = row[1:]
            one = Rollup(
                at, phase, completed, failed, retried, cancelled, released, parsed[wait], parsed[run], wait_ms, run_ms
            )  # fmt: skip
            if is_same and last is not None and last.phase == phase:
                one = _together(at, phase, (last, one))
            elif last is not None:
                yield last
            last = one
        if last is not None:
            yield last

    def each_span(
        self, seconds: int, *, since: datetime, until: datetime, phase: str | None = None
    ) -> Iterator[Rollup]:
        """The hours (3600) or days (86400) that began at ``since`` or later, and before ``until``, in order, one after the other; days that are not
        folded yet are made of their hours, and hours of their minutes."""
        since, until = _ceiling(since, seconds), _ceiling(until, seconds)
        (last,) = self._db.read("rollup.span.last", seconds=seconds)[0]
        rest = since if last is None else max(since, self._db.moment(last) + timedelta(seconds=seconds))
        folded = min(rest, until)  # what is folded while this is read is made of its parts here
        yield from self._each(
            self._db.read("rollup.span.read", seconds=seconds, since=since, until=folded, phase=phase)
        )
        if rest >= until:
            return
        if seconds == HOUR:
            yield from sum_by(seconds, self.each(since=rest, until=until, phase=phase))
        else:
            yield from sum_by(seconds, self.each_span(HOUR, since=rest, until=until, phase=phase))

    def fold(self, now: datetime) -> None:
        """Write the hours and days that are over, of the minutes that are kept; any number of instances may do this at once."""
        for seconds, keep in SPANS.items():
            (last,) = self._db.read("rollup.span.last", seconds=seconds)[0]
            (first,) = self._db.read("rollup.first")[0]
            begin = self._db.moment(first if last is None else last)
            end = floor(now - LATE, seconds)
            if begin is None:
                continue
            at = floor(begin, seconds)  # the last one again: an instance may have written late
            while at < end:
                until = min(end, at + timedelta(seconds=max(seconds, 86_400)))
                rows = sum_by(seconds, self._parts(seconds, at, until))
                if rows:
                    texts = ",".join(map(self._text, rows))
                    self._db.run("rollup.span.put", seconds=seconds, rows=f"[{texts}]")
                at = until
            self._db.run("rollup.span.prune", seconds=seconds, before=now - keep)

    def _parts(self, seconds: int, since: datetime, until: datetime) -> list[Rollup]:
        """What a longer span is made of: hours of minutes, days of hours."""
        if seconds == HOUR:
            return self.read(since=since, until=until)
        rows = self._db.read("rollup.span.read", seconds=HOUR, since=since, until=until, phase=None)
        return [*self._each(rows)]

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


def floor(at: datetime, seconds: int) -> datetime:
    """The beginning of the hour or day (UTC) of a time."""
    return datetime.fromtimestamp(int(at.timestamp()) // seconds * seconds, UTC)


def _ceiling(at: datetime, seconds: int) -> datetime:
    """The first beginning of an hour or a day (UTC) that is not before a time."""
    return floor(min(at, _LATEST).astimezone(UTC) + timedelta(seconds=seconds, microseconds=-1), seconds)


_LATEST = datetime.max.replace(tzinfo=UTC) - timedelta(days=2)


def sum_by(seconds: int, rows: Iterable[Rollup]) -> list[Rollup]:
    """Statistics of longer spans, made of those of shorter ones."""
    groups: dict[tuple[datetime, str], list[Rollup]] = {}
    for row in rows:
        groups.setdefault((floor(row.minute, seconds), row.phase), []).append(row)
    return [_together(at, phase, groups[at, phase]) for at, phase in sorted(groups)]


def _together(at: datetime, phase: str, rows: Sequence[Rollup]) -> Rollup:
    counts = {name: sum(getattr(row, name) for row in rows) for name in _COUNTS}
    return Rollup(
        minute=at,
        phase=phase,
        wait=tuple(map(sum, zip_longest(*(row.wait for row in rows), fillvalue=0))),
        run=tuple(map(sum, zip_longest(*(row.run for row in rows), fillvalue=0))),
        **counts,
    )


_COUNTS = ("completed", "failed", "retried", "cancelled", "released", "wait_ms_sum", "run_ms_sum")
