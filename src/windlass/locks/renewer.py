"""The one thread that looks after all locks of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable

from windlass.observe.logger import get_logger, thread

log = get_logger("windlass.locks")

TRY_AGAIN = 1.0


class Renewer:
    """Calls ``turn``, then sleeps as many seconds as it answers; starts when it is first woken, and is a daemon."""

    def __init__(self, turn: Callable[[], float]) -> None:
        self._turn = turn
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_over = False
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Have the thread think again about when its next turn is."""
        with self._lock:
            if self._thread is None and not self._is_over:
                self._thread = thread(self._run, "windlass-locks")
                self._thread.start()
        self._wake.set()

    def start(self) -> None:
        """Make sure that the thread runs."""
        if self._thread is None:
            self.wake()

    def close(self, wait: float = 2.0) -> None:
        with self._lock:
            self._is_over = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(wait)

    def _run(self) -> None:
        while not self._is_over:
            self._wake.clear()
            try:
                pause = self._turn()
            except Exception:
                log.exception("locks could not be renewed; it is tried again")
                pause = TRY_AGAIN
            self._wake.wait(max(0.0, pause))
