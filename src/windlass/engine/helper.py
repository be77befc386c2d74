"""A thread that does one thing whenever it is woken, and nothing between."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from windlass.engine.waker import Waker

log = logging.getLogger("windlass.engine")

NAP = 60.0


class Helper:
    """The second hand of the step thread."""

    def __init__(self, work: Callable[[], None], name: str = "windlass-step-2") -> None:
        self._work = work
        self._is_over = False
        self.waker = Waker()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self, deadline: float) -> None:
        """Let it finish what it is at, until ``deadline``."""
        self._is_over = True
        self.waker.wake()
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while not self._is_over:
            if not self.waker.sleep(NAP):
                continue
            try:
                self._work()
            except Exception:
                log.exception("the second step thread met an error it did not expect; it goes on")
