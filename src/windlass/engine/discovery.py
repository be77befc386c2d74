"""Decides which phases to claim from next, and how many jobs; without a database, for the step thread.

A phase is scanned

* at once when a hint names it (a notification, or a promotion or tick of this instance), and again 12 ms later: a notification may have
  been left out because another one was sent just before, and the transaction of that one may commit first;
* at once while claims come back full, or as soon as there is room again;
* every ``scan`` seconds, because hints may be lost.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from windlass.engine.workload import Room
from windlass.model import Lease, Want
from windlass.settings import Settings

AGAIN = 0.012  # enqueuers notify at most every 5 ms per phase, and their commits take a while
FOREVER = float("inf")
RATE_WINDOW = 0.1
RATE_JOBS, SHORTEST_WINDOW = 50, 0.005
"""A window of the rate ends early with so many jobs: a drain reaches full claims after a few steps."""
CLAIMS_AHEAD = 4
"""Claims whose time is covered by jobs in memory where jobs are shorter than a claim. With two, a drain of no-ops had nine tenths of its rate."""
MOST_AHEAD = 0.1
"""Seconds of work that are claimed ahead at most, however long claims take."""
MOST_PHASES = 100
"""Phases that one step claims from: each costs its statement up to ten descents of the index."""


class _PhaseScan:
    """When to scan one phase's queue in the database, and how fast its jobs end."""

    __slots__ = ("again_at", "due_at", "finished", "hinted_at", "is_hot", "not_before", "rate", "since")

    def __init__(self, now: float) -> None:
        self.due_at = now
        self.again_at = FOREVER
        self.hinted_at = -FOREVER
        self.not_before = -FOREVER
        self.is_hot = False
        self.rate = 0.0
        self.finished = 0
        self.since = now

    def was_hinted_since(self, began: float | None) -> bool:
        """Whether a hint came after a scan that ``began`` then."""
        return began is not None and self.hinted_at >= began


