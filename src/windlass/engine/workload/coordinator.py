"""Gives waiting jobs to idle processors: in phase order, at most three per phase and cycle, in cycles while a phase has both.

Phases have the order of their pipelines, the first phase first: jobs that begin in the first phases supply the later ones, and no phase
starves, because none gets more than its share of a cycle. If the instance's own limit ends a cycle early, the next cycle continues there:
otherwise a limit that frees one place at a time would give each place to the first phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.engine.running_attempt import Processor
from windlass.engine.workload.pool import Pool
from windlass.engine.workload.queue import Queue
from windlass.model import Lease

PER_CYCLE = 3


Assignment = tuple[Processor, Lease]
"""A processor and the job it is to run."""


class Coordinator:
    """Assigns jobs until no job fits an idle processor, or the instance's own limit is reached."""

    def __init__(
        self,
        queue: Queue,
        pools: Mapping[str, Pool],
        order: Sequence[str],
        *,
        per_cycle: int = PER_CYCLE,
        limit: int | None = None,
    ) -> None:
        self._queue = queue
        self._pools = pools
        self._order = tuple(order)
        self._per_cycle = per_cycle
        self._limit = limit
        self._last: str | None = None  # the phase that was given jobs last
        self._had = 0  # and how many in its turn

    def assign(self, most: int | None = None) -> list[Assignment]:
        """Make all assignments that are possible now, in order; at most ``most``, if given (a result of ``ready``)."""
        made: list[Assignment] = []
        room = self.room() if most is None else most
        waiting, pools = self._queue.waiting, self._pools
        while room > 0:
            ready = [phase for phase in self._order if waiting[phase] and pools[phase].idle]
            if not ready:
                break
            # If only one phase has both, all its turns are made at once.
            is_only_one = len(ready) == 1
            for phase in ready if self._limit is None else self._in_turn(ready):
                room -= self._cycle(phase, room if is_only_one else min(self._share(phase), room), made)
        return made

    def _in_turn(self, ready: Sequence[str]) -> Sequence[str]:
        """The phases in their order, beginning where the last cycle ended."""
        if self._last is None or len(ready) == 1:
            return ready
        first = self._order.index(self._last) + (self._had >= self._per_cycle)
        return sorted(ready, key=lambda phase: (self._order.index(phase) - first) % len(self._order))

    def _share(self, phase: str) -> int:
        return self._per_cycle - (self._had if self._is_its_turn(phase) else 0)

    def _is_its_turn(self, phase: str) -> bool:
        return self._limit is not None and phase == self._last and self._had < self._per_cycle

    def _cycle(self, phase: str, most: int, made: list[Assignment]) -> int:
        pool = self._pools[phase]
        leases = self._queue.take_many(phase, min(most, len(pool.idle)))
        made += zip(pool.assign_many(leases), leases, strict=True)
        if self._limit is not None and leases:
            self._had = len(leases) + (self._had if self._is_its_turn(phase) else 0)
            self._last = phase
        return len(leases)

    def ready(self) -> int:
        """How many of the waiting jobs can begin now."""
        fitting = sum(
            min(len(pool.idle), len(self._queue.waiting[phase])) for phase, pool in self._pools.items()
        )
        return min(fitting, self.room())

    def room(self) -> int:
        """How many jobs could begin now if enough were waiting."""
        free = sum(len(pool.idle) for pool in self._pools.values())
        if self._limit is None:
            return free
        busy = sum(pool.busy for pool in self._pools.values())
        return max(0, min(free, self._limit - busy))
