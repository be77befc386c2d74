"""The listener thread: notifications in, hints out. Nothing but speed rests on it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from windlass.errors import StoreError
from windlass.observe.logger import get_logger, thread
from windlass.store.database import CANCEL, LATER, NUDGE, RECONNECTED, Listener
from windlass.store.jobs.holder import CancelAsked

log = get_logger("windlass.engine")

LISTEN_FOR = 0.25
TRY_AGAIN = 1.0


class Listening:
    """Sorts what it hears: a phase has work, something is due later, a job should stop."""

    def __init__(
        self,
        listen: Callable[[], Listener],
        *,
        on_phase: Callable[[str | None], None],
        on_later: Callable[[], None],
        on_nudge: Callable[[str], None],
        on_cancel: Callable[[CancelAsked], None],
        on_listening: Callable[[bool], None],
    ) -> None:
        self._listen = listen
        self._on_phase = on_phase
        self._on_later = on_later
        self._on_nudge = on_nudge
        self._on_cancel = on_cancel
        self._on_listening = on_listening
        self._over = threading.Event()
        self.is_listening = False
        self._thread = thread(self._run, "windlass-listener")

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait: float = LISTEN_FOR + 1) -> None:
        self._over.set()
        self._thread.join(wait)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                listener = self._listen()
            except StoreError:
                self._note(False)
                self._over.wait(TRY_AGAIN)
                continue
            try:
                self._hear(listener)
            except Exception:
                log.exception("the listener met an error it did not expect; it starts again")
                self._over.wait(TRY_AGAIN)
            finally:
                self._note(False)
                listener.close()

    def _hear(self, listener: Listener) -> None:
        while not self._over.is_set():
            hints = listener.wait(LISTEN_FOR)
            self._note(listener.is_connected)
            for hint in dict.fromkeys(hints):
                self._sort(hint)

    def _note(self, is_listening: bool) -> None:
        if is_listening != self.is_listening:
            self.is_listening = is_listening
            self._on_listening(is_listening)

    def _sort(self, hint: str) -> None:
        if hint == RECONNECTED:
            self._on_phase(None)
            self._on_later()
        elif hint == LATER:
            self._on_later()
        elif hint.startswith(NUDGE):
            self._on_nudge(hint.removeprefix(NUDGE))
        elif hint.startswith(CANCEL):
            job, _, token = hint.removeprefix(CANCEL).partition(" ")
            self._on_cancel(CancelAsked(job, int(token)))
        else:
            self._on_phase(hint)
