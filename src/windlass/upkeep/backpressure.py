"""Acts on the database's counts: a phase that is full holds back the one before it, and a phase that is not served is reported.

Both come from one read of counts, made only where there is a reason: a phase with ``max_waiting``, or half a minute gone by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

from windlass.features import Store
from windlass.handlers.registry import Phase, Registry
from windlass.model import Counts, Failed, JobError, Lease, Outcome, Released
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.observe.logger import get_logger
from windlass.store.jobs.instances import HasHolder

log = get_logger("windlass.upkeep")

EASED = 0.8  # a phase that was full is open again at this share
WARN_EVERY = 600.0
PAGE = 100


class FullPhase(NamedTuple):
    """A phase that is full: how many jobs are queued or at its gate, and from how many on the phase before it is held back."""

    name: str
    queued: int
    most: int


class Pressure:
    """Backpressure in pipelines: while a phase has more jobs queued (or at its gate) than it wants, the phase before it is not
    claimed from."""

    def __init__(
        self, store: Store, phases: Mapping[str, Phase], *, hold: Callable[[str, bool], None]
    ) -> None:
        self._store = store
        self._hold = hold
        self._watched = {
            name: (following.name, following.max_waiting)
            for name, phase in phases.items()
            if (following := phase.following) is not None and following.max_waiting is not None
        }
        self._held: set[str] = set()
        self.held: Mapping[str, FullPhase] = {}
        """The phases that are held back now, and the full phase behind each."""

    @property
    def is_needed(self) -> bool:
        return bool(self._watched)

    def run(self) -> None:
        """Check how full the phases are."""
        counts = self._store.phases.counts()
        held: dict[str, FullPhase] = {}
        for name, (following, most) in self._watched.items():
            count = counts.get(following, Counts())
            queued = count.queued + count.waiting  # with a limit or a rate they wait at its gate
            share = EASED if name in self._held else 1.0
            is_full = queued >= most * share
            if is_full != (name in self._held):
                (self._held.add if is_full else self._held.discard)(name)
                self._hold(name, is_full)
                emit(
                    events.HELD_BACK if is_full else events.NO_LONGER_HELD_BACK,
                    most,
                    phase=name,
                    next_phase=following,
                    queued=queued,
                    is_held=is_full,
                )
            if is_full:
                held[name] = FullPhase(following, queued, most)
        self.held = held


class Unserved:
    """Phases with queued jobs that no living instance serves: a handler was taken away, or a worker was not started.

    They are named in the log and in the health report. Where this instance knows the kind but not the phase (its pipeline was changed
    while jobs were in it) it will never be served: after ``fail_after`` seconds without an instance that serves it, as this instance saw it,
    each of its jobs ends with an error that says so, and can be retried when the phase is back. How long a job was queued says nothing: it may
    be the backlog of a phase that was served until a moment ago.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        instance: HasHolder,
        fail_after: float | None,
        record: Callable[[Outcome], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._instance = instance
        self._fail_after = fail_after
        self._record = record
        self._warned_until: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self.phases: dict[str, int] = {}

    def run(self) -> None:
        """Find phases that no instance serves."""
        waiting = {
            phase: count.queued for phase, count in self._store.phases.counts().items() if count.queued > 0
        }
        served: set[str] = set()
        for instance in self._store.instances.list() if waiting else ():
            if instance.dead_at is None:
                served.update(instance.info.get("phases", ()))
        self.phases = {phase: count for phase, count in waiting.items() if phase not in served}
        now = time.monotonic()
        self._since = {phase: self._since.get(phase, now) for phase in self.phases}
        for phase, count in self.phases.items():
            self._warn(phase, count)
            if self._registry.phase(phase) is not None:
                continue  # it is not gone: no worker that serves it was started
            if self._fail_after is None or now - self._since[phase] < self._fail_after:
                continue
            if any(self._registry.kind(name) is not None for name in _may_be_of(phase)):
                self._fail(phase, self._fail_after)

    def _warn(self, phase: str, count: int) -> None:
        now = time.monotonic()
        if now >= self._warned_until.get(phase, 0.0):
            self._warned_until[phase] = now + WARN_EVERY
            emit(events.UNSERVED, events.jobs_wait(count), phase=phase, queued=count)

    def _fail(self, phase: str, fail_after: float) -> None:
        limit = timedelta(seconds=fail_after)
        for lease in self._instance.holder.claim(phase, PAGE):
            kind = self._registry.kind(lease.kind)
            if kind is None or lease.claimed_at - lease.ready_at < limit:
                self._record(Released(lease))
                continue
            self._record(Failed(lease, _gone(lease, [item.name for item in kind.phases])))


def _may_be_of(phase: str) -> list[str]:
    """The kinds a phase may belong to, by its name; kinds and labels may have colons of their own."""
    return [phase, *(phase[:place] for place, letter in enumerate(phase) if letter == ":")]


def _gone(lease: Lease, known: list[str]) -> JobError:
    return JobError(
        type="PhaseGone",
        code="phase_gone",
        message=(
            f"{lease.kind} has no phase {lease.phase!r} any more (it has {', '.join(known)}), and no instance serves it; "
            "bring it back, then retry this job, which goes on there: app.handle(id).retry()"
        ),
    )
