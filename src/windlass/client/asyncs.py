"""``AsyncClient``: the same as ``Client``, for coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Self, Unpack

from windlass.client.asks import jobs as job_asks
from windlass.client.asks import reports, submits
from windlass.client.asks.ask import AnyFilter, Seconds
from windlass.client.asks.submits import NewRemoteJob, RemoteOptions
from windlass.client.client import READ_EVERY
from windlass.client.ended import next_wait, result_of, seconds_of, timed_out
from windlass.client.sending import AsyncSender, Target
from windlass.client.verbs import (
    AsyncNoun,
    AuditVerbs,
    DeployVerbs,
    FailureVerbs,
    HistoryVerbs,
    InstanceVerbs,
    JobVerbs,
    OperationVerbs,
    OverviewVerbs,
    PhaseVerbs,
    PipelineVerbs,
    RuleVerbs,
    ScheduleVerbs,
)
from windlass.control.job_views import JobEvent
from windlass.control.system_views import Sample
from windlass.model import ON_REQUEST, CancelResult, Enqueued, Job, ParentCounts, State
from windlass.operations.operation import Operation
from windlass.operations.request import InstanceRequest
from windlass.urls import shown_url


class AsyncJobs(JobVerbs, AsyncNoun):
    """Shows, searches, cancels, retries and changes jobs: the verbs of ``app.jobs``."""

    def __init__(self, sender: AsyncSender) -> None:
        super().__init__(sender)
        self._operations = AsyncOperations(sender)

    async def iterate(self, only: AnyFilter = None, *, page: int = 500) -> AsyncIterator[Job]:
        """All jobs that a filter finds, newest first."""
        cursor = None
        while True:
            found = await self.list(only, cursor=cursor, limit=page)
            for job in found.jobs:
                yield job
            if (cursor := found.next_cursor) is None:
                return

    async def wait(self, job_id: str, timeout: Seconds | None = None) -> Job:
        """Wait for the end of a job; ``ResultTimeout`` if it did not end in time. The server waits, so that the end is known at once."""
        started = time.monotonic()
        while True:
            passed = time.monotonic() - started
            job = await self._ended(job_id, next_wait(timeout, passed))
            if job.state.is_final:
                return job
            left = seconds_of(timeout) - (time.monotonic() - started)
            if left <= 0:
                raise timed_out(job, timeout)
            if left < 1:
                await asyncio.sleep(left)

    async def result(self, job_id: str, timeout: Seconds | None = None) -> Any:
        """The result of a job, waited for; ``JobFailed`` or ``JobCancelled`` if it has none, ``ResultTimeout`` if it did not end in time."""
        return result_of(await self.wait(job_id, timeout))

    def events(self, job_id: str, *, after: str | None = None) -> AsyncIterator[JobEvent]:
        """All events of a job, from its creation or behind the event ``after``, then those to come; ends with the job. After a cut connection the
        stream continues without loss or repetition."""
        return self._sender.stream(job_asks.job_events(job_id, after))

    async def retry_many(
        self,
        only: AnyFilter = None,
        *,
        reason: str | None = None,
        dependents: bool = False,
        all: bool = False,
        dry_run: bool = False,
    ) -> AsyncOperationHandle:
        """Retry all jobs that a filter finds; workers do it."""
        options = {"dependents": True} if dependents else None
        return await self._operations.start("retry", only, reason, options=options, all=all, dry_run=dry_run)

    async def cancel_many(
        self, only: AnyFilter = None, *, reason: str, all: bool = False, dry_run: bool = False
    ) -> AsyncOperationHandle:
        """Cancel all jobs that a filter finds and that have not ended; workers do it."""
        return await self._operations.start("cancel", only, reason, all=all, dry_run=dry_run)


class AsyncOperationHandle:
    """An operation that was begun. Of a dry run ``begun`` is all there is, and ``id`` is empty."""

    def __init__(self, begun: Operation, operations: AsyncOperations) -> None:
        self.begun, self.id, self.matched = begun, begun.id, begun.matched
        self._operations = operations

    async def get(self) -> Operation:
        """The operation as it is now."""
        return await self._operations.get(self.id) if self.id else self.begun

    async def stop(self, reason: str | None = None) -> bool:
        """Stop it; what was done stays done. False if it was over already."""
        return await self._operations.stop(self.id, reason) if self.id else False

    async def wait(self, timeout: float | None = None) -> Operation:
        """Wait for its end, which workers bring about, for at most ``timeout`` seconds; returns it as it is then."""
        ends_at = time.monotonic() + seconds_of(timeout)
        while not (now := await self.get()).is_over and (left := ends_at - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(READ_EVERY, left))
        return now

    def __repr__(self) -> str:
        return f"<operation {self.id or 'dry run'}: {self.begun.act} {self.begun.filter or 'all jobs'}>"


class AsyncOperations(OperationVerbs, AsyncNoun):
    """Begins, shows and stops acts on many jobs: the verbs of ``app.operations``."""

    async def start(
        self,
        act: str,
        only: AnyFilter = None,
        reason: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        all: bool = False,
        dry_run: bool = False,
    ) -> AsyncOperationHandle:
        """Act on all jobs that a filter finds now: ``cancel``, ``retry``, ``run_now``, ``delete`` or ``priority``; workers do it."""
        begun = await self._begin(act, only, reason, options=options, all=all, dry_run=dry_run)
        return AsyncOperationHandle(begun, self)

    async def handle(self, operation_id: str) -> AsyncOperationHandle:
        """A handle on an operation that was begun before."""
        return AsyncOperationHandle(await self.get(operation_id), self)

    async def wait(self, operation_id: str, timeout: float | None = None) -> Operation:
        """Wait until an operation is over, which workers bring about, for at most ``timeout`` seconds; returns it as it is then."""
        return await (await self.handle(operation_id)).wait(timeout)


class AsyncPhases(PhaseVerbs, AsyncNoun):
    """``client.phases``."""


class AsyncOverview(OverviewVerbs, AsyncNoun):
    """``client.overview``."""


class AsyncFailures(FailureVerbs, AsyncNoun):
    """``client.failures``."""


class AsyncPipelines(PipelineVerbs, AsyncNoun):
    """``client.pipelines``."""


class AsyncSchedules(ScheduleVerbs, AsyncNoun):
    """``client.schedules``."""


class AsyncRules(RuleVerbs, AsyncNoun):
    """``client.rules``."""


class AsyncAudit(AuditVerbs, AsyncNoun):
    """``client.audit``."""


class AsyncHistory(HistoryVerbs, AsyncNoun):
    """``client.history``."""


class AsyncDeploys(DeployVerbs, AsyncNoun):
    """``client.deploys``."""


class AsyncInstances(InstanceVerbs, AsyncNoun):
    """``client.instances``."""

    async def wait(self, request_id: str, timeout: float | None = None) -> InstanceRequest:
        """Wait until a request is done or refused, for at most ``timeout`` seconds; returns it as it is then."""
        ends_at = time.monotonic() + seconds_of(timeout)
        while (  # noqa: ASYNC110
            not (now := await self.request(request_id)).state.is_over
            and (left := ends_at - time.monotonic()) > 0
        ):
            await asyncio.sleep(min(READ_EVERY, left))
        return now


class AsyncRemoteJob:
    """A job that was submitted. ``created`` is False if a key found the job already there; ``replaced`` is True where that job still
    waited and has these arguments now."""

    def __init__(self, made: Enqueued, jobs: AsyncJobs) -> None:
        self.id, self.created, self.replaced = made.id, made.created, made.replaced
        self._jobs = jobs

    async def job(self) -> Job:
        """The job as it is now."""
        return await self._jobs.get(self.id)

    async def state(self) -> State:
        """The state of the job now."""
        return (await self.job()).state

    async def wait(self, timeout: Seconds | None = None) -> State:
        """Wait for the end of the job; ``ResultTimeout`` if it did not end in time."""
        return (await self._jobs.wait(self.id, timeout)).state

    async def result(self, timeout: Seconds | None = None) -> Any:
        """The result, waited for; see ``client.jobs.result``."""
        return await self._jobs.result(self.id, timeout)

    async def cancel(self, reason: str = ON_REQUEST) -> CancelResult:
        """Cancel the job."""
        return await self._jobs.cancel(self.id, reason)

    async def retry(self, *, dependents: bool = False) -> Job:
        """Run the ended job again."""
        return await self._jobs.retry(self.id, dependents=dependents)

    def __repr__(self) -> str:
        return f"<job {self.id}>"


class AsyncRemoteBatch:
    """A batch that was submitted: its ``members``, and ``then``, the job that runs when all of them have ended."""

    def __init__(self, members: Sequence[AsyncRemoteJob], then: AsyncRemoteJob, jobs: AsyncJobs) -> None:
        self.members, self.then, self._jobs = members, then, jobs

    async def progress(self) -> ParentCounts:
        """How many members there are, and how those ended that have ended."""
        return await self._jobs.batch(self.then.id)

    def __repr__(self) -> str:
        return f"<batch of {len(self.members)} jobs, then {self.then.id}>"


class AsyncClient:
    """The jobs of a server that runs ``windlass serve``: ``AsyncClient("https://jobs.example.org")``.

    The address and the token may come from WINDLASS_SERVER and WINDLASS_TOKEN. ``timeout`` is how many seconds a response may take.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout: float = 30.0) -> None:
        self._sender = AsyncSender(Target(url, token), timeout)
        self.jobs = AsyncJobs(self._sender)
        self.operations = AsyncOperations(self._sender)
        self.phases = AsyncPhases(self._sender)
        self.overview = AsyncOverview(self._sender)
        self.failures = AsyncFailures(self._sender)
        self.pipelines = AsyncPipelines(self._sender)
        self.schedules = AsyncSchedules(self._sender)
        self.rules = AsyncRules(self._sender)
        self.instances = AsyncInstances(self._sender)
        self.audit = AsyncAudit(self._sender)
        self.history = AsyncHistory(self._sender)
        self.deploys = AsyncDeploys(self._sender)

    async def submit(
        self,
        kind: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> AsyncRemoteJob:
        """Submit a job: ``client.submit("report", {"county": "Harju"}, priority=9)``. A lost response makes no second job: the client
        sends the request again with the same key, which it makes unless ``idempotency_key`` is given."""
        made = await self._sender.send(submits.submit(kind, arguments or {}, options, idempotency_key))
        return AsyncRemoteJob(made, self.jobs)

    async def submit_many(
        self,
        kind: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> Sequence[AsyncRemoteJob]:
        """Submit a job of one kind for each row of arguments, all or none; the server takes up to 10,000 (``api.max_jobs``)."""
        made = await self._sender.send(submits.submit_many(kind, rows, options, idempotency_key))
        return [AsyncRemoteJob(one, self.jobs) for one in made]

    async def submit_batch(
        self, members: Iterable[NewRemoteJob | str], *, then: NewRemoteJob, idempotency_key: str | None = None
    ) -> AsyncRemoteBatch:
        """Submit jobs, and one that runs once when all of them have ended, all or none:
        ``client.submit_batch([NewRemoteJob("page", {"n": 1})], then=NewRemoteJob("report"))``. A member may be the id of a job that exists."""
        made, last = await self._sender.send(submits.submit_batch(members, then, idempotency_key))
        return AsyncRemoteBatch(
            [AsyncRemoteJob(one, self.jobs) for one in made], AsyncRemoteJob(last, self.jobs), self.jobs
        )

    def events(self) -> AsyncIterator[Sample]:
        """Samples of everything, one a second, until the iteration is left; after a cut connection they continue."""
        return self._sender.stream(reports.samples())

    async def check(self, seconds: float) -> None:
        """Raise ``StoreUnreachableError`` unless the server responds within so many seconds. Other calls are patient: they try again."""
        await self._sender.check(seconds)

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient of {shown_url(self._sender.target.url)}>"
