"""Next ticks against an oracle that knows nothing of cronsim: it walks real minutes and looks at the clock on the wall.

intervals     every real minute whose wall time fits
fixed times   the wall clock's highest reading so far is remembered; a minute that raises it fires if any reading it passed
              fits. So a time the clock jumps over fires with the minute it lands on, and a time it shows again does not fire
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.errors import ConfigError
from windlass.schedules import cron

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
FIRST, LAST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
EXPRESSIONS = (
    "30 2 * * *",
    "0,15,45 0-3 * * *",
    "0 0 * * *",
    "30 0,1,2,3,23 * * *",
    "0 12 * * 0",
    "*/20 * * * *",
    "0 * * * *",
    "*/10 0,1,2,3 * * *",
    "30 */2 * * *",
    "*/30 * * * 5,6,0",
    "15 */3 1,15,28-31 * *",
    "0 1-2 1-15 * 0",
)


# ---------------------------------------------------------------------------------------------------------- the oracle


def values(field: str, least: int, most: int) -> set[int]:
    """A field of the plain kind: stars, steps, ranges, lists."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = ("", "", "") if span == "*" else span.partition("-")
        first = int(low) if low else least
        last = int(high) if high else (first if low and not step else most)
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Fields(NamedTuple):
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    both: bool
    is_fixed: bool

    @classmethod
    def of(cls, expression: str) -> Fields:
        minute, hour, day, month, weekday = expression.split()
        return cls(
            values(minute, 0, 59),
            values(hour, 0, 23),
            values(day, 1, 31),
            values(month, 1, 12),
            {number % 7 for number in values(weekday, 0, 7)},
            day.startswith("*") or weekday.startswith("*"),
            not minute.startswith("*") and not hour.startswith("*"),
        )

    def fits(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        by_day, by_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return by_day and by_weekday if self.both else by_day or by_weekday


def walked(expression: str, readings: Sequence[tuple[datetime, datetime]]) -> list[datetime]:
    """The ticks among real minutes, given each with what the clock on the wall shows."""
    fields = Fields.of(expression)
    if not fields.is_fixed:
        return [instant for instant, wall in readings if fields.fits(wall)]
    ticks = []
    highest = readings[0][1] - MINUTE
    for instant, wall in readings:
        passed = highest + MINUTE
        is_due = False
        while passed <= wall:
            is_due = is_due or fields.fits(passed)
            passed += MINUTE
        highest = max(highest, wall)
        if is_due:
            ticks.append(instant)
    return ticks


def readings(zone: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    found, at, tz = [], start, ZoneInfo(zone)
    while at < end:
        found.append((at, at.astimezone(tz).replace(tzinfo=None)))
        at += MINUTE
    return found


# ----------------------------------------------------------------------------------------------------- all transitions


class Transition(NamedTuple):
    at: datetime
    before: timedelta
    after: timedelta


@cache
def transitions() -> dict[Transition, str]:
    """Every change of an offset in these years, each with one of the zones that have it."""
    found: dict[Transition, str] = {}
    for zone in sorted(available_timezones()):
        if "/" not in zone or zone.startswith(("Etc/", "SystemV/", "posix/", "right/")):
            continue
        tz = ZoneInfo(zone)
        at, offset = FIRST, FIRST.astimezone(tz).utcoffset()
        while at < LAST:
            following = at + 7 * DAY
            now = following.astimezone(tz).utcoffset()
            if now != offset:
                assert offset is not None and now is not None
                low, high = at, following
                while high - low > MINUTE:
                    middle = low + (high - low) // (2 * MINUTE) * MINUTE
                    low, high = (
                        (middle, high) if middle.astimezone(tz).utcoffset() == offset else (low, middle)
                    )
                found.setdefault(Transition(high, offset, now), zone)
                at, offset = high, now
            else:
                at = following
    return found


def sample(count: int) -> list[tuple[Transition, str]]:
    """All changes that are not of one hour, and some of the others."""
    odd = [item for item in transitions().items() if abs(item[0].after - item[0].before) != HOUR]
    usual = [item for item in transitions().items() if abs(item[0].after - item[0].before) == HOUR]
    chosen = random.Random(7)
    return chosen.sample(odd, min(len(odd), count // 4)) + chosen.sample(usual, min(len(usual), count))


def examine(zone: str, at: datetime, expressions: Sequence[str], around: timedelta = 5 * HOUR) -> None:
    """Ticks around an instant, one after the other, and asked for from any place in between."""
    margin = 25 * HOUR  # the walk begins before, so that it knows the highest reading
    start, end = at - around, at + around
    seen = readings(zone, start - margin, end)
    asked = random.Random(str(at))
    for expression in expressions:
        right = [tick for tick in walked(expression, seen) if start < tick < end]
        parsed = cron.parse(expression, zone)
        mine = list(parsed.between(start, end - timedelta(microseconds=1)))
        assert mine == right, f"{expression} in {zone} around {at}"
        for _ in range(3):
            moment = start + asked.random() * 2 * around
            following = next((tick for tick in right if tick > moment), None)
            assert following is None or parsed.next_after(moment) == following, (
                f"{expression} {zone} {moment}"
            )
            before = [tick for tick in right if tick <= moment]
            assert parsed.latest(start, moment) == (before[-1] if before else None)


def test_ticks_around_the_changes_of_every_zone(request: pytest.FixtureRequest) -> None:
    """2020 to 2037. Some hundred of them; all with --transitions all."""
    wanted = request.config.getoption("--transitions")
    found = list(transitions().items()) if wanted == "all" else sample(int(wanted))
    assert len(found) >= 50
    for number, (transition, zone) in enumerate(found):
        chosen = (
            EXPRESSIONS
            if wanted == "all"
            else [EXPRESSIONS[(number + n) % len(EXPRESSIONS)] for n in (0, 5, 7)]
        )
        examine(zone, transition.at, chosen)


@pytest.mark.parametrize(
    ("zone", "at"),
    [
        ("Australia/Lord_Howe", datetime(2027, 4, 3, 15, tzinfo=UTC)),  # back by half an hour
        ("Australia/Lord_Howe", datetime(2027, 10, 2, 15, 30, tzinfo=UTC)),  # and forward
        ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),  # a day that does not exist
        ("Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC)),  # no midnight
        ("America/Havana", datetime(2026, 11, 1, 5, tzinfo=UTC)),  # two midnights
        ("Asia/Almaty", datetime(2024, 2, 29, 18, tzinfo=UTC)),  # 29 February has 25 hours
        ("Antarctica/Troll", datetime(2026, 3, 29, 1, tzinfo=UTC)),  # two hours at once
        ("Africa/Casablanca", datetime(2026, 2, 15, 2, tzinfo=UTC)),  # Ramadan
        ("Europe/Dublin", datetime(2026, 10, 25, 1, tzinfo=UTC)),  # winter is the exception there
        ("Asia/Kathmandu", datetime(2026, 5, 1, tzinfo=UTC)),  # no change at all, an odd offset
    ],
)
def test_ticks_around_odd_changes(zone: str, at: datetime) -> None:
    examine(zone, at, EXPRESSIONS, around=30 * HOUR)


PIECES = st.sampled_from([*"0123456789*/-,#L ", "LW", "MON", "JAN", "@", "60", "*/5", "٣", "²"])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=24).map("".join) | st.text(max_size=20))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        parsed = cron.parse(text)
    except ConfigError:
        return
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert at < parsed.next_after(at) <= at + 41 * 366 * DAY


FIELD = {
    "minute": ["*", "*/7", "0", "13", "5,35", "10-20"],
    "hour": ["*", "*/5", "0", "2", "1,2,3", "22-23"],
    "day": ["*", "1", "28-31", "*/9", "29"],
    "month": ["*", "2", "3,10", "*/4"],
    "weekday": ["*", "0", "1-5", "*/2", "6,7"],
}
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo", "Asia/Kathmandu"]


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(*(st.sampled_from(choices) for choices in FIELD.values())).map(" ".join),
    st.sampled_from(ZONES),
    st.datetimes(datetime(2020, 1, 1), datetime(2037, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),  # noqa: DTZ001
)
def test_a_tick_fits_and_nothing_between_was_left_out(expression: str, zone: str, after: datetime) -> None:
    """Days are looked at as a whole, so that rare ones are found: none that fits lies between, and the day of the tick is walked."""
    tick = cron.parse(expression, zone).next_after(after)
    fields, tz = Fields.of(expression), ZoneInfo(zone)
    for day in _days_between(after.astimezone(tz).date() + DAY, tick.astimezone(tz).date() - DAY):
        if _day_fits(fields, day):
            start = datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)
            assert not walked(expression, readings(zone, start, start + DAY)), day
    seen = readings(zone, tick.replace(second=0) - 50 * HOUR, tick + 2 * MINUTE)
    right = [at for at in walked(expression, seen) if at > after]
    assert right and tick in right
    assert right[0] == tick


def _days_between(first: date, last: date) -> Iterator[date]:
    while first < last:
        yield first
        first += DAY


def _day_fits(fields: Fields, day: date) -> bool:
    noon = datetime(day.year, day.month, day.day, min(fields.hours), min(fields.minutes))  # noqa: DTZ001
    return fields.fits(noon)
