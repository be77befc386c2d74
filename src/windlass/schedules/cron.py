"""An expression and a zone → the next tick.

cronsim reads the expression and walks the wall clock; which instants those wall times are is decided here. (Given a zone, cronsim
2.8 loses half an hour where clocks go back by thirty minutes, returns instants of the past in the second pass of an hour that
comes twice, and its result depends on where the search began.)

When clocks are changed:

    fixed times     neither the minutes nor the hours begin with a star: ``30 2 * * *``
                    a time that does not exist fires at the first instant after the gap, once however many of them there were;
                    a time that comes twice fires the first time
    intervals       all others: ``*/15 * * * *``, ``0 * * * *``
                    fire at every real instant whose wall time fits: none in the gap, in both passes of an hour that comes twice

Results depend on nothing but the expression, the zone and the instant asked about, so any instance may ask.
"""

from __future__ import annotations

import calendar
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from windlass.errors import ConfigError

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FORM = (
    "five fields (minute hour day month weekday), six with seconds in front, or one of "
    "@hourly, @daily, @weekly, @monthly, @yearly"
)
EVERY = "an interval is every=90 instead of an expression; "
ZONES = "the name of a time zone, such as UTC, Europe/Berlin or America/New_York"
LONGEST = 255
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
HORIZON = timedelta(days=50 * 366)
"""Nothing that fires at all pauses longer: 29 February on one weekday comes after forty years at the latest."""

NEAR = 2 * DAY
"""More than any change of a zone's offset: a wall time this far away is on the same side of every change in between."""


class UnknownZoneError(ConfigError):
    """A zone that this machine does not know; another one may."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression in its zone; make it with ``parse``. ``text`` is what was given, in one spelling."""

    text: str
    tz: str
    _fields: str
    _zone: ZoneInfo
    _is_fixed: bool

    def next_after(self, instant: datetime) -> datetime:
        """The first tick after an instant, in UTC."""
        found = self._find(instant.astimezone(UTC))
        if found is None:
            raise _never_fires(self.text, self.tz)
        return found

    def between(self, after: datetime, upto: datetime) -> Iterator[datetime]:
        """The ticks in (``after``, ``upto``], in order."""
        tick = self.next_after(after)
        while tick <= upto:
            yield tick
            tick = self.next_after(tick)

    def latest(self, after: datetime, upto: datetime) -> datetime | None:
        """The last tick in (``after``, ``upto``], or None; found by bisection."""
        low, high = after.astimezone(UTC).replace(microsecond=0), upto.astimezone(UTC)
        found = self.next_after(low)
        if found > high:
            return None
        while high - low > SECOND:
            middle = (low + (high - low) / 2).replace(microsecond=0)
            if middle <= low:
                break
            tick = self.next_after(middle)
            if tick <= upto:
                low, found = middle, tick
            else:
                high = middle
        return found if found > after else None

    # ------------------------------------------------------------------ wall time to instants

    def _find(self, instant: datetime) -> datetime | None:
        instant = instant.replace(microsecond=0)
        end = instant + HORIZON
        return self._find_fixed(instant, end) if self._is_fixed else self._find_interval(instant, end)

    def _find_fixed(self, instant: datetime, end: datetime) -> datetime | None:
        wall: datetime | None = self._wall(instant)
        while (wall := self._match(wall)) is not None:
            found = self._instant(wall)
            if found > instant:  # not in the second pass, where wall times that were served come again
                return found if found <= end else None
        return None

    def _find_interval(self, instant: datetime, end: datetime) -> datetime | None:
        """From one change of the offset to the next: in between, wall time is the instant plus the offset."""
        since, floor = instant, instant  # where this offset begins; ticks are after the floor
        while floor <= end:
            offset = self._offset(since)
            wall = self._match((floor + offset).replace(tzinfo=None))
            if wall is None:
                return None
            found = wall.replace(tzinfo=UTC) - offset
            is_near = found - since <= 2 * NEAR
            change = self._change(since, found if is_near else since + NEAR)
            if change is not None:
                since, floor = change, change - SECOND
            elif is_near:
                return found
            else:
                since = floor = found - NEAR
        return None

    def _match(self, wall: datetime | None) -> datetime | None:
        """The first wall time after another that fits; None when there is none within fifty years."""
        try:
            return None if wall is None else next(CronSim(self._fields, wall))
        except (StopIteration, OverflowError, ValueError):  # the last two: the calendar ends
            return None

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self._zone).replace(tzinfo=None)

    def _offset(self, instant: datetime) -> timedelta:
        offset = instant.astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset

    def _instant(self, wall: datetime) -> datetime:
        """When the clocks first show a wall time; the end of the gap, if they jump over it."""
        found = wall.replace(tzinfo=self._zone).astimezone(UTC)
        if self._wall(found) == wall:
            return found
        before = wall.replace(tzinfo=self._zone, fold=1).astimezone(UTC)  # in a gap, the later offset
        return self._change(before, found) or found

    def _change(self, after: datetime, upto: datetime) -> datetime | None:
        """The first instant in (``after``, ``upto``] at which the zone's offset changes; None if there is none. No zone changes twice a day."""
        offset, at = self._offset(after), after
        while at < upto:
            following = min(at + DAY, upto)
            if self._offset(following) != offset:
                while following - at > SECOND:
                    middle = at + (following - at) // (2 * SECOND) * SECOND
                    at, following = (middle, following) if self._offset(middle) == offset else (at, middle)
                return following
            at = following
        return None


