"""``process_request``: run one job now, in this process, under the same claim, lock, retry and error rules as any worker.

    lock → load → done already? → claim → each phase, unless its probe finds its output, with backoff → output and end recorded → release

The lock saves work, the claim decides: with no lock server, or two callers that both got a lock, the database still gives the job
to one of them. A failed attempt is recorded as by a worker, and the delay passes here; if a worker claims the job meanwhile, the status says so.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Self, TypeVar

from windlass import forking
from windlass.arguments.asyncness import is_async
from windlass.engine.around import MiddlewareRunner
from windlass.engine.attempt import AttemptRunner, Call, Wrapper
from windlass.engine.job_locks import Guard, OwnedGuard
from windlass.engine.membership import Membership
from windlass.engine.places import Places
from windlass.engine.recorder import Recorder
from windlass.engine.running_attempt import Processor, RunningAttempt, Stop
from windlass.engine.running_job_store import RunningJobStore
from windlass.engine.stats import Stats
from windlass.errors import JobNotFoundError, LeaseLost, WindlassError
from windlass.features import Store
from windlass.forking import Process
from windlass.handlers.chunk_defaults import ChunkDefaults
from windlass.handlers.registry import Registry
from windlass.locks.contract import Owner
from windlass.model import (
    UNBEGUN,
    Advanced,
    Completed,
    Flag,
    Job,
    Lease,
    Outcome,
    Retried,
    State,
    Verdict,
    has_flag,
)
from windlass.observe import events
from windlass.observe.current_job import current_job, lease_fields
from windlass.observe.emit import emit
from windlass.observe.logger import use
from windlass.observe.report import EngineReport
from windlass.principals.authority import Authority
from windlass.settings import Settings
from windlass.store.jobs.checked import check_correlation
from windlass.upkeep.probing import ended_before

T = TypeVar("T")


class Status(StrEnum):
    """The result of a request."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ALREADY_DONE = "already done"
    LOCK_HELD = "lock held"
    HELD = "held by another instance"
    NOT_READY = "not ready"
    RETRY_LATER = "retry later"
    LOST = "lease lost"
    UNKNOWN = "no such job"


@dataclass(frozen=True, slots=True)
class Processed:
    """The result of ``process_request``; ``found`` is the job as it is afterwards, None if it does not exist."""

    status: Status
    request_id: str
    found: Job | None
    attempts: int = 0

    @property
    def job(self) -> Job:
        """The job as it is afterwards; raises ``JobNotFoundError`` if it does not exist."""
        if self.found is None:
            raise JobNotFoundError(self.request_id)
        return self.found


class NoGuard:
    """No lock: the claim alone decides."""

    def acquire(self, request_id: str) -> AbstractContextManager[Any]:
        return nullcontext(True)


