"""What tests give to a sandbox, checked before anything is opened."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from windlass.app.parts import AppParts
from windlass.errors import ConfigError
from windlass.ranges import is_number
from windlass.urls import dialect_of


def check_sandbox(app: object, url: object, start: object) -> None:
    """Refuse options that cannot work, with what is allowed."""
    if not isinstance(getattr(app, "parts", None), AppParts):
        raise ConfigError("app", app, "a windlass.App")
    if url is not None:
        dialect_of(url)  # type: ignore[arg-type]  # refuses other types
    if start is not None and not (isinstance(start, datetime) and start.utcoffset() is not None):
        raise ConfigError(
            "start",
            start,
            "a datetime with a time zone, for example datetime(2026, 1, 1, tzinfo=UTC), or None",
        )


def checked_step(seconds: object) -> float | timedelta:
    """How far the clock is moved."""
    if not isinstance(seconds, timedelta) and not is_number(seconds):
        raise ConfigError("seconds", seconds, "a number of seconds or a timedelta")
    return seconds


def id_of(job: Any) -> str:
    """The id of a job that a test names by a handle, a job or an id."""
    found = job if isinstance(job, str) else getattr(job, "id", None)
    if not isinstance(found, str):
        raise ConfigError("job", job, "a handle, a job or the id of a job")
    return found
