"""Checks of numbers and times in calls and settings, with one error text for all. True and False are no numbers here."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any, TypeGuard

from windlass.errors import ConfigError

DURATION = "500ms, 90s, 15m, 1h 30m, 7d"
_PART = re.compile(r"\s*([0-9]{1,9})\s*([a-z]+)")
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "min": 60_000, "s": 1000, "sec": 1000, "ms": 1}
"""Milliseconds of each unit, in the order in which the parts of a duration are written."""
_MILLISECONDS = {"milliseconds": 1, "seconds": 1000, "days": 86_400_000}
"""Milliseconds of the unit of a setting."""


def as_milliseconds(text: str) -> int | None:
    """The milliseconds of a duration as people write it (``DURATION``, with or without spaces); None for ``forever``. ValueError for any
    other text. The one parser of durations, for settings and for options of commands."""
    left, total, last = text.strip(), 0, float("inf")
    if left == "forever":
        return None
    while left:
        part = _PART.match(left)
        unit = 0 if part is None else _UNITS.get(part[2], 0)
        if part is None or not unit or unit >= last:  # large units first, each once
            raise ValueError(f"{text!r} is not a duration: write {DURATION} or forever")
        total, last, left = total + int(part[1]) * unit, unit, left[part.end() :]
    if last == float("inf"):
        raise ValueError(f"an empty text is not a duration: write {DURATION} or forever")
    return total


def is_whole(value: object, least: int, most: int = sys.maxsize) -> TypeGuard[int]:
    """Whether a value is a whole number from ``least`` to ``most``."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object, least: float = -inf, most: float = inf) -> TypeGuard[float]:
    """Whether a value is a number from ``least`` to ``most``; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def is_time(value: object) -> TypeGuard[datetime]:
    """Whether a value is a time with a time zone."""
    return isinstance(value, datetime) and value.tzinfo is not None


@dataclass(frozen=True, slots=True)
class Range:
    """The allowed values of a number."""

    least: float
    most: float
    unit: str = ""
    is_whole: bool = False
    or_none: str = ""  # what None means, if it is allowed

    @property
    def allowed(self) -> str:
        """Completes "it must be ..."."""
        kind = "a whole number" if self.is_whole else "a number"
        unit = f" of {self.unit}" if self.unit else ""
        least = f"{self.least:,}" if self.is_whole else f"{self.least:g}"
        text = f"{kind}{unit} from {least} to {self.most:,}"
        return f"{text}, or None for {self.or_none}" if self.or_none else text

    def check(self, name: str, value: object) -> None:
        """Raise ``ConfigError`` for a value outside the range; ``name`` is the key in the error."""
        is_known = isinstance(value, int) or not self.is_whole
        if not ((is_known and is_number(value, self.least, self.most)) or (value is None and self.or_none)):
            raise ConfigError(name, value, self.allowed)

    def read(self, value: Any) -> Any:
        """Convert a value of a file or the environment, where a number may be text; ValueError or TypeError for a wrong one."""
        if self.or_none and (value is None or str(value).strip().lower() in ("none", "")):
            return None
        if isinstance(value, bool) or (self.is_whole and isinstance(value, float) and value % 1):
            raise ValueError
        number = int(value) if self.is_whole else float(value)
        if not self.least <= number <= self.most:
            raise ValueError
        return number


@dataclass(frozen=True, slots=True)
class Duration(Range):
    """The allowed values of a duration: a number in its ``unit``, also written as people write it (``DURATION``), or a timedelta."""

    @property
    def allowed(self) -> str:
        forms = f"{DURATION} or forever" if self.or_none else DURATION
        return f"{super(Duration, self).allowed}; in a file or the environment also {forms}"

    def read(self, value: Any) -> Any:
        if isinstance(value, timedelta):
            value = value / timedelta(milliseconds=_MILLISECONDS[self.unit])
        elif isinstance(value, str) and value.strip()[-1:].isalpha() and value.strip().lower() != "none":
            milliseconds = as_milliseconds(value)
            if milliseconds is None and not self.or_none:
                raise ValueError("this duration must end")
            value = None if milliseconds is None else milliseconds / _MILLISECONDS[self.unit]
        return super(Duration, self).read(value)
