"""One job in, one outcome out: prepares the call of an attempt, and makes its outcome afterwards.

Everything a handler can do (return, raise, return a value that is not JSON) becomes an outcome, a failure one with a structured error.
Executors call the handler; they differ in where they call it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from windlass.arguments.json_checks import explain
from windlass.engine.job_errors import describe, undescribable
from windlass.engine.processes.forks import exit_child, exit_stray_child
from windlass.engine.running_attempt import OVERDUE, RunningAttempt, Stop
from windlass.engine.spared import SparedAttempts
from windlass.engine.stats import Stats
from windlass.errors import LeaseLost, NotAllowedError, PayloadError, StoreBusyError
from windlass.forking import Process
from windlass.handlers.attempt_context import AttemptContext, Probe
from windlass.handlers.chunk_defaults import CHUNK_DEFAULTS, ChunkDefaults
from windlass.handlers.context import Context
from windlass.handlers.registry import Phase
from windlass.model import (
    ON_REQUEST,
    Cancelled,
    Completed,
    Failed,
    Flag,
    JobError,
    Json,
    Lease,
    Outcome,
    Released,
    Retried,
)
from windlass.model.retry import as_delay, exponential, next_delay, why_stopped
from windlass.model.signals import STOPPED, BadResult, Cancel, Fail, Retry
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.principals.authority import Authority, gated
from windlass.store.attempt_store import AttemptStore

STAND_IN = exponential()
"""The delays of an attempt whose own retry policy gives none: it raises, or wants to end a job that it may not end."""

Wrapper = Callable[[Callable[..., Any], Mapping[str, Any]], Callable[..., Any]]


class Call(NamedTuple):
    """A handler and the arguments to call it with."""

    handler: Callable[..., Any]
    arguments: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.handler(**self.arguments)


_PRINCIPAL = int(Flag.PRINCIPAL)
and_ = int.__and__  # the operator of a Flag takes a microsecond
make_call = partial(tuple.__new__, Call)  # takes a third of the constructor's time


BUSY_SPARED = 10
SELF_STOPS_SPARED = 3
"""How often one worker does not count an attempt because the database was locked, or because the lease could not be renewed."""

ONCE = "it has one attempt and is not repeated automatically: check how far it got, then retry it: app.handle(id).retry()"


def is_once(lease: Lease) -> bool:
    """Whether a job has a single attempt: it ends with any interruption, whatever the cause."""
    return lease.max_attempts == 1


class AttemptRunner:
    """Prepares attempts and makes their outcomes, for all executors of one instance.

    ``store_of`` returns the store as a running job may use it; ``wrap`` supplies the parameters that handlers declare by type.
    """

    def __init__(
        self,
        store_of: Callable[[RunningAttempt], AttemptStore],
        *,
        wrap: Wrapper | None = None,
        authority: Authority | None = None,
        probe: Probe | None = None,
        stats: Stats | None = None,
        chunk_defaults: ChunkDefaults = CHUNK_DEFAULTS,
    ) -> None:
        self._store_of = store_of
        self.chunk_defaults = chunk_defaults
        self._wrap = wrap
        self._authority = authority or Authority()
        self._probe = probe
        self._stats = stats
        self._handlers: dict[str, Callable[..., Any]] = {}
        self._busy = SparedAttempts(BUSY_SPARED)
        self._self_stops = SparedAttempts(SELF_STOPS_SPARED)
        self.pid = Process.pid
        """The process that runs these jobs; a child that a handler forks must not continue with them."""

    # ------------------------------------------------------------------ before the call

    def prepare(self, running: RunningAttempt) -> Call | Outcome:
        """Return the call of a job, or its outcome if there is nothing to call. Never raises.

        From here on the job counts as begun: it is stopped when it exceeds its time limit, while a job that has not begun by then is
        given back. A row that cannot be run ends its job and does not stop the loop (I-16).
        """
        if Process.pid != self.pid:
            exit_stray_child()
        running.begun = True
        lease, phase = running.lease, running.phase
        try:
            if running.stop is not None and phase is not None:
                return self.timed(running, self._stopped(lease, phase, running.stop, None))
            if phase is None or phase.kind != lease.kind:
                return self.timed(running, Failed(lease, _unknown_kind(lease)))
            handler = self._handlers.get(phase.name) or self._handler(phase)
            try:
                arguments = phase.signature.decode_args(lease.args_json)
                for name, annotation in phase.signature.injected.items():
                    if annotation is Context:
                        arguments[name] = running.context or self._context(running, phase)
            except PayloadError as error:
                failed = JobError(type="PayloadError", code="bad_arguments", message=str(error))
                return self.timed(running, Failed(lease, failed))
            except Exception as error:  # noqa: BLE001  a job that cannot be prepared must still end
                return self.timed(running, self._failed_attempt(lease, phase, error))
            if and_(lease.flags, _PRINCIPAL):
                context = running.context or self._context(running, phase)
                handler = gated(handler, phase, context, self._authority)
            return make_call((handler, arguments))
        except BaseException as error:  # noqa: BLE001  as above
            return self.timed(running, Failed(lease, describe(error)))

    def _handler(self, phase: Phase) -> Callable[..., Any]:
        """Return the handler with its parameters by type supplied, and keep it for the next job."""
        handler = phase.handler if self._wrap is None else self._wrap(phase.handler, phase.supplied)
        self._handlers[phase.name] = handler
        return handler

    def _context(self, running: RunningAttempt, phase: Phase) -> AttemptContext:
        touch = running.processor.touch
        context = AttemptContext(
            running.lease,
            phase,
            self._store_of(running),
            touch=lambda: touch(time.monotonic()),
            probe=self._probe,
            authority=self._authority,
            on_duplicate=partial(self.duplicate, running.lease),
            chunk_defaults=self.chunk_defaults,
        )
        running.context = context
        if running.stop is not None:
            context.ask_to_stop()
        return context

    def duplicate(self, lease: Lease, name: str) -> None:
        """Count and log that an output was stored before, so its work was not repeated."""
        if self._stats is not None:
            self._stats.count("duplicates_prevented")
            events.duplicate_prevented(lease, name)

    # ------------------------------------------------------------------ after the call

    def returned(self, running: RunningAttempt, value: Any) -> Outcome | None:
        """Return the outcome of a handler that returned; None if a transaction of the handler has recorded it. Never raises."""
        if Process.pid != self.pid:
            exit_child()
        lease, phase, context = running.lease, running.phase, running.context
        if context is not None and context.is_dropped(value):
            emit(events.RESULT_DROPPED, lease=lease)
        if phase is None or (context is not None and context.is_recorded):
            return None
        if context is not None and context.awaits_commit:
            return self._uncommitted(running, phase)
        run = running.run(time.monotonic())
        outcome: Outcome
        try:
            is_only_phase = phase.owner is None or len(phase.owner.phases) == 1
            if value is None and is_only_phase and phase.signature.accepts_none:
                outcome = Completed(lease, None, run)
            else:
                text = Json(phase.signature.encode_result(value))
                is_nothing = value is None and phase.following is None
                outcome = phase.ended(lease, None if is_nothing else text, run)
        except PayloadError as error:
            failed = JobError(type="PayloadError", code="bad_result", message=str(error))
            outcome = Failed(lease, failed, run)
        except Exception as error:  # noqa: BLE001  a result whose own methods raise is a failed job
            outcome = Failed(lease, describe(error))
        return outcome if context is None else context.cleaned(outcome)

    def raised(self, running: RunningAttempt, error: BaseException) -> Outcome | None:
        """Return the outcome of a handler that raised; None if its job had ended before. Never raises."""
        if Process.pid != self.pid:
            exit_child(error)
        phase = running.phase
        if running.context is not None and running.context.is_recorded:
            self._log_after_end(running, running.context, error)
            return None
        if phase is None:
            return None
        try:
            return self._raised(running, phase, error)
        except BaseException as broken:  # noqa: BLE001  an exception of the user's own whose attributes raise
            failed = undescribable(error, broken)
            return self.timed(running, self._retried(running.lease, phase, failed, None))

    def _raised(self, running: RunningAttempt, phase: Phase, error: BaseException) -> Outcome:
        lease, context = running.lease, running.context
        if isinstance(error, LeaseLost) and context is not None and context.awaits_commit:
            # A handler that repeats a successful commit gets LeaseLost, too; the database decides.
            return self._uncommitted(running, phase)
        if running.stop is not None:
            # A task that is cancelled before its first step also raises, without having begun.
            outcome = self._stopped(lease, phase, running.stop, error if running.begun else None)
        elif isinstance(error, STOPPED) and context is not None and context.should_stop:
            # A checkpoint returned the cancel before the engine received it.
            outcome = Cancelled(lease, ON_REQUEST)
        else:
            outcome = self._by_exception(lease, phase, error)
        return self.timed(running, outcome)

    def _log_after_end(self, running: RunningAttempt, context: AttemptContext, error: BaseException) -> None:
        """Log an error that was raised after the job's end: the job does not change, and the error must not be lost."""
        if isinstance(error, STOPPED) and (running.stop is not None or context.should_stop):
            return
        failed = context.cleaned(Failed(running.lease, describe(error)))
        if isinstance(failed, Failed):
            events.raised_after_end(running.lease, failed.error)

    # ------------------------------------------------------------------ without an end of its own

    def cut_off(self, running: RunningAttempt) -> Outcome:
        """Return the outcome of a job that its instance stops running."""
        return self.timed(running, _cut_off(running.lease, is_begun=running.begun))

    def given_up(self, running: RunningAttempt) -> Outcome:
        """Return the outcome of a job that was asked to stop and did not."""
        lease, phase = running.lease, running.phase
        if running.stop is Stop.CANCELLED:
            return self.timed(running, Cancelled(lease, ON_REQUEST))
        if phase is not None and running.stop in OVERDUE:
            return self.timed(running, self._overdue(lease, phase, running.stop))
        # The lease may still be renewed, and then no other instance gives these jobs back.
        if phase is not None and running.stop is Stop.LEASE_LOST and running.begun:
            return self.timed(running, self._self_stopped(lease, phase))
        return self.cut_off(running)

    def timed(self, running: RunningAttempt, outcome: Outcome) -> Outcome:
        """Return the outcome with the place and duration of the attempt, and without the tokens that the job was given."""
        if isinstance(outcome, Released):
            return outcome
        if running.context is not None:
            outcome = running.context.cleaned(outcome)
        return replace(outcome, run=running.run(time.monotonic()))

    # ------------------------------------------------------------------ outcomes

    def _by_exception(self, lease: Lease, phase: Phase, error: BaseException) -> Outcome:
        """Return the outcome for an exception. ``LeaseLost`` is an error like others: it may concern another job, whose context was kept;
        if it concerns this one, the database ignores the outcome."""
        match error:
            case NotAllowedError():
                return Failed(lease, describe(error))
            case StoreBusyError():
                counted = is_once(lease) or self._busy.is_too_often(lease)
                return self._retried(lease, phase, describe(error), error, counted=counted)
            case Cancel():
                return Cancelled(lease, error.reason)
            case BadResult():
                return Failed(lease, JobError(type="PayloadError", code="bad_result", message=error.message))
            case Fail():
                return Failed(lease, JobError(type="Fail", code=error.code, message=error.message))
            case Retry():
                asked = JobError(type="Retry", code="retry", message=error.message)
                if error.after is not None:
                    return Retried(lease, asked, error.after, counted=error.counted)
                return self._retried(lease, phase, asked, error, counted=error.counted)
            case _:
                return self._failed_attempt(lease, phase, error)

    def _stopped(self, lease: Lease, phase: Phase, reason: Stop, error: BaseException | None) -> Outcome:
        """Return the outcome of a job that raised after it was asked to stop; without an exception it had not begun."""
        match reason:
            case Stop.CANCELLED:
                return Cancelled(lease, ON_REQUEST)
            case Stop.TIME_LIMIT | Stop.TOTAL_TIME_LIMIT:
                return self._overdue(lease, phase, reason)
            case Stop.SHUTDOWN | Stop.LEASE_LOST | Stop.NOT_BEGUN:
                if error is not None and not isinstance(error, (*STOPPED, LeaseLost)):
                    return self._by_exception(lease, phase, error)
                if error is not None and reason is Stop.LEASE_LOST:
                    return self._self_stopped(lease, phase)
                return _cut_off(lease, is_begun=error is not None)

    def _overdue(self, lease: Lease, phase: Phase, reason: Stop | None) -> Outcome:
        if reason is Stop.TOTAL_TIME_LIMIT:
            limit = f"{phase.total_timeout:g} s" if phase.total_timeout else "what its phase allows"
            message = f"ran longer than its total time limit of {limit}, whatever progress it made"
            failed = JobError(type="TotalTimeLimit", code="total_time_limit", message=message)
        else:
            limit = f"{phase.timeout:g} s" if phase.timeout else "what its phase allows"
            message = f"ran longer than its time limit of {limit} without a sign of progress"
            failed = JobError(type="TimeLimit", code="time_limit", message=message)
        return self._retried(lease, phase, failed, None)

    def _self_stopped(self, lease: Lease, phase: Phase) -> Outcome:
        """Return the outcome of a job that was stopped because its instance could not renew the lease. An outage of the database is not
        the job's fault, so the first such attempts are not counted; a job that itself prevents the renewal must not repeat for ever, and a
        job with a single attempt does not repeat at all."""
        message = (
            "the instance that ran this job could not renew its lease in time and stopped it; find what kept the heartbeat from "
            "the database: an outage, or a write transaction that was open for too long"
        )
        if is_once(lease):
            message = f"{message}; {ONCE}"
        stopped = JobError(type="SelfStopped", code="self_stopped", message=message)
        counted = is_once(lease) or self._self_stops.is_too_often(lease)
        return self._retried(lease, phase, stopped, None, counted=counted)

    def _uncommitted(self, running: RunningAttempt, phase: Phase) -> Outcome:
        """Return the outcome of a job that ended in its handler's own transaction. If that was committed, the database has the end
        already, and this outcome changes nothing."""
        message = "ctx.complete_in was called, but its transaction was not committed; commit it before the handler returns"
        failed = JobError(type="NotCommitted", code="not_committed", message=message)
        return self.timed(running, self._retried(running.lease, phase, failed, None))

    def _failed_attempt(self, lease: Lease, phase: Phase, error: BaseException) -> Outcome:
        return self._retried(lease, phase, describe(error), error)

    def _retried(
        self,
        lease: Lease,
        phase: Phase,
        failed: JobError,
        error: BaseException | None,
        *,
        counted: bool = True,
    ) -> Outcome:
        """Return the outcome of a failed attempt by the phase's policy.

        A policy that returns None ends the job. It cannot end a job whose handler asked for a retry, or whose attempt is not counted
        because it was not the job's fault.
        """
        if counted and lease.attempt >= lease.max_attempts:  # a failure: there is no delay
            return Retried(lease, failed, timedelta(0), counted=counted)
        try:
            delay = next_delay(phase.retry, lease.attempt, error)
            if delay is None and counted and not isinstance(error, Retry):
                stopped = {**failed.details, "retry": why_stopped(phase.retry, error)}
                return Failed(lease, replace(failed, details=stopped))
        except BaseException as broken:  # noqa: BLE001  the policy may be the user's own
            emit(events.POLICY_BROKEN, lease=lease, reason=explain(broken))
            delay = None
            failed = replace(failed, details={**failed.details, "retry_policy": explain(broken)})
        return Retried(lease, failed, delay or as_delay(STAND_IN.delay(lease.attempt)), counted=counted)


def _unknown_kind(lease: Lease) -> JobError:
    message = (
        f"no handler is defined for kind {lease.kind!r} in phase {lease.phase!r}; deploy it, then retry this job: "
        "app.handle(id).retry()"
    )
    return JobError(type="UnknownKind", code="unknown_kind", message=message)


def _cut_off(lease: Lease, *, is_begun: bool) -> Outcome:
    """Return the outcome of a job that its instance stops running: it is given back. A job with a single attempt that has begun fails:
    how far it got is unknown, and it must not run twice (I-14)."""
    if not (is_begun and is_once(lease)):
        return Released(lease)
    message = f"the instance that ran this job stopped it before it ended, as at a shutdown; {ONCE}"
    return Failed(lease, JobError(type="Interrupted", code="interrupted", message=message))
