"""The processors of one phase in one instance: named, and each idle, busy or in error.

One thread owns a pool (the step thread). A processor in error holds a job that outran its time limit in a thread nobody can
stop; it is replaced by a fresh one, so that the pool keeps its size.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.model import Lease

SIZE = 10


class ProcessorState(StrEnum):
    IDLE = "idle"
    BUSY = "busy"
    ERROR = "error"


@dataclass(slots=True, eq=False)
class Processor:
    """One slot that runs one job at a time."""

    name: str
    state: ProcessorState = ProcessorState.IDLE
    lease: Lease | None = None
    since: float = 0.0
    progress_at: float = 0.0

    def touch(self, now: float) -> None:
        """The job showed a sign of life: its time limit counts from here."""
        self.progress_at = now


@dataclass(slots=True)
class PoolReport:
    """How many processors are in which state."""

    idle: int = 0
    busy: int = 0
    error: int = 0


@dataclass(slots=True)
class Pool:
    """Processors named ``<phase>-processor-1…``; hands out idle ones and takes them back."""

    phase: str
    size: int = SIZE
    monotonic: Callable[[], float] = time.monotonic
    _processors: list[Processor] = field(init=False)
    _idle: deque[Processor] = field(init=False)

    def __post_init__(self) -> None:
        self._processors = [Processor(f"{self.phase}-processor-{n + 1}") for n in range(self.size)]
        self._idle = deque(self._processors)

    @property
    def free(self) -> int:
        return len(self._idle)

    def assign(self, lease: Lease) -> Processor:
        """Give a job to an idle processor; the caller made sure there is one."""
        processor = self._idle.popleft()
        processor.state, processor.lease = ProcessorState.BUSY, lease
        processor.since = processor.progress_at = self.monotonic()
        return processor

    def release(self, processor: Processor) -> None:
        """A processor is finished with its job. One that was replaced meanwhile is forgotten."""
        if processor.state is ProcessorState.BUSY:
            processor.state, processor.lease = ProcessorState.IDLE, None
            self._idle.append(processor)

    def replace(self, processor: Processor) -> Processor:
        """Put a processor in error and a fresh one of the same name in its place."""
        processor.state = ProcessorState.ERROR
        fresh = Processor(processor.name)
        self._processors[self._processors.index(processor)] = fresh
        self._idle.append(fresh)
        return fresh

    def overdue(self, limit: float) -> Iterator[Processor]:
        """Busy processors whose job began, or last showed progress, more than ``limit`` seconds ago."""
        now = self.monotonic()
        for processor in self._processors:
            if processor.state is ProcessorState.BUSY and now - processor.progress_at > limit:
                yield processor

    def report(self) -> PoolReport:
        busy = sum(processor.state is ProcessorState.BUSY for processor in self._processors)
        return PoolReport(idle=len(self._processors) - busy, busy=busy)

    def __iter__(self) -> Iterator[Processor]:
        return iter(self._processors)
