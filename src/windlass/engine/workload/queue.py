"""Claimed jobs that wait in memory for a processor, per phase.

The queue accepts a job or refuses it with one of four reasons; the step thread, which offers jobs, releases the claim of a refused job at
once. The queue has no lock of its own: several threads use it, all under the lock of the workload (``workload.py``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum

from windlass.model import Lease

CAPACITY = 1000


class Refusal(StrEnum):
    """Why a job was refused."""

    QUEUED_HERE = "already queued in this phase"
    PROCESSING = "being processed"
    QUEUED_ELSEWHERE = "queued in another phase"
    FULL = "the queue of this phase is full"


class Queue:
    """Claimed jobs per phase, served in the order they were claimed."""

    def __init__(self, phases: Iterable[str], capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        """How many jobs of a phase may wait."""
        self.waiting: dict[str, deque[Lease]] = {phase: deque() for phase in phases}
        """The jobs of each phase, the oldest claim first; changed by the methods only."""
        self._place: dict[str, str] = {}
        self._processing: set[str] = set()

    def offer(self, lease: Lease) -> Refusal | None:
        """Add a claimed job; returns the reason if it is refused."""
        place = self._place.get(lease.id)
        if place is not None:
            return Refusal.QUEUED_HERE if place == lease.phase else Refusal.QUEUED_ELSEWHERE
        if lease.id in self._processing:
            return Refusal.PROCESSING
        waiting = self.waiting[lease.phase]
        if len(waiting) >= self.capacity:
            return Refusal.FULL
        waiting.append(lease)
        self._place[lease.id] = lease.phase
        return None

    def take_many(self, phase: str, most: int) -> list[Lease]:
        """Remove up to ``most`` jobs of a phase; they count as being processed until ``done``."""
        waiting = self.waiting[phase]
        if not waiting:
            return []
        taken = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        place = self._place
        for lease in taken:
            del place[lease.id]
        self._processing.update([lease.id for lease in taken])
        return taken

    def done(self, job_id: str) -> None:
        """Note that a job is no longer processed."""
        self._processing.discard(job_id)

    def drop(self, job_id: str, token: int) -> Lease | None:
        """Remove a waiting job that was cancelled; a job that is held under another token stays."""
        phase = self._place.get(job_id)
        if phase is None:
            return None
        waiting = self.waiting[phase]
        lease = next(item for item in waiting if item.id == job_id)
        if lease.token != token:
            return None
        waiting.remove(lease)
        del self._place[job_id]
        return lease

    def drain(self, phases: Iterable[str] | None = None) -> list[Lease]:
        """Remove all waiting jobs of these phases, or of all, to give them back."""
        leases: list[Lease] = []
        for phase in list(self.waiting) if phases is None else phases:
            waiting = self.waiting[phase]
            leases += waiting
            waiting.clear()
        for lease in leases:
            del self._place[lease.id]
        return leases

    def __len__(self) -> int:
        return len(self._place)
