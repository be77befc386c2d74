"""Backoff policies: attempt number and error → how long to wait, or None: no further attempt.

A policy is a value. The same policies serve durable retries (a scheduled job with a later run-at) and short retries inside an
attempt (per chunk, per external call). Delays are never zero after a failure and always capped; jitter spreads the retries of
many jobs that failed together, so that they do not come back together.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from windlass.errors import ConfigError, LeaseLost, StoreError
from windlass.model import as_duration
from windlass.model.signals import Retry, Signal
from windlass.ranges import Range

SHORTEST = timedelta(milliseconds=10)
LONGEST = timedelta(days=30)


ErrorType = type[Exception]
ErrorTypes = ErrorType | Iterable[ErrorType]
"""One exception type, or several."""


class RetryPolicy(Protocol):
    """How often a job is tried, and how long it waits in between."""

    @property
    def attempts(self) -> int:
        """How many attempts there are in all, the first included."""
        ...

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta | float | None:
        """How long to wait after attempt number ``attempt`` (1, 2, …) failed with ``error``; None: no further attempt.

        ``error`` is None if the attempt ended without an exception of the handler, as at a time limit.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selective:
    """The exceptions that a policy retries: the ones of ``on`` (None: all) without the ones of ``give_up_on``."""

    on: tuple[ErrorType, ...] | None = None
    give_up_on: tuple[ErrorType, ...] = ()

    def refusal(self, error: BaseException | None) -> str | None:
        """Return why an error is not retried; None if it is.

        ``Retry`` is always retried. ``on`` lists errors of the handler's own work, so it does not exclude errors of Windlass's database.
        """
        if error is None or (self.on is None and not self.give_up_on) or isinstance(error, Retry):
            return None
        first = _types_of(error)[0]
        name = first[1].rpartition(".")[2]
        for cls in self.give_up_on:
            if _is(error, cls):
                is_itself = first == (cls.__module__, cls.__qualname__)
                return f"{name} is {'' if is_itself else f'a {cls.__name__}, which is '}in give_up_on"
        if self.on is None or isinstance(error, StoreError | LeaseLost):
            return None
        if any(_is(error, cls) for cls in self.on):
            return None
        return f"{name} is not in on ({', '.join(cls.__name__ for cls in self.on)})"


@dataclass(frozen=True, slots=True)
class Exponential(Selective):
    """base, 2·base, 4·base, … up to ``longest``, each shifted by up to ± ``jitter`` of itself."""

    attempts: int
    base: timedelta
    longest: timedelta
    jitter: float
    random: Callable[[], float] = random.random

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta | None:
        if self.refusal(error):
            return None
        grown = min(self.longest.total_seconds(), self.base.total_seconds() * 2.0 ** min(attempt - 1, 60))
        shift = 1 + self.jitter * (2 * self.random() - 1)
        return _bounded(timedelta(seconds=grown * shift), self.longest)


@dataclass(frozen=True, slots=True)
class Linear(Selective):
    """step, 2·step, 3·step, …"""

    attempts: int
    step: timedelta

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta | None:
        return None if self.refusal(error) else _bounded(self.step * attempt, LONGEST)


@dataclass(frozen=True, slots=True)
class Fixed(Selective):
    """The same delay after every attempt."""

    attempts: int
    wait: timedelta

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta | None:
        return None if self.refusal(error) else _bounded(self.wait, LONGEST)


DelayFunction = Callable[[int, BaseException | None], float | timedelta | None]


@dataclass(frozen=True, slots=True)
class Custom(Selective):
    """The user's own function of attempt number and error; seconds or a timedelta, or None for no further attempt."""

    attempts: int
    function: DelayFunction

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta | None:
        if self.refusal(error):
            return None
        wanted = self.function(attempt, error)
        return None if wanted is None else as_delay(wanted)


def next_delay(policy: RetryPolicy, attempt: int, error: BaseException | None) -> timedelta | None:
    """Return the delay that a policy wants, within bounds; None: no further attempt. A policy of the user's own may raise anything."""
    wanted = policy.delay(attempt, error)
    return None if wanted is None else as_delay(wanted)


def why_stopped(policy: RetryPolicy, error: BaseException | None) -> str:
    """Return why a policy wants no further attempt after this error."""
    refusal = policy.refusal(error) if isinstance(policy, Selective) else None
    return f"not retried: {refusal or 'its retry policy returned None'}"


