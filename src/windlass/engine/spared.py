"""Attempts that are not counted, because the job is probably not the cause of their end."""

from __future__ import annotations

import threading

from windlass.model import Lease


class SparedAttempts:
    """Counts how often an attempt ended because of a locked database, or of a lease that could not be renewed. Such an attempt is not
    counted; but the job may be the cause, and would repeat for ever, so only ``spared`` of them are free."""

    KEPT = 1_000

    def __init__(self, spared: int) -> None:
        self._spared = spared
        self._met: dict[tuple[str, int, str, int], int] = {}
        self._lock = threading.Lock()

    def is_too_often(self, lease: Lease) -> bool:
        key = (lease.id, lease.generation, lease.phase, lease.attempt)
        with self._lock:
            count = self._met.pop(key, 0) + 1
            if count > self._spared:
                return True
            self._met[key] = count
            if len(self._met) > self.KEPT:
                del self._met[next(iter(self._met))]
            return False
