"""The store as a running job may use it, in all places where jobs run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from windlass.engine.running_attempt import RunningAttempt
from windlass.features import Store
from windlass.model import (
    Captured,
    Enqueued,
    Flag,
    Lease,
    NewJob,
    Output,
    ParentCounts,
    ParentPage,
    Progress,
    Run,
    State,
)
from windlass.store.jobs.effects import EffectTransaction, Fence
from windlass.store.jobs.held_job import HeldJob


class StoreAccess(Protocol):
    """A store and its holder, which is read each time, because a lost lease replaces it."""

    @property
    def store(self) -> Store: ...

    @property
    def holder(self) -> HeldJob: ...


class RunningJobStore:
    """An ``AttemptStore``: the store as one running job sees it.

    Transactions that end the job record its processor and duration. ``check`` is called before each write; it raises if a test simulates an
    outage of the database.
    """

    __slots__ = ("_access", "_check", "_has_checkpoint", "_running")

    def __init__(
        self, access: StoreAccess, running: RunningAttempt, check: Callable[[], None] | None = None
    ) -> None:
        self._access = access
        self._running = running
        self._check = check
        self._has_checkpoint = bool(running.lease.flags & Flag.CHECKPOINT)

    def checkpoint(self, lease: Lease, *, done: int, total: int | None = None, position: Any = None) -> bool:
        is_first = not self._has_checkpoint
        is_cancelled = self._holder.checkpoint(
            lease, done=done, total=total, position=position, is_first=is_first
        )
        self._has_checkpoint = True
        return is_cancelled

    def put_output(self, lease: Lease, value: Any, *, name: str = "") -> Output:
        return self._holder.put_output(lease, value, name=name)

    def transaction(self, lease: Lease) -> EffectTransaction:
        return self._holder.transaction(lease, run=self._run)

    def fence(self, lease: Lease) -> Fence:
        return self._holder.fence(lease, run=self._run)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if self._check is not None:
            self._check()
        return self._access.store.enqueue(jobs)

    def resume(self, lease: Lease) -> Progress | None:
        return self._access.store.resume(lease)

    def outputs_of(self, lease: Lease) -> Sequence[Output]:
        return self._access.store.outputs_of(lease)

    def principal_of(self, lease: Lease) -> Captured | None:
        return self._access.store.principals.of(lease)

    def parents_of(self, lease: Lease, after: str) -> ParentPage:
        return self._access.store.parents.page(lease.id, after)

    def count_parents(self, lease: Lease) -> ParentCounts:
        return self._access.store.parents.count(lease.id)

    def headers_of(self, lease: Lease) -> Mapping[str, str]:
        return self._access.store.headers.of(lease)

    def ended_as(self, lease: Lease) -> str | None:
        """How a transaction that the handler committed itself ended the attempt; None if there is no such end."""
        job = self._access.store.jobs.get(lease.id)
        if job.generation != lease.generation or job.state.is_final:
            return str(job.state) if job.state.is_final else str(State.COMPLETED)
        return "advanced" if job.phase != lease.phase else None

    @property
    def _holder(self) -> HeldJob:
        if self._check is not None:
            self._check()
        return self._access.holder

    def _run(self) -> Run:
        return self._running.run(time.monotonic())
