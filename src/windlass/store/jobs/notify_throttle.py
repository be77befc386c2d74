"""Decides which new jobs notify waiting instances: enough that none waits for its next poll, and few, because each costs.

NOTIFY takes a lock of the whole cluster until its commit is on disk: one per enqueue cost five sixths of the throughput.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from windlass import forking
from windlass.store.database import LATER
from windlass.store.jobs.checked import CheckedJob

NOTIFY_EVERY = 0.005
INBOX_WINDOW, INBOX_FREE = 0.1, 20
INBOX = "@inbox"  # the key of notifications that are sent to LATER


class NotifyThrottle:
    """Remembers when each phase was last notified of work. Safe to share between threads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._notified: dict[str, float] = {}
        self._inbox_since, self._inbox_count = float("-inf"), 0
        self._lock = threading.Lock()
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Make a new lock: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def note_notified(self, phases: Sequence[str]) -> None:
        """Remember that these phases were notified now."""
        if phases:
            now = self._monotonic()
            with self._lock:
                self._notified.update((phase, now) for phase in phases)

    def among(self, entries: Sequence[CheckedJob], *, inbox: bool) -> set[str]:
        """The jobs that may notify: one per phase, and none for a phase notified less than 5 ms ago.

        Only notifications that were really sent count, so a job enqueued just before an instance began to wait does not
        suppress the next notification.
        """
        if inbox:
            return {entries[0].id} if entries and self._may_notify_inbox() else set()
        now = self._monotonic()
        notify_throttle: dict[str, str] = {}
        with self._lock:
            for entry in entries:
                job = entry.job
                is_later = job.after or job.delay or job.run_at or job.limits
                phase = LATER if is_later else entry.phase
                if now - self._notified.get(phase, float("-inf")) >= NOTIFY_EVERY:
                    notify_throttle.setdefault(phase, entry.id)
        return set(notify_throttle.values())

    def _may_notify_inbox(self) -> bool:
        """Whether a caller's transaction may notify: nearly always.

        The hint comes with its commit, which may be long after another one's hint was received and handled. So only beyond
        200 a second, when the next one's hint is near, most are left out. (16 callers: 700 transactions/s with a hint in each, 1,500 so.)
        """
        now = self._monotonic()
        with self._lock:
            if now - self._inbox_since >= INBOX_WINDOW:
                self._inbox_since, self._inbox_count = now, 0
            self._inbox_count += 1
            is_free = self._inbox_count <= INBOX_FREE
            return is_free or now - self._notified.get(INBOX, float("-inf")) >= NOTIFY_EVERY
