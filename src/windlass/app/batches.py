"""Batches and chains: jobs that are stored together, because some of them wait for others.

    batch = app.batch([resize.request(photo=n) for n in photos], then=album.request(name="July"))
    chain = app.chain(load.request(day=7), check.request(), publish.request())

Nothing of a batch or a chain is stored beside its jobs and the edges between them: the objects here only remember the ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from windlass.errors import JobCancelled, JobFailed
from windlass.handlers.chunk_transaction import ChunkTransaction
from windlass.handlers.transaction import JobTransaction
from windlass.model import ON_REQUEST, Enqueued, ParentCounts, State
from windlass.submit.handle import JobHandle, JobHandles, Source, in_reach

if TYPE_CHECKING:
    from windlass.app.parts import AppParts
    from windlass.store.jobs.checked import CheckedJob

R = TypeVar("R")


class Batch(Generic[R]):
    """Jobs that were stored together, and the one that runs when all of them have ended. ``members`` are in the order of the requests."""

    def __init__(self, members: JobHandles[Any], then: JobHandle[R], source: Source) -> None:
        self.members = members
        self.then = then
        self._source = source

    def result(self, timeout: float | timedelta | None = None) -> R:
        """Wait for the result of ``then``, as ``JobHandle.result`` does."""
        return self.then.result(timeout)

    async def result_async(self, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109  as the sync form
        """``result`` without blocking the event loop."""
        return await self.then.result_async(timeout)

    def progress(self) -> ParentCounts:
        """How many members there are and how those ended that have ended; one statement, whatever their number. A member counts once it
        has ended for good: an attempt that is to be retried is no end. ``JobNotFoundError`` when ``then`` was pruned."""
        counts = in_reach(self._source).store.parents.count(self.then.id)
        if not counts.total:
            in_reach(self._source).store.jobs.get(self.then.id)
        return counts

    async def progress_async(self) -> ParentCounts:
        """``progress`` without blocking the event loop."""
        return await asyncio.to_thread(self.progress)

    def cancel(self, reason: str = ON_REQUEST) -> int:
        """Cancel ``then`` and all members that have not ended; returns how many jobs were cancelled or asked to stop. ``then`` goes first, so
        that it does not run because the members ended. May be repeated."""
        jobs = in_reach(self._source).store.jobs
        first = jobs.cancel_all([self.then.id], reason)
        return first + jobs.cancel_all([*dict.fromkeys(self.members.ids)], reason)

    async def cancel_async(self, reason: str = ON_REQUEST) -> int:
        """``cancel`` without blocking the event loop."""
        return await asyncio.to_thread(self.cancel, reason)


class Chain:
    """Jobs that run one after the other, in the order of the requests. The result of the ``last`` one is the result of the chain."""

    def __init__(self, jobs: JobHandles[Any], source: Source) -> None:
        self.jobs = jobs
        self._source = source

    @property
    def first(self) -> JobHandle[Any]:
        """The job that runs first."""
        return self.jobs[0]

    @property
    def last(self) -> JobHandle[Any]:
        """The job that runs last."""
        return self.jobs[-1]

    def result(self, timeout: float | timedelta | None = None) -> Any:
        """Wait for the result of the last job, as ``JobHandle.result`` does. If a job before it failed, ``JobFailed`` has that job's error."""
        try:
            return self.last.result(timeout)
        except JobCancelled as cancelled:
            self._raise_cause(cancelled)
            raise

    async def result_async(self, timeout: float | timedelta | None = None) -> Any:  # noqa: ASYNC109  as the sync form
        """``result`` without blocking the event loop."""
        try:
            return await self.last.result_async(timeout)
        except JobCancelled as cancelled:
            await asyncio.to_thread(self._raise_cause, cancelled)
            raise

    def _raise_cause(self, cancelled: JobCancelled) -> None:
        """Raise the error of the job whose failure cancelled those behind it, if there is one."""
        if cancelled.error.get("code") == "parent_not_completed":
            for job in self.jobs:
                if (found := job.job()).state is State.FAILED:
                    raise JobFailed(found.id, found.kind, found.error) from cancelled

    def cancel(self, reason: str = ON_REQUEST) -> int:
        """Cancel all jobs that have not ended, the last one first; returns how many were cancelled or asked to stop. May be repeated."""
        jobs = in_reach(self._source).store.jobs
        return sum(jobs.cancel_all([job_id], reason) for job_id in reversed(self.jobs.ids))

    async def cancel_async(self, reason: str = ON_REQUEST) -> int:
        """``cancel`` without blocking the event loop."""
        return await asyncio.to_thread(self.cancel, reason)


def stored_batch(
    source: Source,
    home: AppParts,
    members: Sequence[str],
    jobs: Sequence[CheckedJob],
    made: Sequence[Enqueued],
) -> Batch[Any]:
    """The batch of jobs that were just stored; ``members`` are the ids of its requests."""
    stored = {job.id: result for job, result in zip(jobs, made, strict=True)}
    found = [stored.get(member) or Enqueued(member, created=False) for member in members]
    then = JobHandle[Any](made[-1], source, home.registry)
    return Batch(JobHandles(found, source, home.registry), then, source)


def stored_chain(source: Source, home: AppParts, made: Sequence[Enqueued]) -> Chain:
    """The chain of jobs that were just stored."""
    return Chain(JobHandles(made, source, home.registry), source)


def submit_in(home: AppParts, where: Any, jobs: Sequence[CheckedJob], notify: bool) -> list[Enqueued]:
    """Store jobs in the transaction ``where``."""
    if isinstance(where, JobTransaction | ChunkTransaction):
        made: list[Enqueued] = where.enqueue_group(jobs)
        return made
    return home.transaction_submitter.submit_group(where, jobs, notify=notify)


async def submit_in_async(
    home: AppParts, where: Any, jobs: Sequence[CheckedJob], notify: bool
) -> list[Enqueued]:
    """``submit_in`` without blocking the event loop."""
    if isinstance(where, JobTransaction):
        opened = where
        return await opened.run(lambda: opened.enqueue_group(jobs))
    if isinstance(where, ChunkTransaction):
        chunk = where
        chunk.announce()
        made: list[Enqueued] = await chunk.run_here(lambda: chunk.enqueue_group(jobs))
        return made
    return await home.transaction_submitter.submit_group_async(where, jobs, notify=notify)
