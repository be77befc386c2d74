"""The processors of one phase in one instance: named, and each idle, busy or in error.

A pool has no lock of its own: several threads use it, all under the lock of the workload (``workload.py``). A processor in error holds a
job that exceeded its time limit. It is idle again once the job has stopped; if the job does not stop, a new processor of the same name
replaces it, so that the pool keeps its size, and the one in error is listed until its job ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from windlass.engine.running_attempt import Processor, ProcessorState
from windlass.model import Lease

SIZE = 10


@dataclass(slots=True)
class PoolReport:
    """How many processors are in which state, and the names of those in error."""

    idle: int = 0
    busy: int = 0
    in_error: tuple[str, ...] = ()


@dataclass(slots=True)
class Pool:
    """Processors named ``<phase>-processor-1…``; assigns jobs to idle ones."""

    phase: str
    size: int = SIZE
    monotonic: Callable[[], float] = time.monotonic
    _processors: list[Processor] = field(init=False)
    idle: deque[Processor] = field(init=False)
    """The next to be used first; changed by the methods only."""
    _lost: list[Processor] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._processors = [Processor(self.phase, number) for number in range(1, self.size + 1)]
        self.idle = deque(self._processors)

    @property
    def busy(self) -> int:
        """Processors that are not idle, also those beyond the size that finish their job."""
        return len(self._processors) - len(self.idle)

    def resize(self, size: int) -> None:
        """Have so many processors from now on. Those beyond the number finish the jobs that they run, and are gone then."""
        have = {processor.number for processor in self._processors}
        fresh = [Processor(self.phase, number) for number in range(1, size + 1) if number not in have]
        self.size = size
        self._processors = sorted(
            [
                *(item for item in self._processors if not self._is_surplus(item) or item not in self.idle),
                *fresh,
            ],
            key=lambda item: item.number,
        )
        self.idle = deque([*(item for item in self.idle if not self._is_surplus(item)), *fresh])

    def _is_surplus(self, processor: Processor) -> bool:
        return processor.number > self.size

    def assign(self, lease: Lease) -> Processor:
        """Give a job to an idle processor; the caller ensures that there is one."""
        return self.assign_many([lease])[0]

    def assign_many(self, leases: Sequence[Lease]) -> list[Processor]:
        """Give jobs to idle processors; the caller ensures that there are enough."""
        now, idle, busy = self.monotonic(), self.idle, ProcessorState.BUSY
        made = []
        for lease in leases:
            processor = idle.popleft()
            processor.state = busy
            processor.lease = lease
            processor.since = processor.progress_at = now
            made.append(processor)
        return made

    def release(self, processor: Processor) -> None:
        """Make a processor idle whose job ended. A processor that was replaced meanwhile is ignored."""
        if processor.state is not ProcessorState.BUSY and (
            processor.state is ProcessorState.IDLE or processor in self._lost
        ):
            return
        processor.state, processor.lease = ProcessorState.IDLE, None
        if processor.number > self.size:  # inline: on the way of every job
            self._processors.remove(processor)
        else:
            self.idle.append(processor)

    def fail(self, processor: Processor) -> None:
        """Put a processor in error whose job exceeded its time limit, until the job has stopped."""
        processor.state = ProcessorState.ERROR

    def replace(self, processor: Processor) -> None:
        """Put a processor in error, and replace it by a new one of the same name, unless the pool has become smaller."""
        processor.state = ProcessorState.ERROR
        self._lost.append(processor)
        if self._is_surplus(processor):
            self._processors.remove(processor)
            return
        fresh = Processor(processor.phase, processor.number)
        self._processors[self._processors.index(processor)] = fresh
        self.idle.append(fresh)

    def report(self) -> PoolReport:
        busy = sum(processor.state is ProcessorState.BUSY for processor in self._processors)
        in_error = tuple(processor.name for processor in self if processor.state is ProcessorState.ERROR)
        return PoolReport(idle=len(self.idle), busy=busy, in_error=in_error)

    def forget(self, processor: Processor) -> None:
        """Remove a replaced processor whose job has ended."""
        self._lost.remove(processor)

    def __iter__(self) -> Iterator[Processor]:
        """All processors, including replaced ones that still run their job."""
        return iter([*self._processors, *self._lost])
