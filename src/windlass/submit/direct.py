"""Submits each job by itself, in the thread of its caller: for tests, where a connection belongs to a thread and no worker runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from windlass.errors import SandboxError
from windlass.model import Enqueued, NewJob
from windlass.store.jobs.checked import CheckedJob, check
from windlass.store.jobs.copy import SameKindJobs
from windlass.store.jobs.ends import EndedResult
from windlass.submit.submitter import Submitter
from windlass.waiting.waiter import Waiter

if TYPE_CHECKING:
    from windlass.features import Store

Call = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function from a coroutine, in the right thread."""


class DirectWaiter(Waiter):
    """Waits for no one: a job has ended, or ``run`` runs it now, or the wait is refused."""

    def __init__(self, store: Store, call: Call, run: Callable[[], object] = lambda: None) -> None:
        super().__init__(store)
        self._ends = store.ends
        self._call, self._run_due = call, run

    def wait(self, job_id: str, timeout: float | timedelta | None = None) -> EndedResult | None:
        ended = self._ends.of([job_id])
        if not ended:
            self._run_due()
            ended = self._ends.of([job_id])
        if ended:
            return ended[0]
        job = self._store.jobs.get(job_id)
        raise SandboxError(
            f"job {job_id} of {job.kind} has not ended, and in a test no worker runs it: it is {job.state}"
            f"{f' ({job.why})' if job.why else ''}. Run it with a sandbox of windlass.testing: box.drain(), or box.drain(advance=True) "
            "for jobs that are due later"
        )

    async def wait_async(self, job_id: str, timeout: float | timedelta | None = None) -> EndedResult | None:  # noqa: ASYNC109  as the sync form
        ended: EndedResult | None = await self._call(lambda: self.wait(job_id))
        return ended


class DirectSubmitter(Submitter):
    """Submits in the caller's thread, one call after the other; ``call`` leads from a coroutine to the right thread."""

    def __init__(self, store: Store, call: Call = asyncio.to_thread) -> None:
        super().__init__(store)
        self._call = call

    @property
    def waiter(self) -> Waiter:
        if self._waiter is None:
            self._waiter = self._make_waiter()
        return self._waiter

    def _make_waiter(self) -> DirectWaiter:
        return DirectWaiter(self.store, self._call, self.run_due)

    def run_due(self) -> None:
        """Run jobs, if this submitter can, because a caller waits for one."""

    def submit(self, job: NewJob) -> Enqueued:
        return self.submit_group(check([job]), is_group=False)[0]

    def submit_many(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued]:
        return self.submit_group(
            check(jobs.jobs() if isinstance(jobs, SameKindJobs) else jobs), is_group=False
        )

    def submit_group(self, entries: Sequence[CheckedJob], *, is_group: bool = True) -> list[Enqueued]:
        if is_group:
            return self.store.enqueuer.enqueue_group(entries)
        return self.store.enqueue_checked(entries)

    async def submit_async(self, job: NewJob) -> Enqueued:
        made: Enqueued = await self._call(lambda: self.submit(job))
        return made

    async def submit_many_async(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued]:
        listed = jobs.jobs() if isinstance(jobs, SameKindJobs) else jobs
        made: list[Enqueued] = await self._call(lambda: self.submit_many(listed))
        return made

    async def submit_group_async(self, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        made: list[Enqueued] = await self._call(lambda: self.submit_group(entries))
        return made
