"""Waiting for what a test expects: for the event itself, never for an amount of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 90.0
"""Seconds after which a test stops waiting for something that should happen. It only ends a test that hangs, and states no promise:
what takes 10 ms alone took 10 s on two cores beside two dozen busy processes, and a test that starts Python programs took 60 s. It
stays below pytest's limit for a test, so that the test itself says what did not happen; timers that a test must not be saved by are set
to more than this."""

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.05
"""Seconds between two checks. A check asks a database, and four processes that check 200 times a second leave the jobs that they wait for
a core less: a pause grows to a tenth of the time already waited."""


def eventually(
    holds: Callable[[], Any], what: str | Callable[[], Any] = "", seconds: float = PATIENCE
) -> Any:
    """Wait until ``holds`` returns something true, and return that; ``what`` (or what it returns) goes into the failure."""
    began = time.monotonic()
    while not (found := holds()):
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"did not happen within {seconds:g} s: {what() if callable(what) else what}")
        time.sleep(min(max(FIRST_PAUSE, waited / 10), LONGEST_PAUSE))
    return found


class Time:
    """A monotonic clock that stands still until a test sets ``now``."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now
