"""The upkeep thread: runs duties when they are due, one after the other, each on its own.

A duty that fails is logged and tried again later; the others go on. One that keeps failing is a warning and shows in health
(troubles.py). Duties are safe on every instance at once.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from windlass.errors import StoreUnreachableError
from windlass.observe.logger import thread
from windlass.upkeep.troubles import Troubles

FOREVER = float("inf")
NEVER = 1e9
"""The interval of a duty that runs only when it is asked for."""

TRY_AGAIN = 1.0


@dataclass(slots=True)
class Duty:
    """Something to be done every ``every`` seconds (± ``jitter`` of it), or when asked for: first after a random part of that time, so that
    instances that start together do not all do it at once, ``at_start``, or ``after_interval``.

    ``run`` may return the seconds until it wants to run next; None leaves it at ``every``.
    """

    name: str
    run: Callable[[], float | None]
    every: float
    jitter: float = 0.1
    at_start: bool = False
    after_interval: bool = False
    due_at: float = field(default=0.0)


class UpkeepLoop:
    """Owns the upkeep thread. ``over`` is set when the loop is to stop; ``at_end`` is called on the thread after the last duty."""

    def __init__(
        self,
        duties: Sequence[Duty],
        name: str = "windlass-upkeep",
        *,
        troubles: Troubles | None = None,
        over: threading.Event | None = None,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._duties = list(duties)
        self._troubles = troubles or Troubles()
        now = time.monotonic()
        for duty in self._duties:
            share = 0.0 if duty.at_start else 1.0 if duty.after_interval else random.random()
            duty.due_at = now + duty.every * share
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = over or threading.Event()
        self._at_end = at_end
        self._thread = thread(self._run, name)

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait: float = 5.0) -> None:
        self.end_soon()
        self._thread.join(wait)

    def end_soon(self) -> None:
        """Have the thread end after the duty that it is doing."""
        self._over.set()
        self._wake.set()

    def ask(self, name: str, after: float = 0.0) -> None:
        """Have a duty run soon; from any thread."""
        at = time.monotonic() + after
        with self._lock:
            for duty in self._duties:
                if duty.name == name and at < duty.due_at:
                    duty.due_at = at
                    self._wake.set()

    def _run(self) -> None:
        try:
            self._do_all()
        finally:
            if self._at_end is not None:
                self._at_end()

    def _do_all(self) -> None:
        while not self._over.is_set():
            with self._lock:
                nearest = min((duty.due_at for duty in self._duties), default=FOREVER)
            self._wake.wait(min(60.0, max(0.0, nearest - time.monotonic())))
            self._wake.clear()
            for duty in self._duties:
                if not self._over.is_set() and duty.due_at <= time.monotonic():
                    self._do(duty)

    def _do(self, duty: Duty) -> None:
        with self._lock:  # before it runs: a request that comes while it runs is served afterwards
            duty.due_at = time.monotonic() + duty.every * (1 + duty.jitter * (2 * random.random() - 1))
        try:
            wanted = duty.run()
        except Exception as error:  # noqa: BLE001  the other duties go on after any error
            self._troubles.failed(duty.name, error)
            if not isinstance(error, StoreUnreachableError):
                return
            wanted = TRY_AGAIN
        else:
            self._troubles.worked(duty.name)
        if wanted is not None:
            with self._lock:
                duty.due_at = min(duty.due_at, time.monotonic() + wanted)
