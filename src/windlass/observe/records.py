"""One record of what happened: its name, its level, its fields.

Events (events.py) say what there is to tell; this writes it, and keeps what goes wrong there away from whoever told it.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

log = logging.getLogger("windlass.engine")

LEVELS = {
    "job.started": logging.DEBUG,
    "job.completed": logging.DEBUG,
    "job.advanced": logging.DEBUG,
    "job.retried": logging.WARNING,
    "job.failed": logging.ERROR,
    "job.cancelled": logging.INFO,
    "job.released": logging.INFO,
    "job.recovered": logging.WARNING,
    "job.lost": logging.WARNING,
    "job.refused": logging.WARNING,
    "job.overdue": logging.WARNING,
    "job.summary": logging.INFO,
    "duplicate.prevented": logging.INFO,
    "phase.held_back": logging.INFO,
    "phase.unserved": logging.WARNING,
    "drain.held_up": logging.WARNING,
    "lock.held": logging.INFO,
    "lock.lost": logging.WARNING,
    "lock.degraded": logging.WARNING,
    "lock.restored": logging.INFO,
    "schedule.defined": logging.INFO,
    "rule.defined": logging.INFO,
    "schedule.fired": logging.DEBUG,
    "schedule.missed": logging.WARNING,
    "schedule.refused": logging.ERROR,
    "processor.replaced": logging.WARNING,
    "policy.broken": logging.WARNING,
    "thread.missing": logging.WARNING,
    "lease.lost": logging.ERROR,
    "instance.started": logging.INFO,
    "instance.stopping": logging.INFO,
    "instance.stopped": logging.INFO,
    "instance.left_behind": logging.WARNING,
    "instance.self_stopped": logging.ERROR,
    "instance.health": logging.INFO,
    "metrics.listening": logging.INFO,
    "process.ended": logging.WARNING,
    "loop.blocked": logging.WARNING,
    "store.unreachable": logging.WARNING,
    "store.back": logging.INFO,
}
"""Every event and its level; ``instance.health`` is a WARNING where something is degraded or down."""


def enabled(level: int) -> bool:
    """Whether records of a level go anywhere, so that whole batches can be left out."""
    return log.isEnabledFor(level)


class Quiet:
    """Lets one record a second through and counts the others."""

    def __init__(self, seconds: float = 1.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._skipped = 0

    def skipped(self) -> int | None:
        """How many were left out before this one; None where this one is to be left out, too."""
        with self._lock:
            now = self._monotonic()
            if now < self._next:
                self._skipped += 1
                return None
            self._next = now + self._seconds
            count, self._skipped = self._skipped, 0
            return count


_unwritable = Quiet()


def emit(event: str, message: str, *, level: int | None = None, **fields: Any) -> None:
    """One record; fields that are None are left out.

    A handler or filter of the application that raises is reported on stderr, once a second: whoever tells something is
    in the middle of it, with claimed jobs in its hands.
    """
    level = LEVELS[event] if level is None else level
    if log.isEnabledFor(level):
        known = {name: value for name, value in fields.items() if value is not None}
        try:
            log.log(level, message, extra={"event": event, **known}, stacklevel=3)
        except Exception:  # noqa: BLE001  whatever it is, it is not the job's fault
            with suppress(Exception):  # stderr may be closed, too
                if (skipped := _unwritable.skipped()) is not None:
                    others = f", and {skipped} before it" if skipped else ""
                    sys.stderr.write(f"windlass: the log refused {event}{others}\n")
                    traceback.print_exc()
