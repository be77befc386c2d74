"""A handle on a submitted job: its state, its progress, its result, and the ways to stop or repeat it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, overload

from windlass.errors import JobCancelled, JobFailed, ResultTimeout
from windlass.handlers.registry import Registry
from windlass.model import ON_REQUEST, CancelResult, Enqueued, Job, Progress, State
from windlass.store.opening import check_opened, opening_checks
from windlass.submit.submitter import Submitter
from windlass.urls import shown_url
from windlass.waiting.waiter import EndedResult, Waiter

if TYPE_CHECKING:
    from windlass.features import Store

R = TypeVar("R")


class Source(Protocol):
    """Where the job of a handle is stored, and what waits for its end; opened when it is first used."""

    @property
    def store(self) -> Store: ...

    @property
    def waiter(self) -> Waiter: ...


class SubmitterSource:
    """The source of a handle that was made of an id: where the app's submitter stores jobs, found when it is first used."""

    __slots__ = ("_app",)

    def __init__(self, app: HasSubmitter) -> None:
        self._app = app

    @property
    def store(self) -> Store:
        return self._app.submitter.store

    @property
    def waiter(self) -> Waiter:
        return self._app.submitter.waiter


def in_reach(source: Source) -> Source:
    """The source, unless the test kit refuses its database now: jobs may have been submitted before a sandbox was made."""
    if opening_checks:
        check_opened(source.store.options)
    return source


class HasSubmitter(Protocol):
    """The part of an app that a handle uses."""

    @property
    def submitter(self) -> Submitter: ...


class JobHandle(Generic[R]):
    """A submitted job. ``created`` is False if a key or a repeated id found the job already there; ``replaced`` is True where that job
    still waited and has these arguments now."""

    __slots__ = ("_registry", "_source", "created", "id", "replaced")

    def __init__(self, made: Enqueued, source: Source, registry: Registry) -> None:
        self.id = made.id
        self.created = made.created
        self.replaced = made.replaced
        self._source = source
        self._registry = registry

    # ------------------------------------------------------------------ reading

    def job(self) -> Job:
        """The job as the database has it now, with arguments, error and timestamps."""
        return in_reach(self._source).store.jobs.get(self.id)

    def state(self) -> State:
        """The state of the job now."""
        return self.job().state

    def progress(self) -> Progress | None:
        """How far the job is; None if it saved no progress."""
        return self.job().progress

    # ------------------------------------------------------------------ waiting

    def wait(self, timeout: float | timedelta | None = None) -> State:
        """Wait until the job has ended, with any outcome; returns its state. ``ResultTimeout`` after ``timeout`` seconds."""
        return State(self._ended(in_reach(self._source).waiter.wait(self.id, timeout), timeout).state)

    def result(self, timeout: float | timedelta | None = None) -> R:
        """Wait until the job has ended; returns its result, as the type that the handler returns.

        ``JobFailed`` if it failed, ``JobCancelled`` if it was cancelled, ``ResultTimeout`` after ``timeout`` seconds.
        """
        return self._result(self._ended(in_reach(self._source).waiter.wait(self.id, timeout), timeout))

    # ------------------------------------------------------------------ acting

    def cancel(self, reason: str = ON_REQUEST) -> CancelResult:
        """Cancel the job: at once if it does not run, else its handler is asked to stop."""
        return in_reach(self._source).store.jobs.cancel(self.id, reason)

    def retry(self, *, dependents: bool = False) -> Job:
        """Run the ended job again, its history kept; with ``dependents`` also the jobs that were cancelled because of it."""
        return in_reach(self._source).store.jobs.retry(self.id, dependents=dependents)

    # ------------------------------------------------------------------ the same for coroutines

    async def job_async(self) -> Job:
        """``job`` without blocking the event loop."""
        return await asyncio.to_thread(self.job)

    async def state_async(self) -> State:
        """``state`` without blocking the event loop."""
        return await asyncio.to_thread(self.state)

    async def progress_async(self) -> Progress | None:
        """``progress`` without blocking the event loop."""
        return await asyncio.to_thread(self.progress)

    async def wait_async(self, timeout: float | timedelta | None = None) -> State:  # noqa: ASYNC109  as the sync form
        """``wait`` without blocking the event loop, and without a thread of its own."""
        return State((await self._ended_async(timeout)).state)

    async def result_async(self, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109  as the sync form
        """``result`` without blocking the event loop, and without a thread of its own."""
        return self._result(await self._ended_async(timeout))

    async def cancel_async(self, reason: str = ON_REQUEST) -> CancelResult:
        """``cancel`` without blocking the event loop."""
        return await asyncio.to_thread(self.cancel, reason)

    async def retry_async(self, *, dependents: bool = False) -> Job:
        """``retry`` without blocking the event loop."""
        return await asyncio.to_thread(self.retry, dependents=dependents)

    # ------------------------------------------------------------------ how it is done

    async def _ended_async(self, timeout: float | timedelta | None) -> EndedResult:  # noqa: ASYNC109  passed on
        waiter = in_reach(self._source).waiter
        ended = await waiter.wait_async(self.id, timeout)
        if ended is not None:
            return ended
        return await asyncio.wrap_future(waiter.reader.submit(self._ended, None, timeout))

    def _ended(self, ended: EndedResult | None, timeout: float | timedelta | None) -> EndedResult:
        if ended is not None:
            return ended
        job = self.job()
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout or 0.0
        url = in_reach(self._source).store.options.get("url")
        place = None if url is None else shown_url(str(url))
        raise ResultTimeout(self.id, seconds, str(job.state), job.why, place)

    def _result(self, ended: EndedResult) -> R:
        if ended.state == State.COMPLETED:
            return self._registry.decode_result(ended.kind, ended.result or "null")  # type: ignore[no-any-return]
        raise (JobCancelled if ended.state == State.CANCELLED else JobFailed)(
            self.id, ended.kind, ended.error
        )

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class JobHandles(Sequence[JobHandle[R]]):
    """The handles of many jobs, in the order they were given; each is made when it is used."""

    __slots__ = ("_made", "_registry", "_source")

    def __init__(self, made: Sequence[Enqueued], source: Source, registry: Registry) -> None:
        self._made = made
        self._source = source
        self._registry = registry

    @property
    def ids(self) -> list[str]:
        """The ids of all jobs."""
        return [made.id for made in self._made]

    @overload
    def __getitem__(self, index: int) -> JobHandle[R]: ...

    @overload
    def __getitem__(self, index: slice) -> JobHandles[R]: ...

    def __getitem__(self, index: int | slice) -> JobHandle[R] | JobHandles[R]:
        if isinstance(index, slice):
            return JobHandles(self._made[index], self._source, self._registry)
        return JobHandle(self._made[index], self._source, self._registry)

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return f"<{len(self)} jobs>"
