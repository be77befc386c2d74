"""Parses durations as people write them: 90s, 15m, 1h 30m, 7d, forever."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

import click

from windlass.ranges import as_milliseconds

if TYPE_CHECKING:
    _Parameter = click.ParamType[timedelta | None]
    _Number = click.ParamType[float]
else:
    _Parameter = _Number = click.ParamType  # generic at run time only in the newest releases of click

LONGEST = timedelta(days=36_500)


class Duration(_Parameter):
    """A click parameter that becomes a ``timedelta``; ``forever`` becomes None."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | None:
        if isinstance(value, timedelta):
            return value
        if value is None:
            return None
        try:
            milliseconds = as_milliseconds(str(value))
        except ValueError as error:
            text = str(value).strip()
            self.fail(
                f"{text} has no unit: {text}s, {text}m, {text}h or {text}d" if text.isdigit() else str(error),
                param,
                ctx,
            )
        if milliseconds is None:
            return None
        if milliseconds > LONGEST / timedelta(milliseconds=1):
            self.fail(f"{value!r} is over a hundred years: write forever", param, ctx)
        return timedelta(milliseconds=milliseconds)


class Seconds(_Number):
    """A click parameter that becomes a number of seconds: it is given as one, or as a duration such as 30s."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            seconds = float(text)
        except ValueError:
            try:
                milliseconds = as_milliseconds(text)
            except ValueError as error:
                self.fail(f"{error} (or a number of seconds)".replace(" or forever", ""), param, ctx)
            seconds = inf if milliseconds is None else milliseconds / 1000
        if not 0 <= seconds < inf:
            self.fail(f"{text} is no number of seconds from 0", param, ctx)
        return seconds