class Discovery:
    """Plans the scans and claims of the step thread. Hints may come from any thread."""

    def __init__(
        self, phases: Iterable[str], settings: Settings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._monotonic = monotonic
        now = monotonic()
        self._scans = {phase: _PhaseScan(now) for phase in phases}
        self._order = list(self._scans)
        # Random: if instances come and go often, each would begin with the same phases, and the others would not be served.
        self._first = random.randrange(len(self._order)) if self._order else 0
        self._held: set[str] = set()
        self._scan_every = settings.scan_unheard
        self._claim_seconds = 0.0
        self._lock = threading.Lock()

    def set_listening(self, is_listening: bool) -> None:
        """Note whether notifications arrive: without them scans are more frequent."""
        self._scan_every = self._settings.scan if is_listening else self._settings.scan_unheard

    def hint(self, phase: str | None = None) -> bool:
        """Note that a phase (None: any) may have work; False if the phase is not served here."""
        now = self._monotonic()
        with self._lock:
            scans = self._scans.values() if phase is None else filter(None, [self._scans.get(phase)])
            found = False
            for scan in scans:
                scan.due_at = max(now, scan.not_before)
                scan.again_at, scan.is_hot = scan.due_at + AGAIN, True
                scan.hinted_at = now
                found = True
            return found

    def hold(self, phase: str, is_held: bool) -> None:
        """Claim nothing from a phase (``is_held``), or claim from it again."""
        with self._lock:
            (self._held.add if is_held else self._held.discard)(phase)
        if not is_held:
            self.hint(phase)

    def due(self) -> list[str]:
        """The phases that should be scanned now."""
        now = self._monotonic()
        with self._lock:
            return [
                name
                for name, scan in self._scans.items()
                if min(scan.due_at, scan.again_at) <= now and name not in self._held
            ]

    def is_hot(self, phase: str) -> bool:
        """Whether a hint or a full claim gives a reason to expect work."""
        return self._scans[phase].is_hot

    def goes_on(self, phases: Iterable[str]) -> None:
        """Note that the next step moves jobs to these phases, and that its claims will see them."""
        now = self._monotonic()
        with self._lock:
            for phase in phases:
                if scan := self._scans.get(phase):
                    scan.due_at, scan.is_hot = max(now, scan.not_before), True

    def wants(self, room: Callable[[str], Room], most: int = MOST_PHASES) -> list[Want]:
        """The claims of the next step: of at most so many phases, and a page of jobs in all. Phases take turns: the next step begins with the
        phase for which this page had too little left, else behind the last phase of a full page, else behind the first phase. With a limit of
        concurrent calls, which is the room of all phases together, a step claims from one phase."""
        if self._settings.max_concurrent_calls is not None:
            most = 1
        now = self._monotonic()
        count, left = len(self._order), self._settings.page
        wants: list[Want] = []
        with self._lock:
            first = self._first
            for step in range(count):
                place = (first + step) % count
                phase = self._order[place]
                scan = self._scans[phase]
                if min(scan.due_at, scan.again_at) > now or phase in self._held:
                    continue
                want = self._want(phase, scan, room(phase))
                if want is None:
                    continue
                self._first = place + 1
                if want.limit > left:
                    self._first = place
                    want = replace(want, limit=left, starting=min(left, want.starting or 0))
                wants.append(want)
                left -= want.limit
                if not left or len(wants) == most:
                    return wants
            if wants:  # each had its turn
                self._first = self._order.index(wants[0].phase) + 1
        return wants

    def _want(self, phase: str, scan: _PhaseScan, room: Room) -> Want | None:
        ahead = self._ahead(scan.rate, room.size)
        limit = min(self._settings.page, room.size + ahead - room.busy - room.waiting, room.left)
        if limit < 1:
            return None
        quiet = timedelta(seconds=self._settings.quiet)
        return Want(phase, limit, min(limit, room.starting), quiet, room.suspects)

    def _ahead(self, rate: float, size: int) -> int:
        """How many jobs of a phase are claimed beyond its processors. A job that waits in memory cannot be run by an idle instance, so only as
        many as end while a claim is made; of jobs that are shorter than a claim, as many as end during ``CLAIMS_AHEAD`` of them."""
        if self._settings.prefetch is not None:
            return int(rate * self._settings.prefetch)
        claim = min(self._claim_seconds, MOST_AHEAD)
        if 2 * rate * claim < size:  # all processors together end fewer than that: a job takes longer
            return int(rate * claim)
        return int(rate * min(CLAIMS_AHEAD * claim, MOST_AHEAD))

    def claimed_all(self, wants: Sequence[Want], claimed: Sequence[Lease], began: float) -> None:
        """Note what the claims of one step returned. It ``began`` then."""
        self._claim_seconds += (self._monotonic() - began - self._claim_seconds) / 4
        if len(wants) == 1:
            self.claimed(wants[0], len(claimed), began)
            return
        counts = Counter(lease.phase for lease in claimed)
        for want in wants:
            self.claimed(want, counts[want.phase], began)

    def claimed(self, want: Want, count: int, began: float | None = None) -> None:
        """Note how many jobs a claim returned. It ``began`` then, so it has not seen jobs that were hinted at since."""
        now = self._monotonic()
        with self._lock:
            scan = self._scans[want.phase]
            scan.is_hot = count >= want.limit or scan.was_hinted_since(began)
            if scan.is_hot:
                scan.due_at = max(now, scan.not_before)
                return
            if scan.again_at <= now:
                scan.again_at = FOREVER
            if count and scan.again_at == FOREVER:
                scan.again_at = now + AGAIN
            scan.due_at = now + self._scan_every

    def found_empty(self, phases: Iterable[str], began: float | None = None) -> None:
        """Note that a scan that ``began`` then found these phases empty."""
        now = self._monotonic()
        with self._lock:
            for phase in phases:
                scan = self._scans[phase]
                if scan.was_hinted_since(began):
                    continue
                scan.due_at, scan.is_hot = now + self._scan_every, False
                if scan.again_at <= now:
                    scan.again_at = FOREVER

    def finished(self, counts: Mapping[str, int]) -> None:
        """Count ended jobs of these phases: the rate of a phase decides how many jobs are claimed ahead."""
        now = self._monotonic()
        with self._lock:
            for phase, count in counts.items():
                scan = self._scans.get(phase)
                if scan is None:
                    continue
                scan.finished += count
                spent = now - scan.since
                if spent >= RATE_WINDOW or (scan.finished >= RATE_JOBS and spent >= SHORTEST_WINDOW):
                    fresh = scan.finished / spent
                    scan.rate = fresh if spent > 1.0 else max(fresh, (scan.rate + fresh) / 2)
                    scan.finished, scan.since = 0, now
                elif scan.rate == 0.0 and scan.finished >= 10:
                    # A first estimate, so that a burst is not served in tens.
                    scan.rate = scan.finished / max(spent, 0.005)

    def postpone(self, phase: str, seconds: float) -> None:
        """Do not scan a phase for a while, despite hints: its jobs could not be used, and giving them back is a hint, too."""
        with self._lock:
            if scan := self._scans.get(phase):
                scan.due_at = scan.again_at = scan.not_before = self._monotonic() + seconds

    def wait(self) -> float:
        """Seconds until the next scan is due. Phases that are due already have no room; the step thread is woken when there is room."""
        now = self._monotonic()
        with self._lock:
            moments = [at for scan in self._scans.values() for at in (scan.due_at, scan.again_at) if at > now]
        return min(moments, default=FOREVER) - now
