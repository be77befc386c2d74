"""Keeps the leases of an instance alive, on a thread and a connection of its own.

A handler that blocks the event loop, a slow step or a long report cannot stop it. What it cannot do is stop itself in time when the
database freezes in the middle of a beat: that is the watchdog's, which looks at ``left`` and never touches the database.
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
from windlass.store.jobs.holder import UNKNOWN_GRACE, CancelAsked

log = get_logger("windlass.engine")

RETRY = 1.0
LOOK_EVERY = 0.5
FOREVER = float("inf")


class Heartbeat:
    """Beats, and says what it learned: jobs to stop, a lease that is lost, a lease that is good again."""

    def __init__(
        self,
        instance: Instance,
        settings: Settings,
        stats: Stats,
        *,
        on_cancelled: Callable[[Sequence[CancelAsked]], None],
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
        """Whether the lease has enough time left to begin something under it; the watchdog ends that."""
        self._good_until = self._beaten_at = self._looked_at = time.monotonic()
        self._asked: list[float] = []
        self._asked_lock = threading.Lock()
        self._look_at = FOREVER
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
        """Seconds of the lease that are left by our own clock, counted from before the last good beat was sent."""
        return -1.0 if self._is_lost else self._good_until - time.monotonic()

    def soon(self, seconds: float = 0.0) -> None:
        """Beat earlier than planned: a claim's reply was lost, and the beat finds its jobs."""
        with self._asked_lock:  # each is kept: a claim lost a second later is too young for this one's beat
            self._asked.append(time.monotonic() + seconds)
        self._wake.set()

    @property
    def is_looking(self) -> bool:
        """Whether a look for cancels is planned."""
        return self._look_at != FOREVER

    def look(self) -> None:
        """Ask which jobs were cancelled: something was committed, and nobody says what (SQLite), or may have been missed. One read, at
        most twice a second; a beat would be a commit itself, and lead to the next one."""
        if not self.is_looking:
            self._look_at = max(time.monotonic(), self._looked_at + LOOK_EVERY)
            self._wake.set()

    def claim_failed(self) -> None:
        """A claim may have been committed without our knowing: beat as soon as it is old enough to be told apart."""
        self.soon(UNKNOWN_GRACE.total_seconds() + 0.2)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        next_at = self._beaten_at + self._settings.heartbeat
        while not self._over.is_set():
            at = min([next_at, self._look_at, *self._asked])
            self._wake.wait(max(0.0, min(1.0, at - time.monotonic())))
            self._wake.clear()
            now = time.monotonic()
            if now >= self._look_at and not self._over.is_set():
                self._ask_for_cancels(now)
            if self._over.is_set() or now < min([next_at, *self._asked]):
                continue
            with self._asked_lock:
                self._asked = [moment for moment in self._asked if moment > now]
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
            self._lost("others declared this instance dead")
            self.soon()
            return False
        except StoreError as error:
            self._stats.count("beat_errors")
            log.debug("a heartbeat failed: %s", error)
            return False
        except Exception:
            self._stats.count("beat_errors")
            log.exception("a heartbeat met an error it did not expect; it goes on")
            return False
        self._beaten_at = sent_at
        self._good_until = sent_at + self._settings.lease
        is_news = is_new or not self.has_lease
        if is_news:  # unless the beat took so long that its lease is about to end
            self.has_lease = self.left > self._settings.margin
        self._on_good(is_news)
        if beat.released:
            self._stats.count("recovered", beat.released, label="unknown claim")
        if beat.cancelled:
            self._on_cancelled(beat.cancelled)
        return True

    def _ask_for_cancels(self, now: float) -> None:
        self._looked_at = now
        self._look_at = FOREVER  # before the read: what is committed meanwhile asks for the next one
        if self._is_lost:
            return
        try:
            cancelled = self._instance.holder.cancels()
        except StoreError as error:
            log.debug("a look for cancels failed; the next beat makes up for it: %s", error)
            return
        except Exception:
            log.exception("a look for cancels met an error it did not expect; it goes on")
            return
        if cancelled:
            self._on_cancelled(cancelled)

    def _lost(self, why: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._stats.count("lease_lost")
            emit(events.LEASE_LOST, instance=self._instance.id, reason=why)
            self._on_lost(why)
