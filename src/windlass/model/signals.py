"""Exceptions that a handler raises to steer its job: signals, not errors.

    raise Retry(after=30)              # try again later, the attempt counts
    raise Fail("bad_county", "…")      # no further attempt
    raise Cancel("no longer needed")   # end as cancelled

Any other exception follows the phase's retry policy.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from windlass.arguments.json_checks import text_of
from windlass.errors import ConfigError
from windlass.model import as_duration


class Signal(Exception):  # noqa: N818  a signal, not an error
    """Base of the signals a handler can raise."""


class Retry(Signal):
    """Try this job again, after ``after`` seconds or by the policy; ``counted=False`` does not spend an attempt."""

    def __init__(
        self,
        message: str = "retry asked for",
        *,
        after: float | timedelta | None = None,
        counted: bool = True,
    ) -> None:
        given: object = message
        if isinstance(given, int | float | timedelta):
            raise ConfigError(
                "Retry", given, because=f"it begins with a message; write Retry(after={given!r})"
            )
        wait = as_duration(after)
        if wait is not None and not (isinstance(wait, timedelta) and wait >= timedelta(0)):
            raise ConfigError("Retry after", after, "seconds as a number, or a timedelta, from zero")
        self.message = text_of(message)
        super().__init__(self.message)
        self.after = wait
        self.counted = counted


class Fail(Signal):
    """End this job as failed, with a code that machines can read; no further attempt."""

    def __init__(self, code: str, message: str = "") -> None:
        self.code = text_of(code)
        self.message = text_of(message) or self.code
        super().__init__(self.message)


class BadResult(Fail):
    """Raised by a transaction whose ``tx.complete(result)`` was given what cannot be stored: as with a bad return value, no further attempt."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_result", message)


class Cancel(Signal):
    """End this job as cancelled."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        self.reason = text_of(reason)
        super().__init__(self.reason)


class Stopped(Signal):
    """Raised inside a handler that should stop: it was cancelled, ran out of time, or its instance stops."""

    def __init__(self) -> None:
        super().__init__("this job should stop now")


STOPPED = (asyncio.CancelledError, Stopped)
"""Exceptions of a handler that stopped on request."""
