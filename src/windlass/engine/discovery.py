"""Which phase to claim from next, and how many jobs: the pure half of the step thread that looks for work.

A phase is looked at

* at once when a hint names it (a notification, or a promotion or tick of this instance), and again a little later: a notification may have been left out
  because another one was sent just before, and that one's transaction may commit first;
* at once while claims come back full, or as soon as there is room again;
* every ``scan`` seconds anyway, because hints may be lost.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from windlass.engine.workload import Room
from windlass.model import Want
from windlass.settings import Settings

AGAIN = 0.012  # enqueuers notify at most every 5 ms per phase, and their commits take a while
FOREVER = float("inf")
RATE_WINDOW = 0.1


class _Look:
    """What is known about one phase's queue in the database."""

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

    def is_news(self, began: float | None) -> bool:
        """Whether a hint came after a look had begun."""
        return began is not None and self.hinted_at >= began


class Discovery:
    """Decides; the step thread does. Hints may come from any thread."""

    def __init__(
        self, phases: Iterable[str], settings: Settings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._monotonic = monotonic
        now = monotonic()
        self._looks = {phase: _Look(now) for phase in phases}
        self._order = list(self._looks)
        # Anywhere: where instances come and go, each would begin with the same phases, and the others have nobody.
        self._turn = random.randrange(len(self._order)) if self._order else 0
        self._held: set[str] = set()
        self._scan = settings.scan_unheard
        self._lock = threading.Lock()

    def heard(self, is_listening: bool) -> None:
        """Whether notifications arrive: without them the scan is more frequent."""
        self._scan = self._settings.scan if is_listening else self._settings.scan_unheard

    def hint(self, phase: str | None = None) -> bool:
        """There may be work in a phase (None: in any); False where the phase is not served here."""
        now = self._monotonic()
        with self._lock:
            looks = self._looks.values() if phase is None else filter(None, [self._looks.get(phase)])
            found = False
            for look in looks:
                look.due_at = max(now, look.not_before)
                look.again_at, look.is_hot = look.due_at + AGAIN, True
                look.hinted_at = now
                found = True
            return found

    def hold(self, phase: str, is_held: bool) -> None:
        """Claim nothing from a phase for now, or again."""
        with self._lock:
            (self._held.add if is_held else self._held.discard)(phase)
        if not is_held:
            self.hint(phase)

    def due(self) -> list[str]:
        """The phases that should be looked at now."""
        now = self._monotonic()
        with self._lock:
            return [
                name
                for name, look in self._looks.items()
                if min(look.due_at, look.again_at) <= now and name not in self._held
            ]

    def is_hot(self, phase: str) -> bool:
        """Whether there is a reason to expect work, beside the clock."""
        return self._looks[phase].is_hot

    def next(self, room: Callable[[str], Room]) -> Want | None:
        """The next claim to make; phases take turns."""
        now = self._monotonic()
        count = len(self._order)
        with self._lock:
            for step in range(count):
                place = (self._turn + step) % count
                phase = self._order[place]
                look = self._looks[phase]
                if min(look.due_at, look.again_at) > now or phase in self._held:
                    continue
                want = self._want(phase, look, room(phase))
                if want is not None:
                    self._turn = place + 1
                    return want
        return None

    def _want(self, phase: str, look: _Look, room: Room) -> Want | None:
        ahead = int(look.rate * self._settings.prefetch)
        limit = min(self._settings.batch, room.size + ahead - room.busy - room.waiting, room.left)
        if limit < 1:
            return None
        quiet = timedelta(seconds=self._settings.quiet)
        return Want(phase, limit, min(limit, room.starting), quiet, room.suspects)

    def learn(self, want: Want, claimed: int, began: float | None = None) -> None:
        """Take in what a claim found that ``began`` then: it has not seen what was hinted at since."""
        now = self._monotonic()
        with self._lock:
            look = self._looks[want.phase]
            look.is_hot = claimed >= want.limit or look.is_news(began)
            if look.is_hot:
                look.due_at = max(now, look.not_before)
                return
            if look.again_at <= now:
                look.again_at = FOREVER
            if claimed and look.again_at == FOREVER:
                look.again_at = now + AGAIN
            look.due_at = now + self._scan

    def nothing(self, phases: Iterable[str], began: float | None = None) -> None:
        """A look that ``began`` then found these phases empty."""
        now = self._monotonic()
        with self._lock:
            for phase in phases:
                look = self._looks[phase]
                if look.is_news(began):
                    continue
                look.due_at, look.is_hot = now + self._scan, False
                if look.again_at <= now:
                    look.again_at = FOREVER

    def finished(self, counts: Mapping[str, int]) -> None:
        """Jobs of these phases ended: how fast a phase is decides how much is claimed ahead."""
        now = self._monotonic()
        with self._lock:
            for phase, count in counts.items():
                look = self._looks.get(phase)
                if look is None:
                    continue
                look.finished += count
                spent = now - look.since
                if spent >= RATE_WINDOW:
                    fresh = look.finished / spent
                    look.rate = fresh if spent > 1.0 else max(fresh, (look.rate + fresh) / 2)
                    look.finished, look.since = 0, now
                elif look.rate == 0.0 and look.finished >= 10:
                    look.rate = look.finished / max(
                        spent, 0.005
                    )  # a first guess, so that a burst is not served in tens

    def postpone(self, phase: str, seconds: float) -> None:
        """Leave a phase alone for a while, whatever hints come: what it gave could not be used, and giving it back is a hint."""
        with self._lock:
            if look := self._looks.get(phase):
                look.due_at = look.again_at = look.not_before = self._monotonic() + seconds

    def wait(self) -> float:
        """Seconds until a look becomes due by time. Those that are due already have no room, and whoever makes room wakes us."""
        now = self._monotonic()
        with self._lock:
            moments = [at for look in self._looks.values() for at in (look.due_at, look.again_at) if at > now]
        return min(moments, default=FOREVER) - now
