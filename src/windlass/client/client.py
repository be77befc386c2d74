"""``Client``: submit jobs, wait for them and act on them through a server, from threads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, Unpack

from windlass.client.asks import jobs as job_asks
from windlass.client.asks import reports, submits
from windlass.client.asks.ask import AnyFilter, Seconds
from windlass.client.asks.submits import NewRemoteJob, RemoteOptions
from windlass.client.ended import next_wait, result_of, seconds_of, timed_out
from windlass.client.sending import Sender, Target
from windlass.client.verbs import (
    AuditVerbs,
    DeployVerbs,
    FailureVerbs,
    HistoryVerbs,
    InstanceVerbs,
    JobVerbs,
    Noun,
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

READ_EVERY = 0.5
"""Seconds between two reads of an operation that is waited for."""


class Jobs(JobVerbs, Noun):
    """Shows, searches, cancels, retries and changes jobs: the verbs of ``app.jobs``."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        self._operations = Operations(sender)

    def iterate(self, only: AnyFilter = None, *, page: int = 500) -> Iterator[Job]:
        """All jobs that a filter finds, newest first."""
        cursor = None
        while True:
            found = self.list(only, cursor=cursor, limit=page)
            yield from found.jobs
            if (cursor := found.next_cursor) is None:
                return

    def wait(self, job_id: str, timeout: Seconds | None = None) -> Job:
        """Wait for the end of a job; ``ResultTimeout`` if it did not end in time. The server waits, so that the end is known at once."""
        started = time.monotonic()
        while True:
            passed = time.monotonic() - started
            job = self._ended(job_id, next_wait(timeout, passed))
            if job.state.is_final:
                return job
            left = seconds_of(timeout) - (time.monotonic() - started)
            if left <= 0:
                raise timed_out(job, timeout)
            if left < 1:
                time.sleep(left)

    def result(self, job_id: str, timeout: Seconds | None = None) -> Any:
        """The result of a job, waited for; ``JobFailed`` or ``JobCancelled`` if it has none, ``ResultTimeout`` if it did not end in time."""
        return result_of(self.wait(job_id, timeout))

    def events(self, job_id: str, *, after: str | None = None) -> Iterator[JobEvent]:
        """All events of a job, from its creation or behind the event ``after``, then those to come; ends with the job. After a cut connection the
        stream continues without loss or repetition."""
        return self._sender.stream(job_asks.job_events(job_id, after))

    def retry_many(
        self,
        only: AnyFilter = None,
        *,
        reason: str | None = None,
        dependents: bool = False,
        all: bool = False,
        dry_run: bool = False,
    ) -> OperationHandle:
        """Retry all jobs that a filter finds; workers do it."""
        options = {"dependents": True} if dependents else None
        return self._operations.start("retry", only, reason, options=options, all=all, dry_run=dry_run)

    def cancel_many(
        self, only: AnyFilter = None, *, reason: str, all: bool = False, dry_run: bool = False
    ) -> OperationHandle:
        """Cancel all jobs that a filter finds and that have not ended; workers do it."""
        return self._operations.start("cancel", only, reason, all=all, dry_run=dry_run)


class OperationHandle:
    """An operation that was begun. Of a dry run ``begun`` is all there is, and ``id`` is empty."""

    def __init__(self, begun: Operation, operations: Operations) -> None:
        self.begun, self.id, self.matched = begun, begun.id, begun.matched
        self._operations = operations

    def get(self) -> Operation:
        """The operation as it is now."""
        return self._operations.get(self.id) if self.id else self.begun

    def stop(self, reason: str | None = None) -> bool:
        """Stop it; what was done stays done. False if it was over already."""
        return self._operations.stop(self.id, reason) if self.id else False

    def wait(self, timeout: float | None = None) -> Operation:
        """Wait for its end, which workers bring about, for at most ``timeout`` seconds; returns it as it is then."""
        ends_at = time.monotonic() + seconds_of(timeout)
        while not (now := self.get()).is_over and (left := ends_at - time.monotonic()) > 0:
            time.sleep(min(READ_EVERY, left))
        return now

    def __repr__(self) -> str:
        return f"<operation {self.id or 'dry run'}: {self.begun.act} {self.begun.filter or 'all jobs'}>"


class Operations(OperationVerbs, Noun):
    """Begins, shows and stops acts on many jobs: the verbs of ``app.operations``."""

    def start(
        self,
        act: str,
        only: AnyFilter = None,
        reason: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        all: bool = False,
        dry_run: bool = False,
    ) -> OperationHandle:
        """Act on all jobs that a filter finds now: ``cancel``, ``retry``, ``run_now``, ``delete`` or ``priority``; workers do it."""
        begun = self._begin(act, only, reason, options=options, all=all, dry_run=dry_run)
        return OperationHandle(begun, self)

    def handle(self, operation_id: str) -> OperationHandle:
        """A handle on an operation that was begun before."""
        return OperationHandle(self.get(operation_id), self)

    def wait(self, operation_id: str, timeout: float | None = None) -> Operation:
        """Wait until an operation is over, which workers bring about, for at most ``timeout`` seconds; returns it as it is then."""
        return self.handle(operation_id).wait(timeout)


class Phases(PhaseVerbs, Noun):
    """``client.phases``."""


class Overview(OverviewVerbs, Noun):
    """``client.overview``."""


class Failures(FailureVerbs, Noun):
    """``client.failures``."""


