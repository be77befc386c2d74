"""Announces the ends of jobs to callers that wait for results, while there are such callers.

Callers ask for it by a notification that every worker receives, and repeat it while they wait. Until then nothing is kept and nothing is
sent. Ends are sent by a thread of their own, those of several steps together: the step thread does not wait for it. An announcement
that is lost costs the caller a moment: waited-for jobs are read again after growing pauses.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from windlass.engine.instance import Instance
from windlass.errors import StoreError
from windlass.model import Advanced, Outcome, Released
from windlass.observe.logger import get_logger, thread

log = get_logger("windlass.engine")

ASKED_FOR = 15.0
"""Seconds that one request to announce ends counts for; callers repeat it every 5 s."""
MOST = 2000
"""The most ends that one call announces."""


class Announcer:
    """Sends the ids of ended jobs to callers that wait."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._ended: deque[str] = deque()
        self._wake = threading.Event()
        self._is_over = False
        self._until = 0.0
        self._thread: threading.Thread | None = None
        self.is_asked = False
        """Whether callers wait. A plain attribute: the step thread reads it at each step."""

    def ask(self) -> None:
        """Note that callers wait for ends; listener thread only."""
        self._until = time.monotonic() + ASKED_FOR
        if self._is_over:
            return
        if self._thread is None:
            self._thread = thread(self._run, "windlass-announcer")
            self._thread.start()
        self.is_asked = True

    def recorded(self, outcomes: Iterable[Outcome]) -> None:
        """Announce the jobs of these outcomes, except jobs that moved to their next phase or were given back; from any thread."""
        self.ended(outcome.lease.id for outcome in outcomes if not isinstance(outcome, Advanced | Released))

    def ended(self, ids: Iterable[str]) -> None:
        """Announce these jobs; from any thread."""
        self._ended.extend(ids)
        self._wake.set()

    def stop(self, wait: float = 1.0) -> None:
        """Send what is left and end the thread."""
        self._is_over = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(wait)

    def _run(self) -> None:
        while True:
            self._wake.wait(ASKED_FOR)
            self._wake.clear()
            is_over = self._is_over
            while self._ended:
                self._announce([self._ended.popleft() for _ in range(min(MOST, len(self._ended)))])
            if is_over:
                return
            if self.is_asked and time.monotonic() > self._until:
                self.is_asked = False

    def _announce(self, ids: list[str]) -> None:
        try:
            self._instance.store.ends.announce(ids)
        except StoreError:
            log.debug("%d ends could not be announced; callers that wait read them later", len(ids))
