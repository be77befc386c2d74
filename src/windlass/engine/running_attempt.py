"""A job on a processor, as all threads of the engine see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from windlass.handlers.context import Context
from windlass.handlers.registry import Phase
from windlass.model import Lease, Run


class Stop(StrEnum):
    """Why a running job was asked to stop."""

    CANCELLED = "cancelled"
    TIME_LIMIT = "time limit"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease lost"
    NOT_BEGUN = "not begun"  # within its time limit: the loop is blocked, or no thread is free


class ProcessorState(StrEnum):
    IDLE = "idle"
    BUSY = "busy"
    ERROR = "error"


@dataclass(slots=True, eq=False)
class Processor:
    """A slot that runs one job at a time."""

    phase: str
    number: int
    state: ProcessorState = ProcessorState.IDLE
    lease: Lease | None = None
    since: float = 0.0
    progress_at: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.phase}-processor-{self.number}"

    def touch(self, now: float) -> None:
        """Note progress of the job: its time limit counts from here."""
        self.progress_at = now


make_run = partial(tuple.__new__, Run)  # takes a third of the constructor's time


class RunningAttempt:
    """One running attempt. ``stop`` and ``is_over`` are written under the lock of the workload only."""

    __slots__ = (
        "begun", "claimed", "context", "handle", "is_isolated", "is_over", "lease", "phase", "processor", "started", "stop", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        lease: Lease,
        phase: Phase | None,
        processor: Processor,
        claimed: float,
        started: float,
        is_isolated: bool,
    ) -> None:
        self.lease = lease
        self.phase = phase
        self.processor = processor
        self.claimed = claimed
        self.started = started
        self.is_isolated = (
            is_isolated  # a suspect: it runs in its own process, so that a crash ends no other job
        )
        self.begun = False
        self.context: Context | None = None
        self.handle: Any = None  # set by the executor: a task, a child
        self.stop: Stop | None = None
        self.stopped = 0.0
        self.is_over = False

    def run(self, now: float) -> Run:
        """The processor of this attempt, how long it waited, and how long it ran."""
        started = self.started
        waited, ran = int((started - self.claimed) * 1000 + 0.5), int((now - started) * 1000 + 0.5)
        return make_run((self.processor.number, waited, ran))

    def __repr__(self) -> str:
        return f"<{self.lease.phase} job {self.lease.id} on {self.processor.name}>"
