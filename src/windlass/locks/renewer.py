"""The thread that renews all locks of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable

from windlass.observe.logger import get_logger, thread

log = get_logger("windlass.locks")

TRY_AGAIN = 1.0


class Renewer:
    """Calls ``work``, then sleeps for the seconds that it returns; a daemon that starts when it is first woken."""

    def __init__(self, work: Callable[[], float]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_over = False
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Make the thread call ``work`` now."""
        with self._lock:
            if self._thread is None and not self._is_over:
                self._thread = thread(self._run, "windlass-locks")
                self._thread.start()
        self._wake.set()

    def start(self) -> None:
        """Start the thread if it does not run."""
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
                pause = self._work()
            except Exception:
                log.exception("unexpected error in the renewal of locks; it is tried again")
                pause = TRY_AGAIN
            self._wake.wait(max(0.0, pause))
