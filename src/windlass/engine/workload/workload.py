"""What this instance holds in memory, what runs, and on which processor.

Every thread of the engine comes here (the step thread brings claimed jobs, executors bring ended ones, the watchdog and the listener
stop some), so everything happens under one lock, in calls that handle many jobs at once and never wait for anything.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine.places import Places
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.engine.workload.coordinator import Assignment, Coordinator
from windlass.engine.workload.pool import Pool, PoolReport
from windlass.engine.workload.queue import Queue, Refusal
from windlass.handlers.registry import Phase, Where
from windlass.model import Flag, Lease
from windlass.settings import Settings

_STARTED, _SUSPECT = int(Flag.STARTED), int(Flag.SUSPECT)
_RECOVERED = int(Flag.SUSPECT | Flag.RECOVERED)
MOST_ALONE = 4
"""Suspects that run at once, each in a process of its own. Those that wait for a place hold no processor: other jobs go on beside them.
One whose handler no other process can find counts as well, though it runs beside the others: the fewer of them run at once, the fewer are
charged with the death of their instance."""
MOST_APART = 2 * MOST_ALONE
"""Suspects that wait for a place in this instance. What a claim brings beyond them is given back, and while one waits no more are claimed:
other instances may have places for them."""
CLAIMS_KEPT = 10_000
and_ = int.__and__  # a Flag's own costs a microsecond


@dataclass(frozen=True, slots=True)
class Room:
    """What a phase can take: jobs that start at once, how many more may wait in memory, and whether suspects may be among them."""

    starting: int
    busy: int
    waiting: int
    size: int
    left: int
    suspects: bool = True


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
        self._alone = 0
        self._apart: dict[str, Lease] = {}  # suspects that wait for a place, the oldest first
        self._surplus: list[Lease] = []  # suspects beyond those, to be given back
        self._without: set[str] = set()  # phases of which no suspects were claimed, because some waited
        self.has_news = False
        """Whether ``suspects`` has something to tell."""
        self._claimed: dict[int, float] = {}
        self._lock = threading.Lock()
        self._closed = False

    # ------------------------------------------------------------------ jobs come and go

    def offer(self, leases: Iterable[Lease]) -> list[tuple[Lease, Refusal]]:
        """Take claimed jobs in; answers those that were refused and why."""
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
        """When a batch came, for the waiting times of its jobs; forgotten when many more have come since."""
        self._claimed[token] = now
        if len(self._claimed) > CLAIMS_KEPT:
            del self._claimed[next(iter(self._claimed))]

    def assign(self) -> list[RunningAttempt]:
        """Give waiting jobs to idle processors, as the coordinator says."""
        with self._lock:
            return self._assign()

    def _assign(self) -> list[RunningAttempt]:
        if self._closed:
            return []
        made = self._let_in() if self._apart else []
        now, phases, running, claimed = self._monotonic(), self._phases, self._running, self._claimed
        is_done = False
        while not is_done:
            is_done = True
            for processor, lease in (
                self._coordinator.assign() if self._places is None else self._bounded(self._places)
            ):
                phase = phases[lease.phase]
                is_alone = and_(lease.flags, _SUSPECT) != 0 and phase.where is not Where.PROCESS
                if is_alone:
                    if self._alone >= MOST_ALONE:
                        self._set_apart(lease)
                        self._pools[lease.phase].release(processor)
                        if self._places is not None:
                            self._places.give_back(1)
                        is_done = False  # the processor is for another job
                        continue
                    self._alone += 1
                at = claimed.get(lease.token, now)
                started = RunningAttempt(lease, phase, processor, at, now, is_alone)
                running[lease.id] = started
                made.append(started)
        return made

    def _bounded(self, places: Places) -> list[Assignment]:
        """The assignments for which there is a place among all that run jobs in this process."""
        return self._coordinator.assign(places.take(self._coordinator.ready()))

    def _set_apart(self, lease: Lease) -> None:
        """Have a suspect wait for a place, or leave where enough of them do."""
        if len(self._apart) < MOST_APART:
            self._apart[lease.id] = lease
            self._without.add(lease.phase)
        else:
            self._queue.done(lease.id)
            self._surplus.append(lease)
            self.has_news = True

    def suspects(self) -> tuple[list[Lease], list[str]]:
        """The suspects to give back, and, once none waits any more, the phases to look for others in."""
        with self._lock:
            self.has_news = False
            surplus, self._surplus = self._surplus, []
            return surplus, [] if self._apart else sorted(self._without)

    def _let_in(self) -> list[RunningAttempt]:
        """Suspects that wait, for the places that became free; before all others, for they have waited longest."""
        made = []
        now = self._monotonic()
        for lease in list(self._apart.values()):
            is_full = self._limit is not None and len(self._running) >= self._limit
            if self._alone >= MOST_ALONE or is_full:
                break
            pool = self._pools[lease.phase]
            if pool.free and (self._places is None or self._places.take(1)):
                self._no_longer_apart(lease)
                self._alone += 1
                at = self._claimed.get(lease.token, now)
                started = RunningAttempt(lease, self._phases[lease.phase], pool.assign(lease), at, now, True)
                self._running[lease.id] = started
                made.append(started)
        return made

    def end(self, ended: Sequence[RunningAttempt]) -> tuple[list[bool], list[RunningAttempt]]:
        """Jobs came to their end: whether each was still ours to end, and what runs next on the freed processors."""
        with self._lock:
            firsts = [self._end(running) for running in ended]
            return firsts, self._assign()

    def _end(self, running: RunningAttempt) -> bool:
        pool = self._pools[running.processor.phase]
        if running.is_over:  # given up before, and its processor replaced
            pool.forget(running.processor)
            return False
        running.is_over = True
        if running.is_alone:
            self._alone -= 1
        pool.release(running.processor)
        if self._running.get(running.lease.id) is running:
            del self._running[running.lease.id]
        self._queue.done(running.lease.id)
        if self._places is not None:
            self._places.leave()
        return True

    def turn_away(self, unstarted: Sequence[RunningAttempt]) -> list[Lease]:
        """Jobs could not be started: they and all that waits in their phases leave; returns what is to be given back."""
        with self._lock:
            leases = [running.lease for running in unstarted if self._end(running)]
            return leases + self._queue.drain({lease.phase for lease in leases})

    # ------------------------------------------------------------------ stopping

    def stop(self, running: RunningAttempt, reason: Stop) -> bool:
        """Note that a running job should stop; False if it ended, or was told before. One that was cancelled may take its time, but not
        beyond its lease."""
        with self._lock:
            is_worse = reason is Stop.LEASE_LOST and running.stop is Stop.CANCELLED
            if running.is_over or (running.stop is not None and not is_worse):
                return False
            running.stop = reason
            running.stopped = self._monotonic()
            if reason is Stop.TIME_LIMIT:
                self._pools[running.processor.phase].fail(running.processor)
        if running.context is not None:
            running.context.ask_to_stop()
        return True

    def give_up(self, running: RunningAttempt) -> bool:
        """A job that does not stop: its processor is put in error and replaced; what it still does changes nothing."""
        with self._lock:
            if running.is_over:
                return False
            running.is_over = True
            if running.is_alone:
                self._alone -= 1
            self._pools[running.processor.phase].replace(running.processor)
            if self._running.get(running.lease.id) is running:
                del self._running[running.lease.id]
            self._queue.done(running.lease.id)
            if self._places is not None:
                self._places.leave()
            return True

    def find(self, job_id: str, token: int) -> RunningAttempt | Lease | None:
        """A job by id, as it is held under this token: running, or taken out of the queue if it only waits."""
        with self._lock:
            running = self._running.get(job_id)
            if running is not None:
                return running if running.lease.token == token else None
            apart = self._apart.get(job_id)
            if apart is not None:
                return self._leave(apart) if apart.token == token else None
            return self._queue.drop(job_id, token)

    def clear(self) -> list[Lease]:
        """Take out everything that waits, to give it back."""
        with self._lock:
            surplus, self._surplus = self._surplus, []
            return [*map(self._leave, list(self._apart.values())), *surplus, *self._queue.drain()]

    def _leave(self, lease: Lease) -> Lease:
        """Take out a suspect that waits for a place."""
        self._no_longer_apart(lease)
        self._queue.done(lease.id)
        return lease

    def _no_longer_apart(self, lease: Lease) -> None:
        del self._apart[lease.id]
        self.has_news = self.has_news or not self._apart

    def close(self) -> None:
        """Start nothing from here on."""
        with self._lock:
            self._closed = True

    # ------------------------------------------------------------------ looking

    def room(self, phase: str) -> Room:
        """How much a phase can take now."""
        with self._lock:
            pool, waiting = self._pools[phase], self._queue.size(phase)
            busy = pool.size - pool.free
            free = pool.free
            size = pool.size
            if self._limit is not None:
                free = min(free, max(0, self._limit - len(self._running)))
                size = min(size, busy + max(1, self._limit - len(self._running)))  # one waits for its turn
            left = self._queue.room(phase)
            if self._apart:
                self._without.add(phase)
            elif self._without and phase in self._without:
                self._without.discard(phase)
                left = min(
                    left, MOST_APART
                )  # there were more suspects than places: a whole batch of them may come
            return Room(max(0, free - waiting), busy, waiting, size, left, not self._apart)

    def running_one(self, lease: Lease) -> RunningAttempt | None:
        """The running attempt of this very lease."""
        running = self._running.get(lease.id)
        return running if running is not None and running.lease.token == lease.token else None

    def running(self) -> list[RunningAttempt]:
        with self._lock:
            return list(self._running.values())

    @property
    def is_empty(self) -> bool:
        with self._lock:
            return not (self._running or self._apart or self._surplus or len(self._queue))

    def report(self) -> dict[str, tuple[PoolReport, int]]:
        """For each phase its processors by state and how many jobs wait in memory."""
        with self._lock:
            apart = Counter(lease.phase for lease in self._apart.values())
            return {
                name: (pool.report(), self._queue.size(name) + apart[name])
                for name, pool in self._pools.items()
            }

    def waiting(self) -> dict[str, int]:
        """How many jobs of each phase wait in memory."""
        return {name: waiting for name, (_, waiting) in self.report().items()}

    def processors(self) -> list[tuple[str, str, str | None, float]]:
        """Each processor: name, state, the job it runs, and for how many seconds. One that was replaced while its job still runs is listed
        as well, in error, under the name that its successor has, too."""
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
    """Whether it must be durable that this job runs before it does: where it met a death before, so that the next one is charged to those
    that were entered and to no other; and where it may be run once only."""
    flags = lease.flags
    return and_(flags, _RECOVERED) != 0 or (lease.max_attempts == 1 and not and_(flags, _STARTED))
