"""Which new jobs may notify those who wait: enough of them that nobody waits in vain, and few, because each costs.

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
INBOX = "@inbox"  # what is remembered here under this name is told to LATER


class NotifyThrottle:
    """Remembers when it was last told whom that there is work. Safe to share between threads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._told: dict[str, float] = {}
        self._inbox_since, self._inbox_count = float("-inf"), 0
        self._lock = threading.Lock()
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """A thread of the parent may hold the lock."""
        self._lock = threading.Lock()

    def note_told(self, phases: Sequence[str]) -> None:
        """Somebody waited for these, and was told."""
        if phases:
            now = self._monotonic()
            with self._lock:
                self._told.update((phase, now) for phase in phases)

    def among(self, entries: Sequence[CheckedJob], *, inbox: bool) -> set[str]:
        """The jobs that may notify: one per phase, and none for a phase told less than 5 ms ago.

        Only notifications that were really sent count, so a job enqueued just before somebody began to wait does not
        silence the next one.
        """
        if inbox:
            return {entries[0].id} if entries and self._may_tell_inbox() else set()
        now = self._monotonic()
        notify_throttle: dict[str, str] = {}
        with self._lock:
            for entry in entries:
                job = entry.job
                is_later = job.after or job.delay or job.run_at or job.limits
                phase = LATER if is_later else entry.phase
                if now - self._told.get(phase, float("-inf")) >= NOTIFY_EVERY:
                    notify_throttle.setdefault(phase, entry.id)
        return set(notify_throttle.values())

    def _may_tell_inbox(self) -> bool:
        """Whether a caller's transaction may notify: nearly always.

        The hint comes with its commit, which may be long after another one's hint was heard and done with. So only beyond
        200 a second, when the next one's hint is near, most are left out. (16 callers: 700 transactions/s with a hint in each, 1,500 so.)
        """
        now = self._monotonic()
        with self._lock:
            if now - self._inbox_since >= INBOX_WINDOW:
                self._inbox_since, self._inbox_count = now, 0
            self._inbox_count += 1
            is_free = self._inbox_count <= INBOX_FREE
            return is_free or now - self._told.get(INBOX, float("-inf")) >= NOTIFY_EVERY
