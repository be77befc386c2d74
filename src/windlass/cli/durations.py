"""Parses durations as people write them: 90s, 15m, 12h, 7d, forever."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    _Parameter = click.ParamType[timedelta | None]
else:
    _Parameter = click.ParamType  # generic at run time only in the newest releases of click

LONGEST = timedelta(days=36_500)
_TEXT = re.compile(r"(\d{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Duration(_Parameter):
    """A click parameter that becomes a ``timedelta``; ``forever`` becomes None."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | None:
        if isinstance(value, timedelta):
            return value
        if value is None or value == "forever":
            return None
        match = _TEXT.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a duration: write 90s, 15m, 12h, 7d or forever", param, ctx)
        lasts = timedelta(**{_UNITS[match[2]]: int(match[1])})
        if lasts > LONGEST:
            self.fail(f"{value!r} is over a hundred years: write forever", param, ctx)
        return lasts
