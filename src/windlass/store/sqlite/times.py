"""Times as SQLite has them: whole microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_PLAIN = 2**32 * 1_000_000  # until the year 2106 a float of seconds is exact to the microsecond
_LAST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND


def to_micros(value: datetime) -> int:
    return (value - EPOCH) // MICROSECOND


def from_micros(value: int) -> datetime:
    """The time of a number. A time that other software wrote and that Python cannot represent becomes the nearest that it can: it must not stop a
    claim."""
    if 0 <= value < _PLAIN:
        return datetime.fromtimestamp(value / 1_000_000, UTC)  # in a third of the time
    return EPOCH + timedelta(microseconds=max(_FIRST, min(value, _LAST)))
