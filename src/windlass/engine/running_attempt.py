"""A job on a processor, as all threads of the engine see it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, cast

from windlass import forking
from windlass.handlers.attempt_context import AttemptContext
from windlass.handlers.registry import Phase
from windlass.model import Lease, Run
from windlass.store.attempt_store import AttemptStore


class Stop(StrEnum):
    """Why a running job was asked to stop."""

    CANCELLED = "cancelled"
    TIME_LIMIT = "time limit"
    TOTAL_TIME_LIMIT = "total time limit"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease lost"
    NOT_BEGUN = "not begun"  # within its time limit: the loop is blocked, or no thread is free


OVERDUE = (Stop.TIME_LIMIT, Stop.TOTAL_TIME_LIMIT)
"""The stops of a job that exceeded one of its time limits."""


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


class _Making:
    """Several threads of one handler may need its context at once."""

    lock = threading.Lock()

    def after_fork_in_child(self) -> None:
        _Making.lock = threading.Lock()


_making = _Making()
forking.watch(_making)


class RunningAttempt:
    """One running attempt. ``stop`` and ``is_over`` are written under the lock of the workload only."""

    __slots__ = (
        "begun", "claimed", "context", "counts_from", "handle", "is_isolated", "is_over", "lease", "phase", "processor", "started", "stop", "stopped",
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
        self.counts_from = started  # its total time limit; the watchdog moves it until the job has begun
        self.is_isolated = (
            is_isolated  # a suspect: it runs in its own process, so that a crash ends no other job
        )
        self.begun = False
        self.context: AttemptContext | None = None
        self.handle: Any = None  # set by the executor: a task, a child
        self.stop: Stop | None = None
        self.stopped = 0.0
        self.is_over = False

    def run(self, now: float) -> Run:
        """The processor of this attempt, how long it waited, and how long it ran."""
        started = self.started
        waited, ran = int((started - self.claimed) * 1000 + 0.5), int((now - started) * 1000 + 0.5)
        return make_run((self.processor.number, waited, ran))

    def ensure_context(self) -> AttemptContext:
        """Return the context of this attempt. A handler that has asked for none gets one without a store: it says when to stop, and takes
        signs of life."""
        with _Making.lock:
            if self.context is None:
                touch, no_store = self.processor.touch, cast(AttemptStore, None)
                phase = cast(Phase, self.phase)
                self.context = AttemptContext(
                    self.lease, phase, no_store, touch=lambda: touch(time.monotonic())
                )
                if self.stop is not None:  # after the line above: who sets it asks the context that there is
                    self.context.ask_to_stop()
            return self.context

    def __repr__(self) -> str:
        return f"<{self.lease.phase} job {self.lease.id} on {self.processor.name}>"
