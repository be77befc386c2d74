"""Rates and limits per key over the whole fleet, and the path to a job's key.

@app.job(limit=3, limit_key="args.customer", rate=windlass.per_minute(300))
"""

from __future__ import annotations

import json
import math
from collections.abc import Container
from datetime import timedelta
from typing import Any

from windlass.errors import ConfigError
from windlass.model import Flow, JobLimit, Rate
from windlass.ranges import is_number, is_whole

_PATH = "args."
MAX_LIMIT = 1_000_000
MAX_KEY = 255
LONGEST_AGE = timedelta(days=365)


def per_second(count: float, *, burst: int | None = None) -> Rate:
    """So many jobs a second on average, over all instances; ``burst`` of them at once after a pause.

    Without ``burst`` they are spread evenly: as many at once as come in a tenth of a second and one more, so that a late read of the
    bucket loses nothing; below one a second, one.
    """
    return _rate(count, 1.0, burst)


def per_minute(count: float, *, burst: int | None = None) -> Rate:
    """So many jobs a minute on average; see ``per_second``."""
    return _rate(count, 60.0, burst)


def per_hour(count: float, *, burst: int | None = None) -> Rate:
    """So many jobs an hour on average; see ``per_second``."""
    return _rate(count, 3600.0, burst)


def _rate(count: Any, seconds: float, burst: int | None) -> Rate:
    if not (is_number(count, 0, MAX_LIMIT) and count):
        raise ConfigError("rate", count, "a number of jobs above zero")
    each_second = count / seconds
    if burst is None:
        burst = 1 if each_second < 1 else 1 + math.ceil(each_second / 10)
    rate = Rate(each_second, burst)
    check_rate(rate)
    return rate


def checked(flow: Flow) -> Flow:
    """Refuse flow control that cannot work, naming the option."""
    if flow.limit is not None:
        check_limit(flow.limit)
    key: object = flow.limit_key
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY and key.isprintable()):
        raise ConfigError(
            "limit_key", key, "a path into the arguments such as args.customer, or a fixed text"
        )
    if key is not None and flow.limit is None:
        raise ConfigError("limit_key", key, because="it needs a limit beside it: limit=3")
    if flow.rate is not None:
        check_rate(flow.rate)
    age: object = flow.age
    if age is not None and not (isinstance(age, timedelta) and timedelta(0) < age <= LONGEST_AGE):
        raise ConfigError("age", age, "a number of seconds above zero, or None")
    return flow


def check_limit(limit: object) -> None:
    """Refuse a number of jobs that cannot be a limit."""
    if not is_whole(limit, 1, MAX_LIMIT):
        raise ConfigError("limit", limit, f"a whole number from 1 to {MAX_LIMIT:,}, or None for no limit")


def check_rate(rate: object) -> None:
    """Refuse a rate that is none."""
    if not isinstance(rate, Rate):
        raise ConfigError("rate", rate, "a rate, for example windlass.per_second(5, burst=10)")
    per_second: object = rate.per_second
    if not (is_number(per_second, 0, MAX_LIMIT) and per_second):
        raise ConfigError("rate", per_second, "a number above zero")
    if not is_whole(rate.burst, 1, MAX_LIMIT):
        raise ConfigError("burst", rate.burst, f"a whole number from 1 to {MAX_LIMIT:,}")


def check_path(limit_key: str | None, parameters: Container[str]) -> None:
    """Refuse a path to a parameter that the handler does not have."""
    if limit_key is not None and limit_key.startswith(_PATH) and limit_key.split(".")[1] not in parameters:
        raise ConfigError("limit_key", limit_key, "a path that begins with one of the handler's parameters")


def limit_of(flow: Flow, args_json: str, key: str | None = None) -> JobLimit:
    """The limit of a job in a phase; ``key`` replaces the one that the phase's path finds."""
    if flow.limit is None:
        return JobLimit(phase=flow.phase, rate=flow.rate)
    if key is None:
        key = key_in(flow.limit_key, args_json)
    return JobLimit(phase=flow.phase, key=key, limit=flow.limit, rate=flow.rate)


def key_in(limit_key: str | None, args_json: str) -> str:
    """The key that a path finds in arguments; a fixed key is itself, and None is one key for the whole phase."""
    if limit_key is None:
        return ""
    if not limit_key.startswith(_PATH):
        return limit_key
    value = json.loads(args_json)
    for name in limit_key.split(".")[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(
            "limit_key", limit_key, "a path to a text or a number; these arguments have none there"
        )
    key = str(value)
    if len(key) > MAX_KEY or not key.isprintable():
        raise ConfigError(
            "limit_key",
            limit_key,
            f"a path to at most {MAX_KEY} printable characters; these arguments have others there",
        )
    return key
