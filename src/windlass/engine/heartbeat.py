"""Renews the lease of an instance, on its own thread and connection.

A handler that blocks the event loop, a slow step or a long report cannot stop the heartbeat. When the database freezes during a beat, the
watchdog stops the jobs in time: it reads ``left`` and never uses the database.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from windlass.engine.instance import Instance
from windlass.engine.stats import Stats
from windlass.errors import LeaseLost, StoreError
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.observe.logger import get_logger, thread
from windlass.settings import Settings
from windlass.store.jobs.holder import UNKNOWN_GRACE
from windlass.store.jobs.holder_results import CancelRequest

log = get_logger("windlass.engine")

RETRY = 1.0
CHECK_EVERY = 0.5
FOREVER = float("inf")


class Heartbeat:
    """Renews the lease, and reports jobs to stop, a lost lease, and a restored lease."""

    def __init__(
        self,
        instance: Instance,
        settings: Settings,
        stats: Stats,
        *,
        on_cancelled: Callable[[Sequence[CancelRequest]], None],
        on_lost: Callable[[str], None],
        on_good: Callable[[bool], None],
    ) -> None:
        self._instance = instance
        self._settings = settings
        self._stats = stats
        self._on_cancelled = on_cancelled
        self._on_lost = on_lost
        self._on_good = on_good
        self.has_lease = True
        """Whether the lease has enough time left to claim under it; the watchdog sets it to False."""
        self._good_until = self._beaten_at = self._checked_at = time.monotonic()
        self._early_beats: list[float] = []
        self._early_lock = threading.Lock()
        self._check_at = FOREVER
        self._is_lost = False
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread = thread(self._run, "windlass-heartbeat")

    def join(self) -> None:
        """Become an instance; the lease counts from before the call."""
        began = time.monotonic()
        self._instance.join()
        self._good_until = began + self._settings.lease
        self._beaten_at = began
        self._is_lost = False

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait: float = 5.0) -> None:
        self._over.set()
        self._wake.set()
        self._thread.join(wait)

    @property
    def left(self) -> float:
        """Seconds left of the lease by the local clock, counted from before the last successful beat was sent."""
        return -1.0 if self._is_lost else self._good_until - time.monotonic()

    def beat_soon(self, seconds: float = 0.0) -> None:
        """Beat after ``seconds`` at the latest: the reply of a claim was lost, and the beat finds its jobs."""
        with (
            self._early_lock
        ):  # all are kept: a claim that is lost a second later is too recent for this beat
            self._early_beats.append(time.monotonic() + seconds)
        self._wake.set()

    @property
    def is_check_planned(self) -> bool:
        """Whether a check for cancels is planned."""
        return self._check_at != FOREVER

    def check_cancels(self) -> None:
        """Plan a check for cancelled jobs: there was a commit of unknown content (SQLite), or a notification may have been missed. One read,
        at most twice a second. A beat would be a commit itself, and cause the next check."""
        if not self.is_check_planned:
            self._check_at = max(time.monotonic(), self._checked_at + CHECK_EVERY)
            self._wake.set()

    def claim_failed(self) -> None:
        """Plan a beat because a claim may have been committed without a reply: when it is old enough to be distinguished from a running claim."""
        self.beat_soon(UNKNOWN_GRACE.total_seconds() + 0.2)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        next_at = self._beaten_at + self._settings.heartbeat
        while not self._over.is_set():
            at = min([next_at, self._check_at, *self._early_beats])
            self._wake.wait(max(0.0, min(1.0, at - time.monotonic())))
            self._wake.clear()
            now = time.monotonic()
            if now >= self._check_at and not self._over.is_set():
                self._read_cancels(now)
            if self._over.is_set() or now < min([next_at, *self._early_beats]):
                continue
            with self._early_lock:
                self._early_beats = [moment for moment in self._early_beats if moment > now]
            next_at = now + (
                self._settings.heartbeat if self._beat(now) else min(RETRY, self._settings.heartbeat)
            )

    def _beat(self, sent_at: float) -> bool:
        is_new = self._is_lost
        try:
            if is_new:
                self.join()
            beat = self._instance.holder.beat()
        except LeaseLost:
            self._lost("other instances declared this instance dead")
            self.beat_soon()
            return False
        except StoreError as error:
            self._stats.count("beat_errors")
            log.debug("a heartbeat failed: %s", error)
            return False
        except Exception:
            self._stats.count("beat_errors")
            log.exception("unexpected error in a heartbeat; it continues")
            return False
        self._beaten_at = sent_at
        self._good_until = sent_at + self._settings.lease
        is_restored = is_new or not self.has_lease
        if is_restored:  # not if the beat took so long that its lease is about to end
            self.has_lease = self.left > self._settings.margin
        self._on_good(is_restored)
        if beat.released:
            self._stats.count("recovered", beat.released, label="unknown claim")
        if beat.cancelled:
            self._on_cancelled(beat.cancelled)
        return True

    def _read_cancels(self, now: float) -> None:
        self._checked_at = now
        self._check_at = FOREVER  # before the read: a commit during the read plans the next check
        if self._is_lost:
            return
        try:
            cancelled = self._instance.holder.cancels()
        except StoreError as error:
            log.debug("a check for cancels failed; the next beat repeats it: %s", error)
            return
        except Exception:
            log.exception("unexpected error in a check for cancels; the heartbeat continues")
            return
        if cancelled:
            self._on_cancelled(cancelled)

    def _lost(self, why: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._stats.count("lease_lost")
            emit(events.LEASE_LOST, instance=self._instance.id, reason=why)
            self._on_lost(why)