class OneJobRunner:
    """Runs single jobs in the caller's threads, as one instance with one heartbeat, which joins when it is first needed."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        settings: Settings | None = None,
        locks: Guard | None = None,
        wrap: Wrapper | None = None,
        authority: Authority | None = None,
        semaphore: Callable[[int], Any] = threading.BoundedSemaphore,
        sleep: Callable[[float], None] = time.sleep,
        degraded: Callable[[], Iterable[str]] = tuple,
        logger: logging.Logger | None = None,
    ) -> None:
        self._logger = logger
        self._store = store
        self._settings = settings or Settings()
        self._registry = registry
        self._locks = locks or NoGuard()
        self._wrap, self._authority, self._degraded = wrap, authority, degraded
        limit = self._settings.max_concurrent_calls
        self._make_semaphore = None if limit is None else partial(semaphore, limit)
        self.places = None if self._make_semaphore is None else Places(self._make_semaphore())
        self._sleep = sleep
        self._begin()
        forking.watch(self)

    def _begin(self) -> None:
        self.stats = Stats()
        with use(self._logger):  # also for its thread
            self._membership = Membership(self._store, self._settings, self.stats, self._degraded)
        self._runner = MiddlewareRunner(
            partial(RunningJobStore, self._membership),
            self._registry.middleware,
            wrap=self._wrap,
            authority=self._authority,
            stats=self.stats,
            chunk_defaults=ChunkDefaults.of(self._settings),
        )
        self._recorder = Recorder(self.stats)
        self._recorder_lock = threading.Lock()
        self._known: dict[str, Mapping[str, Any]] = {}
        self._threads = ThreadPoolExecutor(thread_name_prefix="windlass-request")

    def after_fork_in_child(self) -> None:
        """Be another instance: the lease, its heartbeat and the threads are the parent's, and so are the places of its running jobs."""
        self._begin()
        if self.places is not None and self._make_semaphore is not None:
            self.places.begin(self._make_semaphore())

    def process(self, request_id: str, correlation_id: str | None = None) -> Processed:
        """Run a job to its end, as drawn above. A job that does not exist is logged."""
        check_correlation(correlation_id)
        with use(self._logger):
            try:
                return self._locked(request_id, correlation_id)
            except JobNotFoundError:
                emit(events.REQUEST_UNKNOWN, job_id=request_id, correlation_id=correlation_id)
                return Processed(Status.UNKNOWN, request_id, None)

    def _locked(self, request_id: str, correlation_id: str | None) -> Processed:
        with self._acquire(request_id) as lock:
            if not lock:  # counted and logged by the locks
                return Processed(Status.LOCK_HELD, request_id, self._store.jobs.get(request_id))
            try:
                with nullcontext() if self.places is None else self.places:
                    return self._process(request_id, correlation_id)
            finally:
                self._known.pop(request_id, None)

    def _acquire(self, request_id: str) -> AbstractContextManager[Any]:
        """The lock of a request, in the name of this instance: once the database has declared it dead, workers may take the lock over."""
        if isinstance(self._locks, OwnedGuard):
            return self._locks.acquire_for(request_id, Owner(self._membership.holder.id))
        return self._locks.acquire(request_id)

    def about(self, request_id: str) -> Mapping[str, Any]:
        """The fields of log lines about a job: as it runs here, else as the database has it, else none."""
        known = self._known.get(request_id)
        if known is None:
            try:
                known = lease_fields(self._store.jobs.get(request_id))
            except WindlassError:
                known = {}
        return known

    def _process(self, request_id: str, correlation_id: str | None) -> Processed:
        job = self._store.jobs.get(request_id)
        self._known[request_id] = {
            **lease_fields(job),
            "correlation_id": correlation_id or job.correlation_id,
        }
        if job.state is State.COMPLETED:
            return Processed(Status.ALREADY_DONE, request_id, job)
        if job.state.is_final:
            return Processed(Status(str(job.state)), request_id, job)
        if job.state is State.SCHEDULED:
            self._store.upkeep.make_due(job.id)
            self._store.upkeep.promote()
            job = self._store.jobs.get(request_id)
        if job.reason in ("limited", "paced"):
            self._store.limits.let_in()
            job = self._store.jobs.get(request_id)
        if job.state is State.WAITING:
            return Processed(Status.NOT_READY, request_id, job)
        attempts = 0
        while (lease := self._membership.holder.claim_one(request_id, correlation_id)) is not None:
            events.claimed([lease])
            if has_flag(lease.flags, UNBEGUN) and not self._membership.holder.start([lease]):
                break  # it expired
            outcome = self._found_by_probe(lease)
            if outcome is None:
                attempts += 1
                outcome = self._attempt(lease)
            verdict = self._record(outcome)
            if verdict is Verdict.LOST:
                return Processed(Status.LOST, request_id, self._store.jobs.get(request_id), attempts)
            if isinstance(outcome, Retried) and verdict is Verdict.RECORDED:
                self._wait(lease, outcome)
            elif not isinstance(outcome, Advanced) and verdict is not Verdict.REROUTED:
                return self._result(request_id, attempts, unclaimed=False)
            if has_flag(lease.flags, Flag.LIMIT):
                self._store.limits.let_in()
        return self._result(request_id, attempts, unclaimed=True)

    # ------------------------------------------------------------------ one attempt

    def _wait(self, lease: Lease, outcome: Retried) -> None:
        """Wait between two attempts. The failed one is recorded and the job is scheduled, so a worker may claim it first."""
        if lease.attempt >= lease.max_attempts and outcome.counted:
            return
        self._sleep(outcome.delay.total_seconds())
        self._store.upkeep.make_due(lease.id)
        self._store.upkeep.promote()

    def _found_by_probe(self, lease: Lease) -> Outcome | None:
        """The end of a phase whose output exists already, as the phase's probe found. The probe runs in a thread, where an event loop can run."""
        phase = self._registry.phase(lease.phase)
        if phase is None or phase.probe is None or phase.kind != lease.kind:
            return None
        outcome = self._threads.submit(_logging_to, self._logger, ended_before, phase, lease).result()
        if isinstance(outcome, Completed | Advanced):
            self._runner.duplicate(lease, "")
        return outcome

    def _attempt(self, lease: Lease) -> Outcome | None:
        now = time.monotonic()
        phase = self._registry.phase(lease.phase)
        running = RunningAttempt(lease, phase, Processor(lease.phase, 1), now, now, False)
        self._membership.running[lease.id] = running
        self._known[lease.id] = lease_fields(lease)
        try:
            self._runner.pid = Process.pid  # the application may have been loaded before a fork
            call = self._runner.prepare(running)
            if not isinstance(call, Call):
                return call
            events.started([running])
            outcome = self._run(running, call)
            if outcome is None:
                with self._recorder_lock:
                    self._recorder.recorded_elsewhere(running)
                    self._recorder.count_elsewhere()
            return outcome
        finally:
            del self._membership.running[lease.id]

    def _run(self, running: RunningAttempt, call: Call) -> Outcome | None:
        """Call the handler in a thread, so that its time limits can be enforced."""
        limit = running.phase.timeout if running.phase else None
        total = running.phase.total_timeout if running.phase else None
        ends_at = math.inf if total is None else running.started + total
        running.processor.touch(running.started)
        future: Future[Outcome | None] = self._threads.submit(
            _logging_to, self._logger, _call, self._runner, running, call
        )
        while True:
            silent_at = math.inf if limit is None else running.processor.progress_at + limit
            nearest = min(silent_at, ends_at)
            try:
                return future.result(None if nearest == math.inf else max(0.0, nearest - time.monotonic()))
            except OutOfTime:
                is_over = time.monotonic() >= ends_at
                if not is_over and (
                    limit is None or time.monotonic() - running.processor.progress_at < limit
                ):
                    continue  # it showed a sign of life meanwhile
                running.stop = Stop.TOTAL_TIME_LIMIT if is_over else Stop.TIME_LIMIT
                if running.context is not None:
                    running.context.ask_to_stop()
                return self._runner.given_up(running)

    def _record(self, outcome: Outcome | None) -> Verdict:
        if outcome is None:  # its own transaction ended it, or the lease is lost
            return Verdict.ALREADY_RECORDED
        step = self._membership.holder.step([outcome])
        with self._recorder_lock:
            self._recorder.recorded([outcome], step.verdicts, step.reasons)
        return step.verdicts[0]

    def _result(self, request_id: str, attempts: int, *, unclaimed: bool) -> Processed:
        job = self._store.jobs.get(request_id)
        match job.state:
            case State.COMPLETED:
                status = Status.COMPLETED if attempts else Status.ALREADY_DONE
            case State.FAILED:
                status = Status.FAILED
            case State.CANCELLED:
                status = Status.CANCELLED
            case State.SCHEDULED:
                status = Status.RETRY_LATER
            case State.PROCESSING:
                status = Status.HELD if unclaimed else Status.LOST
            case _:
                status = Status.NOT_READY
        return Processed(status, request_id, job, attempts)

    def report(self) -> EngineReport:
        """The state of this instance, for health and metrics."""
        return self._membership.report()

    def close(self) -> None:
        """Stop being an instance."""
        self._membership.close()
        self._threads.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _logging_to(logger: logging.Logger | None, function: Callable[..., T], *arguments: Any) -> T:
    with use(logger):
        return function(*arguments)


def _call(runner: AttemptRunner, running: RunningAttempt, call: Call) -> Outcome | None:
    token = current_job.set(running)
    try:
        if is_async(call.handler):
            value = asyncio.run(call())
        else:
            value = call()
    except LeaseLost as error:
        return runner.raised(running, error) if running.context and running.context.is_recorded else None
    except BaseException as error:  # noqa: BLE001  as in an executor: every exception of a handler is an outcome
        return runner.raised(running, error)
    finally:
        current_job.reset(token)
    return runner.returned(running, value)
