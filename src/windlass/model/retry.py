"""Backoff policies: attempt number and error → how long to wait, or that it is over.

A policy is a value. The same ones serve durable retries (a scheduled job with a later run-at) and short retries inside a
step (per chunk, per external call). Delays are never zero after a failure and always capped; jitter spreads the retries of
many jobs that failed together, so that they do not come back together.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from windlass.errors import ConfigError
from windlass.model import as_duration
from windlass.ranges import Range

SHORTEST = timedelta(milliseconds=10)
LONGEST = timedelta(days=30)


class RetryPolicy(Protocol):
    """How often a job is tried, and how long it waits in between."""

    @property
    def attempts(self) -> int:
        """How many attempts there are in all, the first included."""
        ...

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta:
        """How long to wait after attempt number ``attempt`` (1, 2, …) failed with ``error``."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """base, 2·base, 4·base, … up to ``longest``, each shifted by up to ± ``jitter`` of itself."""

    attempts: int
    base: timedelta
    longest: timedelta
    jitter: float
    random: Callable[[], float] = random.random

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta:
        grown = min(self.longest.total_seconds(), self.base.total_seconds() * 2.0 ** min(attempt - 1, 60))
        shift = 1 + self.jitter * (2 * self.random() - 1)
        return _bounded(timedelta(seconds=grown * shift), self.longest)


@dataclass(frozen=True, slots=True)
class Linear:
    """step, 2·step, 3·step, …"""

    attempts: int
    step: timedelta

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta:
        return _bounded(self.step * attempt, LONGEST)


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same wait every time."""

    attempts: int
    wait: timedelta

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta:
        return _bounded(self.wait, LONGEST)


@dataclass(frozen=True, slots=True)
class Custom:
    """The user's own function of attempt number and error; seconds or a timedelta."""

    attempts: int
    function: Callable[[int, BaseException | None], float | timedelta]

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta:
        return as_delay(self.function(attempt, error))


def as_delay(wanted: object) -> timedelta:
    """The delay that a policy returned, seconds or a timedelta, within bounds. A policy may be the user's own."""
    delay = as_duration(wanted)
    if not isinstance(delay, timedelta):
        raise ConfigError("retry delay", wanted, "seconds as a number, or a timedelta")
    return _bounded(delay, LONGEST)


def exponential(
    attempts: int = 3, *, base: float = 1.0, longest: float = 300.0, jitter: float = 0.2
) -> Exponential:
    """The default: waits double from ``base`` seconds up to ``longest``, with ± ``jitter`` (a ratio) of randomness."""
    _require("attempts", attempts, 1, 32_000)
    _require("base", base, 0.001, LONGEST.total_seconds())
    _require("longest", longest, base, LONGEST.total_seconds())
    _require("jitter", jitter, 0.0, 1.0)
    return Exponential(attempts, timedelta(seconds=base), timedelta(seconds=longest), jitter)


def linear(attempts: int = 3, *, step: float = 1.0) -> Linear:
    """``step`` seconds, then twice, then three times as long."""
    _require("attempts", attempts, 1, 32_000)
    _require("step", step, 0.001, LONGEST.total_seconds())
    return Linear(attempts, timedelta(seconds=step))


def fixed(attempts: int = 3, *, wait: float = 1.0) -> Fixed:
    """``wait`` seconds each time."""
    _require("attempts", attempts, 1, 32_000)
    _require("wait", wait, 0.001, LONGEST.total_seconds())
    return Fixed(attempts, timedelta(seconds=wait))


def custom(attempts: int, function: Callable[[int, BaseException | None], float | timedelta]) -> Custom:
    """Your own function: attempt number (1, 2, …) and error in, seconds or a timedelta out."""
    _require("attempts", attempts, 1, 32_000)
    if not callable(function):
        raise ConfigError("function", function, "a function of attempt number and error")
    return Custom(attempts, function)


def _bounded(delay: timedelta, longest: timedelta) -> timedelta:
    return max(SHORTEST, min(delay, longest))


def _require(key: str, value: object, least: float, most: float) -> None:
    Range(least, most).check(f"retry {key}", value)
