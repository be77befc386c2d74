"""The listener thread: turns notifications into hints. Only speed depends on it."""

from __future__ import annotations

import threading
import time

from windlass.engine.announcer import Announcer
from windlass.engine.duties import Duties
from windlass.engine.instance import Instance
from windlass.engine.stats import Stats
from windlass.engine.step import Stepper
from windlass.engine.stopper import Stopper
from windlass.errors import StoreError
from windlass.observe.logger import get_logger, thread
from windlass.store.database import CANCEL, LATER, NUDGE, RECONNECTED, WAITERS, WATCHERS, Listener
from windlass.store.jobs.holder_results import CancelRequest

log = get_logger("windlass.engine")

LISTEN_FOR = 0.25
TRY_AGAIN = 1.0
FIRST_CONNECT = 5.0
"""Seconds that the first connection may take before its absence is a fault: every start would be reported as degraded otherwise."""


class Listening:
    """Receives notifications (a phase has work, a job is due later, a job should stop, callers wait, people watch) and forwards each to the part that acts on it."""

    def __init__(
        self,
        instance: Instance,
        stats: Stats,
        stepper: Stepper,
        stopper: Stopper,
        duties: Duties,
        announcer: Announcer,
    ) -> None:
        self._instance = instance
        self._stepper = stepper
        self._stopper = stopper
        self._duties = duties
        self._announcer = announcer
        self._stats = stats
        self._has_listened = False
        self._expected_at = time.monotonic() + FIRST_CONNECT
        self._over = threading.Event()
        self._listener: Listener | None = None
        self.is_listening = False
        self._thread = thread(self._run, "windlass-listener")

    @property
    def is_missing(self) -> bool:
        """Notifications do not arrive, though they did before or have had time to begin."""
        is_late = self._has_listened or time.monotonic() > self._expected_at
        return is_late and not self.is_listening and not self._over.is_set()

    def start(self) -> None:
        self._expected_at = time.monotonic() + FIRST_CONNECT
        self._thread.start()

    def stop(self, wait: float = LISTEN_FOR + 1) -> None:
        self._over.set()
        if (listener := self._listener) is not None:
            listener.interrupt()
        self._thread.join(wait)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._listener = listener = self._instance.store.listen()
            except StoreError:
                self._set_listening(False)
                self._over.wait(TRY_AGAIN)
                continue
            try:
                self._receive(listener)
            except Exception:
                log.exception("unexpected error in the listener; it starts again")
                self._over.wait(TRY_AGAIN)
            finally:
                self._set_listening(False)
                listener.close()

    def _receive(self, listener: Listener) -> None:
        while not self._over.is_set():
            hints = listener.wait(LISTEN_FOR)
            self._set_listening(listener.is_connected)
            for hint in dict.fromkeys(hints):
                self._forward(hint)

    def _set_listening(self, is_listening: bool) -> None:
        if is_listening != self.is_listening:
            self.is_listening = is_listening
            if is_listening and self._has_listened:
                self._stats.count("reconnects")
            self._has_listened = self._has_listened or is_listening
            self._stepper.set_listening(is_listening)

    def _forward(self, hint: str) -> None:
        if hint == RECONNECTED:
            self._duties.check_everything()
            self._duties.ask("agenda")
        elif hint == LATER:
            self._duties.ask("agenda")
        elif hint == WAITERS:
            self._announcer.ask()
        elif hint.startswith(WATCHERS):
            self._duties.watched(float(hint.removeprefix(WATCHERS)))
        elif hint.startswith(NUDGE):
            phase = hint.removeprefix(NUDGE)
            self._instance.holder.nudge(phase)
            self._stepper.hint(phase)
        elif hint.startswith(CANCEL):
            job, _, token = hint.removeprefix(CANCEL).partition(" ")
            self._stopper.cancel(CancelRequest(job, int(token)))
        else:
            self._stepper.hint(hint)