def as_delay(wanted: object) -> timedelta:
    """The delay that a policy returned, seconds or a timedelta, within bounds. A policy may be the user's own."""
    delay = as_duration(wanted)
    if not isinstance(delay, timedelta):
        raise ConfigError(
            "retry delay", wanted, "seconds as a number, a timedelta, or None for no further attempt"
        )
    return _bounded(delay, LONGEST)


def exponential(
    attempts: int = 3,
    *,
    base: float = 1.0,
    longest: float = 300.0,
    jitter: float = 0.2,
    on: ErrorTypes | None = None,
    give_up_on: ErrorTypes = (),
) -> Exponential:
    """The default: waits double from ``base`` seconds up to ``longest``, with ± ``jitter`` (a ratio) of randomness.

    With ``on`` only these exceptions and their subclasses are retried; exceptions of ``give_up_on`` never are.
    """
    _require("attempts", attempts, 1, 32_000)
    _require("base", base, 0.001, LONGEST.total_seconds())
    _require("longest", longest, base, LONGEST.total_seconds())
    _require("jitter", jitter, 0.0, 1.0)
    chosen = _chosen(on, give_up_on)
    return Exponential(attempts, timedelta(seconds=base), timedelta(seconds=longest), jitter, **chosen)


def linear(
    attempts: int = 3, *, step: float = 1.0, on: ErrorTypes | None = None, give_up_on: ErrorTypes = ()
) -> Linear:
    """``step`` seconds, then twice, then three times as long; ``on`` and ``give_up_on`` as in ``exponential``."""
    _require("attempts", attempts, 1, 32_000)
    _require("step", step, 0.001, LONGEST.total_seconds())
    return Linear(attempts, timedelta(seconds=step), **_chosen(on, give_up_on))


def fixed(
    attempts: int = 3, *, wait: float = 1.0, on: ErrorTypes | None = None, give_up_on: ErrorTypes = ()
) -> Fixed:
    """``wait`` seconds each time; ``on`` and ``give_up_on`` as in ``exponential``."""
    _require("attempts", attempts, 1, 32_000)
    _require("wait", wait, 0.001, LONGEST.total_seconds())
    return Fixed(attempts, timedelta(seconds=wait), **_chosen(on, give_up_on))


def custom(
    attempts: int, function: DelayFunction, *, on: ErrorTypes | None = None, give_up_on: ErrorTypes = ()
) -> Custom:
    """Your own function: attempt number (1, 2, …) and error in, seconds or a timedelta out, or None for no further attempt.

    It is not called for exceptions that ``on`` and ``give_up_on`` exclude.
    """
    _require("attempts", attempts, 1, 32_000)
    if not callable(function):
        raise ConfigError("function", function, "a function of attempt number and error")
    return Custom(attempts, function, **_chosen(on, give_up_on))


def _chosen(on: object, give_up_on: object) -> dict[str, Any]:
    """Check the exception types of a policy."""
    chosen = None if on is None else _error_types("on", on)
    if chosen == ():
        raise ConfigError(
            "retry on", on, "one or more exception types; None, the default, retries all of them"
        )
    return {"on": chosen, "give_up_on": _error_types("give_up_on", give_up_on)}


def _error_types(option: str, given: object) -> tuple[ErrorType, ...]:
    one = isinstance(given, type | str)
    found = (given,) if one else tuple(given) if isinstance(given, Iterable) else (given,)
    for cls in found:
        if not (isinstance(cls, type) and issubclass(cls, Exception)):
            raise ConfigError(
                f"retry {option}", cls, "an exception type (a subclass of Exception), or a tuple of them"
            )
        if issubclass(cls, Signal):
            raise ConfigError(
                f"retry {option}",
                cls,
                because="a policy does not change what Retry, Fail, Cancel and Stopped do",
            )
    return found


def _is(error: BaseException, cls: ErrorType) -> bool:
    """Whether an error has this type. The class of an exception of a child process may not exist here, so its name is compared, too."""
    return isinstance(error, cls) or (cls.__module__, cls.__qualname__) in _types_of(error)


def _types_of(error: BaseException) -> tuple[tuple[str, str], ...]:
    """Return modules and names of an exception's classes, its own first; of an exception of a child process those that it has there."""
    known = getattr(error, "windlass_bases", None)
    return known or ((type(error).__module__, type(error).__qualname__),)


def _bounded(delay: timedelta, longest: timedelta) -> timedelta:
    return max(SHORTEST, min(delay, longest))


def _require(key: str, value: object, least: float, most: float) -> None:
    Range(least, most).check(f"retry {key}", value)