class Pipelines(PipelineVerbs, Noun):
    """``client.pipelines``."""


class Schedules(ScheduleVerbs, Noun):
    """``client.schedules``."""


class Rules(RuleVerbs, Noun):
    """``client.rules``."""


class Audit(AuditVerbs, Noun):
    """``client.audit``."""


class History(HistoryVerbs, Noun):
    """``client.history``."""


class Deploys(DeployVerbs, Noun):
    """``client.deploys``."""


class Instances(InstanceVerbs, Noun):
    """``client.instances``."""

    def wait(self, request_id: str, timeout: float | None = None) -> InstanceRequest:
        """Wait until a request is done or refused, for at most ``timeout`` seconds; returns it as it is then."""
        ends_at = time.monotonic() + seconds_of(timeout)
        while (
            not (now := self.request(request_id)).state.is_over and (left := ends_at - time.monotonic()) > 0
        ):
            time.sleep(min(READ_EVERY, left))
        return now


class RemoteJob:
    """A job that was submitted. ``created`` is False if a key found the job already there; ``replaced`` is True where that job still
    waited and has these arguments now."""

    def __init__(self, made: Enqueued, jobs: Jobs) -> None:
        self.id, self.created, self.replaced = made.id, made.created, made.replaced
        self._jobs = jobs

    def job(self) -> Job:
        """The job as it is now."""
        return self._jobs.get(self.id)

    def state(self) -> State:
        """The state of the job now."""
        return self.job().state

    def wait(self, timeout: Seconds | None = None) -> State:
        """Wait for the end of the job; ``ResultTimeout`` if it did not end in time."""
        return self._jobs.wait(self.id, timeout).state

    def result(self, timeout: Seconds | None = None) -> Any:
        """The result, waited for; see ``client.jobs.result``."""
        return self._jobs.result(self.id, timeout)

    def cancel(self, reason: str = ON_REQUEST) -> CancelResult:
        """Cancel the job."""
        return self._jobs.cancel(self.id, reason)

    def retry(self, *, dependents: bool = False) -> Job:
        """Run the ended job again."""
        return self._jobs.retry(self.id, dependents=dependents)

    def __repr__(self) -> str:
        return f"<job {self.id}>"


class RemoteBatch:
    """A batch that was submitted: its ``members``, and ``then``, the job that runs when all of them have ended."""

    def __init__(self, members: Sequence[RemoteJob], then: RemoteJob, jobs: Jobs) -> None:
        self.members, self.then, self._jobs = members, then, jobs

    def progress(self) -> ParentCounts:
        """How many members there are, and how those ended that have ended."""
        return self._jobs.batch(self.then.id)

    def __repr__(self) -> str:
        return f"<batch of {len(self.members)} jobs, then {self.then.id}>"


class Client:
    """The jobs of a server that runs ``windlass serve``: ``Client("https://jobs.example.org")``.

    The address and the token may come from WINDLASS_SERVER and WINDLASS_TOKEN. ``timeout`` is how many seconds a response may take.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout: float = 30.0) -> None:
        self._sender = Sender(Target(url, token), timeout)
        self.jobs = Jobs(self._sender)
        self.operations = Operations(self._sender)
        self.phases = Phases(self._sender)
        self.overview = Overview(self._sender)
        self.failures = Failures(self._sender)
        self.pipelines = Pipelines(self._sender)
        self.schedules = Schedules(self._sender)
        self.rules = Rules(self._sender)
        self.instances = Instances(self._sender)
        self.audit = Audit(self._sender)
        self.history = History(self._sender)
        self.deploys = Deploys(self._sender)

    def submit(
        self,
        kind: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> RemoteJob:
        """Submit a job: ``client.submit("report", {"county": "Harju"}, priority=9)``. A lost response makes no second job: the client
        sends the request again with the same key, which it makes unless ``idempotency_key`` is given."""
        made = self._sender.send(submits.submit(kind, arguments or {}, options, idempotency_key))
        return RemoteJob(made, self.jobs)

    def submit_many(
        self,
        kind: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> Sequence[RemoteJob]:
        """Submit a job of one kind for each row of arguments, all or none; the server takes up to 10,000 (``api.max_jobs``)."""
        made = self._sender.send(submits.submit_many(kind, rows, options, idempotency_key))
        return [RemoteJob(one, self.jobs) for one in made]

    def submit_batch(
        self, members: Iterable[NewRemoteJob | str], *, then: NewRemoteJob, idempotency_key: str | None = None
    ) -> RemoteBatch:
        """Submit jobs, and one that runs once when all of them have ended, all or none:
        ``client.submit_batch([NewRemoteJob("page", {"n": 1})], then=NewRemoteJob("report"))``. A member may be the id of a job that exists."""
        made, last = self._sender.send(submits.submit_batch(members, then, idempotency_key))
        return RemoteBatch([RemoteJob(one, self.jobs) for one in made], RemoteJob(last, self.jobs), self.jobs)

    def events(self) -> Iterator[Sample]:
        """Samples of everything, one a second, until the iteration is left; after a cut connection they continue."""
        return self._sender.stream(reports.samples())

    def check(self, seconds: float) -> None:
        """Raise ``StoreUnreachableError`` unless the server responds within so many seconds. Other calls are patient: they try again."""
        self._sender.check(seconds)

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {shown_url(self._sender.target.url)}>"
