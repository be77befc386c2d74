"""The due times of a schedule: those of a cron expression, or an interval from the schedule's creation on.

Due times of an interval are ``created_at + n * every``, n from 1 on: they do not drift, and no zone or change of clocks moves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from windlass.errors import ConfigError
from windlass.model import Schedule, as_duration
from windlass.schedules import cron
from windlass.store.validators import LONGEST_DELAY

SHORTEST = timedelta(seconds=1)


class Times(Protocol):
    """Due times, in order."""

    def next_after(self, instant: datetime) -> datetime:
        """The first due time after an instant, in UTC."""
        ...

    def between(self, after: datetime, upto: datetime) -> Iterator[datetime]:
        """The due times in (``after``, ``upto``], in order."""
        ...

    def latest(self, after: datetime, upto: datetime) -> datetime | None:
        """The last due time in (``after``, ``upto``], or None."""
        ...


@dataclass(frozen=True, slots=True)
class Interval:
    """Due times at equal distances from an anchor; the anchor itself is none."""

    every: timedelta
    anchor: datetime

    def next_after(self, instant: datetime) -> datetime:
        """The first due time after an instant, in UTC."""
        return self._at(max(0, (instant - self.anchor) // self.every) + 1)

    def between(self, after: datetime, upto: datetime) -> Iterator[datetime]:
        """The due times in (``after``, ``upto``], in order."""
        at = self.next_after(after)
        while at <= upto:
            yield at
            at += self.every

    def latest(self, after: datetime, upto: datetime) -> datetime | None:
        """The last due time in (``after``, ``upto``], or None."""
        number = (upto - self.anchor) // self.every
        return self._at(number) if number >= 1 and self._at(number) > after else None

    def _at(self, number: int) -> datetime:
        return (self.anchor + number * self.every).astimezone(UTC)


def times_of(schedule: Schedule) -> Times:
    """The due times of a schedule; ``ConfigError`` if its row makes no sense."""
    if schedule.every is None:
        return cron.parse(schedule.expression, schedule.tz)
    return Interval(checked_interval(schedule.every), schedule.created_at)


def checked_interval(given: Any) -> timedelta:
    """Check an interval, a timedelta or seconds."""
    every = as_duration(given)
    if not isinstance(every, timedelta) or not SHORTEST <= every <= LONGEST_DELAY:
        raise ConfigError(
            "every", given, "seconds as a number, or a timedelta, from one second to a hundred years"
        )
    return every


def interval_text(every: timedelta) -> str:
    """An interval as it is shown: ``every 90 s``."""
    whole, part = divmod(every, SHORTEST)
    fraction = f"{part.microseconds:06d}".rstrip("0")
    return f"every {whole}.{fraction} s" if fraction else f"every {whole} s"
