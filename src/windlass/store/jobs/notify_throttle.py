"""Decides which new jobs notify waiting instances: enough that none waits for its next poll, and few, because each costs.

NOTIFY takes a lock of the whole cluster until its commit is on disk: one per enqueue cost five sixths of the throughput of 32 callers. So
after a notification none is sent for twice the time that its own enqueue took: little while no other caller notifies (a job that comes then
waits for the next one's notification, or for the second scan), and more the longer callers wait for the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from windlass import forking
from windlass.store.database import LATER
from windlass.store.jobs.checked import CheckedJob

NOTIFY_EVERY = 0.005
"""The longest pause after a notification. The second scan (``engine/discovery.py``) finds the jobs of the pause, so it has to come later."""
PAUSE_SHARE = 2.0
INBOX_WINDOW, INBOX_FREE = 0.1, 20
INBOX = "@inbox"  # the key of notifications that are sent to LATER


class NotifyThrottle:
    """Remembers when each phase was last notified of work. Safe to share between threads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._quiet_until: dict[str, float] = {}
        self._inbox_since, self._inbox_count = float("-inf"), 0
        self._lock = threading.Lock()
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Make a new lock: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def note_notified(self, phases: Sequence[str], took: float = NOTIFY_EVERY) -> None:
        """Remember that these phases were notified now, by an enqueue that ``took`` so many seconds."""
        if phases:
            until = self._monotonic() + min(NOTIFY_EVERY, PAUSE_SHARE * took)
            with self._lock:
                self._quiet_until.update((phase, until) for phase in phases)

    def among(self, entries: Sequence[CheckedJob], *, inbox: bool) -> set[str]:
        """The jobs that may notify: one per phase, and none for a phase in the pause after a notification.

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
                if now >= self._quiet_until.get(phase, 0.0):
                    notify_throttle.setdefault(phase, entry.id)
        return set(notify_throttle.values())

    def may_notify(self, phase: str) -> bool:
        """``among`` for one job that is ready now."""
        return self._monotonic() >= self._quiet_until.get(phase, 0.0)

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
            return is_free or now >= self._quiet_until.get(INBOX, 0.0)