def parse(expression: str, tz: str = "UTC") -> Expression:
    """Check an expression and a zone; ``ConfigError`` says which of the two cannot be used, and why."""
    for key, value, allowed in (("expression", expression, FORM), ("tz", tz, ZONES)):
        if not _is_text(value):
            raise ConfigError(key, value, allowed)
    return _parse(expression, tz)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


@lru_cache(maxsize=4096)
def _parse(expression: str, tz: str) -> Expression:
    text = " ".join(expression.split())
    if not text or len(text) > LONGEST:
        raise ConfigError("expression", f"{text[:40]}…" if text else text, FORM)
    if text.startswith("@"):
        text = text.lower()
        if text not in ALIASES:
            hint = EVERY if text.startswith("@every") else _nearest(text, ALIASES)
            raise ConfigError("expression", text, because=f"{hint}it must be {FORM}")
    fields = ALIASES.get(text, text)
    zone = _zone(tz)
    try:
        clock = CronSim(fields, datetime(2000, 1, 1))  # noqa: DTZ001  wall time has no zone
    except (CronSimError, AssertionError, ValueError) as error:
        if str(error) == "Bad day-of-month" and _has_good_days(fields):
            raise _never_fires(text, tz) from error
        raise ConfigError("expression", text, because=f"{_complaint(error)}; it must be {FORM}") from error
    if not _has_a_day(clock):
        raise _never_fires(text, tz)
    parts = fields.split()[-5:]
    made = Expression(text, tz, fields, zone, not parts[0].startswith("*") and not parts[1].startswith("*"))
    made.next_after(datetime.now(UTC))
    return made


def _zone(tz: str) -> ZoneInfo:
    try:
        if tz == "localtime":  # a name on some machines, and another zone on each
            raise ValueError(tz)
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):  # unknown; not a name; a folder of zones
        raise UnknownZoneError(
            "tz", tz, because=f"{_nearest(tz, available_timezones())}it must be {ZONES}"
        ) from None


def _nearest(word: str, known: Iterable[str]) -> str:
    """A hint at what was likely meant."""
    names = {name.lower(): name for name in sorted(known)}
    found = difflib.get_close_matches(word.lower().replace(" ", "_"), names, n=1, cutoff=0.6)
    if not found:  # only the city was given
        found = [low for low in names if low.rpartition("/")[2] == word.lower().replace(" ", "_")][:1]
    return f"did you mean {names[found[0]]}? " if found else ""


def _complaint(error: Exception) -> str:
    """cronsim's error message, as a part of a sentence."""
    message = str(error)
    return (
        f"the {message[4:]} cannot be read"
        if message.startswith("Bad ")
        else "it has another number of fields"
    )


def _never_fires(text: str, tz: str) -> ConfigError:
    return ConfigError(
        "expression", text, because=f"it never fires in {tz}: there is no such day or time; it must be {FORM}"
    )


def _has_good_days(fields: str) -> bool:
    """Whether each field is valid by itself: then only their combination never occurs."""
    parts = fields.split()
    parts[-2] = "*"  # any month has room for any day
    try:
        CronSim(" ".join(parts), datetime(2000, 1, 1))  # noqa: DTZ001
    except (CronSimError, AssertionError, ValueError):
        return False
    return True


def _has_a_day(clock: CronSim) -> bool:
    """Whether any day fits, of all calendars there are: fourteen, by the first weekday and the leap day."""
    return any(
        day.month in clock.months and clock.match_day(day) for year in _calendars() for day in _days(year)
    )


@lru_cache(maxsize=1)
def _calendars() -> tuple[int, ...]:
    kinds = {(date(year, 1, 1).weekday(), calendar.isleap(year)): year for year in range(2000, 2028)}
    return tuple(sorted(kinds.values()))


def _days(year: int) -> Iterator[date]:
    day = date(year, 1, 1)
    while day.year == year:
        yield day
        day += DAY
