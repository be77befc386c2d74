"""The jobs that this instance holds in memory and runs, and their processors.

Every thread of the engine calls it (the step thread adds claimed jobs, executors report ended ones, the watchdog and the listener
stop some), so every call holds one lock, handles many jobs at once and never blocks.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine.places import Places
from windlass.engine.running_attempt import OVERDUE, RunningAttempt, Stop
from windlass.engine.workload.coordinator import Assignment, Coordinator
from windlass.engine.workload.pool import Pool, PoolReport
from windlass.engine.workload.queue import Queue, Refusal
from windlass.handlers.phase_options import Where
from windlass.handlers.registry import Phase
from windlass.model import EXACT, Flag, Lease
from windlass.settings import Settings

_STARTED, _SUSPECT = int(Flag.STARTED), int(Flag.SUSPECT)
_EXACT = int(EXACT)
MAX_ISOLATED = 4
"""Suspects that run at once, each in its own process. Suspects that wait for a place occupy no processor, so other jobs run meanwhile. A
suspect whose handler no other process can import counts as well, though it runs beside other jobs: the fewer run at once, the fewer are
charged with the death of their instance."""
MAX_WAITING_SUSPECTS = 2 * MAX_ISOLATED
"""Suspects that wait for a place in this instance. Further ones are given back, and no more are claimed while one waits: other instances
may have places for them."""
CLAIMS_KEPT = 10_000
and_ = int.__and__  # the operator of a Flag takes a microsecond


@dataclass(frozen=True, slots=True)
class Room:
    """The room of a phase: jobs that can start at once, how many more can wait in memory, and whether they may be suspects."""

    starting: int
    busy: int
    waiting: int
    size: int
    left: int
    suspects: bool = True


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """What waits and runs in an instance: for each phase its processors by state, how many there are, and how many jobs wait in memory; the
    suspects that wait for a place; and how many jobs run. ``is_full``: the limit of concurrent calls keeps jobs from beginning."""

    phases: Mapping[str, tuple[PoolReport, int, int]]
    suspects: Sequence[str]
    isolated: int
    running: int
    is_full: bool


class Workload:
    """Queue, pools and coordinator of one instance. Safe to call from any thread."""

    def __init__(
        self,
        phases: Mapping[str, Phase],
        settings: Settings,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        places: Places | None = None,
    ) -> None:
        self._phases = phases
        self._monotonic = monotonic
        sizes = settings.processors
        self._pools = {
            name: Pool(name, sizes.get(name, phase.processors), monotonic) for name, phase in phases.items()
        }
        self._queue = Queue(phases, settings.capacity)
        self._limit = settings.max_concurrent_calls
        self._places = places if self._limit is not None else None
        self._coordinator = Coordinator(
            self._queue, self._pools, list(phases), per_cycle=settings.per_cycle, limit=self._limit
        )
        self._running: dict[str, RunningAttempt] = {}
        self._isolated = 0
        self._suspects: dict[str, Lease] = {}  # suspects that wait for a place, the oldest first
        self._surplus: list[Lease] = []  # further suspects, to be given back
        self._without_suspects: set[str] = (
            set()
        )  # phases of which no suspects were claimed, because some waited
        self.suspects_changed = False
        """Whether ``take_surplus`` has something to return."""
        self._claimed: dict[int, float] = {}
        self._lock = threading.Lock()
        self._closed = False

    # ------------------------------------------------------------------ beginning and ending

    def offer(self, leases: Iterable[Lease]) -> list[tuple[Lease, Refusal]]:
        """Add claimed jobs; returns the refused ones with the reason of each."""
        refused = []
        now, offer = self._monotonic(), self._queue.offer
        token = None
        with self._lock:
            for lease in leases:
                refusal = offer(lease)
                if refusal is not None:
                    refused.append((lease, refusal))
                elif lease.token != token:
                    token = lease.token
                    self._note_claim(token, now)
        return refused

    def _note_claim(self, token: int, now: float) -> None:
        """Note when a page was claimed, for the waiting times of its jobs; only the last 10,000 are kept."""
        self._claimed[token] = now
        if len(self._claimed) > CLAIMS_KEPT:
            del self._claimed[next(iter(self._claimed))]

    def assign(self) -> list[RunningAttempt]:
        """Give waiting jobs to idle processors, in the order of the coordinator."""
        with self._lock:
            return self._assign()

    def _assign(self) -> list[RunningAttempt]:
        if self._closed:
            return []
        made = self._start_suspects() if self._suspects else []
        now, phases, running, claimed = self._monotonic(), self._phases, self._running, self._claimed
        is_done = False
        while not is_done:
            is_done = True
            for processor, lease in (
                self._coordinator.assign() if self._places is None else self._bounded(self._places)
            ):
                phase = phases[lease.phase]
                is_isolated = and_(lease.flags, _SUSPECT) != 0 and phase.where is not Where.PROCESS
                if is_isolated:
                    if self._isolated >= MAX_ISOLATED:
                        self._delay_suspect(lease)
                        self._pools[lease.phase].release(processor)
                        if self._places is not None:
                            self._places.give_back(1)
                        is_done = False  # the processor is for another job
                        continue
                    self._isolated += 1
                at = claimed.get(lease.token, now)
                started = RunningAttempt(lease, phase, processor, at, now, is_isolated)
                running[lease.id] = started
                made.append(started)
        return made

    def _bounded(self, places: Places) -> list[Assignment]:
        """The assignments for which the process has a free place."""
        return self._coordinator.assign(places.take(self._coordinator.ready()))

    def _delay_suspect(self, lease: Lease) -> None:
        """Make a suspect wait for a place, or give it back if enough of them wait."""
        if len(self._suspects) < MAX_WAITING_SUSPECTS:
            self._suspects[lease.id] = lease
            self._without_suspects.add(lease.phase)
        else:
            self._queue.done(lease.id)
            self._surplus.append(lease)
            self.suspects_changed = True

    def take_surplus(self) -> tuple[list[Lease], list[str]]:
        """The suspects to give back, and, once none waits any more, the phases from which suspects can be claimed again."""
        with self._lock:
            self.suspects_changed = False
            surplus, self._surplus = self._surplus, []
            return surplus, [] if self._suspects else sorted(self._without_suspects)

    def _start_suspects(self) -> list[RunningAttempt]:
        """Start waiting suspects on free places; before all other jobs, because they have waited longest."""
        made = []
        now = self._monotonic()
        for lease in list(self._suspects.values()):
            is_full = self._limit is not None and len(self._running) >= self._limit
            if self._isolated >= MAX_ISOLATED or is_full:
                break
            pool = self._pools[lease.phase]
            if pool.idle and (self._places is None or self._places.take(1)):
                self._remove_suspect(lease)
                self._isolated += 1
                at = self._claimed.get(lease.token, now)
                started = RunningAttempt(lease, self._phases[lease.phase], pool.assign(lease), at, now, True)
                self._running[lease.id] = started
                made.append(started)
        return made

    def end(self, ended: Sequence[RunningAttempt]) -> tuple[list[bool], list[RunningAttempt]]:
        """End jobs; returns for each whether it was still held here, and the jobs that run next on the freed processors."""
        with self._lock:
            firsts = [self._end(running) for running in ended]
            return firsts, self._assign()

    def _end(self, running: RunningAttempt) -> bool:
        pool = self._pools[running.processor.phase]
        if running.is_over:  # given up before, and its processor replaced
            pool.forget(running.processor)
            return False
        running.is_over = True
        if running.is_isolated:
            self._isolated -= 1
        pool.release(running.processor)
        if self._running.get(running.lease.id) is running:
            del self._running[running.lease.id]
        self._queue.done(running.lease.id)
        if self._places is not None:
            self._places.leave()
        return True

    def reject(self, unstarted: Sequence[RunningAttempt]) -> list[Lease]:
        """Remove jobs that could not be started and all that wait in their phases; returns the jobs to give back."""
        with self._lock:
            leases = [running.lease for running in unstarted if self._end(running)]
            return leases + self._queue.drain({lease.phase for lease in leases})

    # ------------------------------------------------------------------ stopping

    def stop(self, running: RunningAttempt, reason: Stop) -> bool:
        """Note that a running job should stop; False if it ended, or was asked before. A cancelled job may continue for a while, but not
        beyond its lease."""
        with self._lock:
            is_worse = reason is Stop.LEASE_LOST and running.stop is Stop.CANCELLED
            if running.is_over or (running.stop is not None and not is_worse):
                return False
            running.stop = reason
            running.stopped = self._monotonic()
            if reason in OVERDUE:
                self._pools[running.processor.phase].fail(running.processor)
        if running.context is not None:
            running.context.ask_to_stop()
        return True

    def give_up(self, running: RunningAttempt) -> bool:
        """Give up a job that does not stop: its processor is put in error and replaced; its later end is ignored."""
        with self._lock:
            if running.is_over:
                return False
            running.is_over = True
            if running.is_isolated:
                self._isolated -= 1
            self._pools[running.processor.phase].replace(running.processor)
            if self._running.get(running.lease.id) is running:
                del self._running[running.lease.id]
            self._queue.done(running.lease.id)
            if self._places is not None:
                self._places.leave()
            return True

    def find(self, job_id: str, token: int) -> RunningAttempt | Lease | None:
        """Find the job that is held under this token: a running one, or a waiting one, which is removed from the queue."""
        with self._lock:
            running = self._running.get(job_id)
            if running is not None:
                return running if running.lease.token == token else None
            suspect = self._suspects.get(job_id)
            if suspect is not None:
                return self._leave(suspect) if suspect.token == token else None
            return self._queue.drop(job_id, token)

    def clear(self) -> list[Lease]:
        """Remove all waiting jobs, to give them back."""
        with self._lock:
            surplus, self._surplus = self._surplus, []
            return [*map(self._leave, list(self._suspects.values())), *surplus, *self._queue.drain()]

    def _leave(self, lease: Lease) -> Lease:
        """Remove a suspect that waits for a place."""
        self._remove_suspect(lease)
        self._queue.done(lease.id)
        return lease

    def _remove_suspect(self, lease: Lease) -> None:
        del self._suspects[lease.id]
        self.suspects_changed = self.suspects_changed or not self._suspects

    def close(self) -> None:
        """Start no more jobs."""
        with self._lock:
            self._closed = True

    def resize(self, phase: str, size: int) -> tuple[int, list[RunningAttempt]]:
        """Give a phase so many processors from now on; returns how many it had, and the jobs that run on new ones. With fewer processors, running
        jobs go on, and waiting ones wait."""
        with self._lock:
            pool = self._pools[phase]
            before = pool.size
            pool.resize(size)
            return before, self._assign()

    # ------------------------------------------------------------------ state

    def room(self, phase: str) -> Room:
        """The room of a phase now."""
        with self._lock:
            pool, waiting = self._pools[phase], len(self._queue.waiting[phase])
            busy = pool.busy
            free = len(pool.idle)
            size = pool.size
            if self._limit is not None:
                free = min(free, max(0, self._limit - len(self._running)))
                size = min(size, busy + max(1, self._limit - len(self._running)))  # one may wait for a place
            left = self._queue.capacity - waiting
            if self._suspects:
                self._without_suspects.add(phase)
            elif self._without_suspects and phase in self._without_suspects:
                self._without_suspects.discard(phase)
                left = min(left, MAX_WAITING_SUSPECTS)  # a whole page of suspects may be claimed
            return Room(max(0, free - waiting), busy, waiting, size, left, not self._suspects)

    def running_one(self, lease: Lease) -> RunningAttempt | None:
        """The running attempt of this lease."""
        running = self._running.get(lease.id)
        return running if running is not None and running.lease.token == lease.token else None

    def running(self) -> list[RunningAttempt]:
        with self._lock:
            return list(self._running.values())

    @property
    def is_empty(self) -> bool:
        with self._lock:
            return not (self._running or self._suspects or self._surplus or len(self._queue))

    def report(self) -> dict[str, tuple[PoolReport, int]]:
        """For each phase its processors by state, and how many jobs wait in memory."""
        with self._lock:
            waiting_suspects = Counter(lease.phase for lease in self._suspects.values())
            return {
                name: (pool.report(), len(self._queue.waiting[name]) + waiting_suspects[name])
                for name, pool in self._pools.items()
            }

    def facts(self) -> WorkloadFacts:
        """What waits and runs, at one moment."""
        with self._lock:
            is_full = self._limit is not None and (
                len(self._running) >= self._limit
                or (
                    self._places is not None and self._coordinator.ready() > 0
                )  # all places of the process are in use
            )
            return WorkloadFacts(
                {
                    name: (pool.report(), pool.size, len(self._queue.waiting[name]))
                    for name, pool in self._pools.items()
                },
                list(self._suspects),
                self._isolated,
                len(self._running),
                is_full,
            )

    def waiting(self) -> dict[str, int]:
        """How many jobs of each phase wait in memory."""
        return {name: waiting for name, (_, waiting) in self.report().items()}

    def processors(self) -> list[tuple[str, str, str | None, float]]:
        """Each processor: name, state, the job it runs, and for how many seconds. A processor that was replaced
        while its job still runs is listed as well, in error, under the same name as its successor."""
        now = self._monotonic()
        with self._lock:
            return [
                (
                    item.name,
                    str(item.state),
                    item.lease.id if item.lease else None,
                    now - item.since if item.lease else 0.0,
                )
                for pool in self._pools.values()
                for item in pool
            ]


def needs_start(lease: Lease) -> bool:
    """Whether the start of this job must be stored before it runs: if an instance died with it before, so that the next death is charged to
    started jobs only; if it may have expired; and if it has a single attempt."""
    flags = lease.flags
    return and_(flags, _EXACT) != 0 or (lease.max_attempts == 1 and not and_(flags, _STARTED))
