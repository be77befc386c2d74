"""One job in, one outcome out: prepares the call of an attempt, and makes an outcome of what came of the call.

Whatever a handler does (returns, raises, returns something that is not JSON) becomes an outcome with a structured error. Executors
call the handler; they differ in where they call it.
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
from windlass.engine.processes.forks import leave, wandered
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.engine.spared import SparedAttempts
from windlass.engine.stats import Stats
from windlass.errors import LeaseLost, NotAllowedError, PayloadError, StoreBusyError
from windlass.forking import Process
from windlass.handlers.context import Context, Probe
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
    has_flag,
)
from windlass.model.retry import as_delay, exponential
from windlass.model.signals import STOPPED, BadResult, Cancel, Fail, Retry
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.principals.authority import Authority, gated
from windlass.store.attempt_store import AttemptStore

STAND_IN = exponential()
"""The delays of an attempt whose own retry policy raises."""

Wrapper = Callable[[Callable[..., Any], Mapping[str, Any]], Callable[..., Any]]


class Call(NamedTuple):
    """A handler and the arguments to call it with."""

    handler: Callable[..., Any]
    arguments: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.handler(**self.arguments)


_PRINCIPAL = int(Flag.PRINCIPAL)
make_call = partial(tuple.__new__, Call)  # a third of the price of the class's own constructor


BUSY_SPARED = 10
SELF_STOPS_SPARED = 3
"""How often one worker gives an attempt back unspent because the database was locked, or because the lease could not be renewed."""

ONCE = "it may be attempted once only and is not run twice by itself: look how far it came, then retry it: app.store.jobs.retry(id)"


def is_once(lease: Lease) -> bool:
    """Whether a job may be attempted once only: what cuts it off, whoever's doing it is, ends it."""
    return lease.max_attempts == 1


class AttemptRunner:
    """Prepares attempts and makes their outcomes, for all executors of one instance.

    ``store_of`` gives the store as a running job may use it; ``wrap`` supplies what handlers ask for by type.
    """

    def __init__(
        self,
        store_of: Callable[[RunningAttempt], AttemptStore],
        *,
        wrap: Wrapper | None = None,
        authority: Authority | None = None,
        probe: Probe | None = None,
        stats: Stats | None = None,
    ) -> None:
        self._store_of = store_of
        self._wrap = wrap
        self._authority = authority or Authority()
        self._probe = probe
        self._stats = stats
        self._handlers: dict[str, Callable[..., Any]] = {}
        self._busy = SparedAttempts(BUSY_SPARED)
        self._self_stops = SparedAttempts(SELF_STOPS_SPARED)
        self.pid = Process.pid
        """The process whose jobs these are; a child that a handler forks has no part in them."""

    # ------------------------------------------------------------------ before the call

    def prepare(self, running: RunningAttempt) -> Call | Outcome:
        """Return the call that a job asks for, or the outcome where there is none to make. Never raises.

        From here on the job counts as begun: one that outruns its time limit is stopped, while a job that has not begun by then is given
        back. A row that cannot be run ends its job and does not stop the loop (I-16).
        """
        if Process.pid != self.pid:
            wandered()
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
            except Exception as error:  # noqa: BLE001  a job that cannot be prepared must still come to an end
                return self.timed(running, self._failed_attempt(lease, phase, error))
            if has_flag(lease.flags, _PRINCIPAL):
                context = running.context or self._context(running, phase)
                handler = gated(handler, phase, context, self._authority)
            return make_call((handler, arguments))
        except BaseException as error:  # noqa: BLE001  as above
            return self.timed(running, Failed(lease, describe(error)))

    def _handler(self, phase: Phase) -> Callable[..., Any]:
        """Return the handler with what it asks for by type supplied, and keep it for the next job."""
        handler = phase.handler if self._wrap is None else self._wrap(phase.handler, phase.supplied)
        self._handlers[phase.name] = handler
        return handler

    def _context(self, running: RunningAttempt, phase: Phase) -> Context:
        touch = running.processor.touch
        context = Context(
            running.lease,
            phase,
            self._store_of(running),
            touch=lambda: touch(time.monotonic()),
            probe=self._probe,
            authority=self._authority,
            on_duplicate=partial(self.duplicate, running.lease),
        )
        running.context = context
        if running.stop is not None:
            context.ask_to_stop()
        return context

    def duplicate(self, lease: Lease, name: str) -> None:
        """Count and log that an output was stored before, so that its work was not done twice."""
        if self._stats is not None:
            self._stats.count("duplicates_prevented")
            events.duplicate_prevented(lease, name)

    # ------------------------------------------------------------------ after the call

    def returned(self, running: RunningAttempt, value: Any) -> Outcome | None:
        """Return the outcome of a handler that returned; None where a transaction of the handler has recorded it. Never raises."""
        if Process.pid != self.pid:
            leave()
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
            is_last = phase.following is None
            if value is None and is_last and phase.signature.accepts_none:
                outcome = Completed(lease, None, run, phase.route)
            else:
                text = Json(phase.signature.encode_result(value))
                outcome = phase.ended(lease, None if value is None and is_last else text, run)
        except PayloadError as error:
            failed = JobError(type="PayloadError", code="bad_result", message=str(error))
            outcome = Failed(lease, failed, run)
        except Exception as error:  # noqa: BLE001  a result whose own methods raise is a failed job
            outcome = Failed(lease, describe(error))
        return outcome if context is None else context.cleaned(outcome)

    def raised(self, running: RunningAttempt, error: BaseException) -> Outcome | None:
        """Return the outcome of a handler that raised; None where its job had ended before. Never raises."""
        if Process.pid != self.pid:
            leave(error)
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
            # A handler that repeats a commit which had succeeded gets LeaseLost as well; the database knows.
            return self._uncommitted(running, phase)
        if running.stop is not None:
            # A task that is cancelled before its first step raises, too, without having begun.
            outcome = self._stopped(lease, phase, running.stop, error if running.begun else None)
        elif isinstance(error, STOPPED) and context is not None and context.should_stop:
            # A checkpoint returned the cancel before the engine received it.
            outcome = Cancelled(lease, ON_REQUEST)
        else:
            outcome = self._by_exception(lease, phase, error)
        return self.timed(running, outcome)

    def _log_after_end(self, running: RunningAttempt, context: Context, error: BaseException) -> None:
        """Log an error that came after the job's end: it changes nothing of the job, and must not be lost."""
        if isinstance(error, STOPPED) and (running.stop is not None or context.should_stop):
            return
        failed = context.cleaned(Failed(running.lease, describe(error)))
        if isinstance(failed, Failed):
            events.raised_after_end(running.lease, failed.error)

    # ------------------------------------------------------------------ without an end of its own

    def cut_off(self, running: RunningAttempt) -> Outcome:
        """Return the outcome of a job that its instance stops to run."""
        return self.timed(running, _cut_off(running.lease, is_begun=running.begun))

    def given_up(self, running: RunningAttempt) -> Outcome:
        """Return the outcome of a job that was told to stop and did not."""
        lease, phase = running.lease, running.phase
        if running.stop is Stop.CANCELLED:
            return self.timed(running, Cancelled(lease, ON_REQUEST))
        if phase is not None and running.stop is Stop.TIME_LIMIT:
            return self.timed(running, self._overdue(lease, phase))
        # The lease may be renewed after all, and then no other instance gives these back.
        if phase is not None and running.stop is Stop.LEASE_LOST and running.begun:
            return self.timed(running, self._self_stopped(lease, phase))
        return self.cut_off(running)

    def timed(self, running: RunningAttempt, outcome: Outcome) -> Outcome:
        """Return the outcome with where and how long it ran, and without the tokens that the job was given."""
        if isinstance(outcome, Released):
            return outcome
        if running.context is not None:
            outcome = running.context.cleaned(outcome)
        return replace(outcome, run=running.run(time.monotonic()))

    # ------------------------------------------------------------------ outcomes

    def _by_exception(self, lease: Lease, phase: Phase, error: BaseException) -> Outcome:
        """``LeaseLost`` is an error like others: it may be about another job, whose context was kept; if it is about this one, the
        database takes nothing from it any more."""
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
        """A job that ended with an exception after it was told to stop; without one it had not begun."""
        match reason:
            case Stop.CANCELLED:
                return Cancelled(lease, ON_REQUEST)
            case Stop.TIME_LIMIT:
                return self._overdue(lease, phase)
            case Stop.SHUTDOWN | Stop.LEASE_LOST | Stop.NOT_BEGUN:
                if error is not None and not isinstance(error, (*STOPPED, LeaseLost)):
                    return self._by_exception(lease, phase, error)
                if error is not None and reason is Stop.LEASE_LOST:
                    return self._self_stopped(lease, phase)
                return _cut_off(lease, is_begun=error is not None)

    def _overdue(self, lease: Lease, phase: Phase) -> Outcome:
        limit = f"{phase.timeout:g} s" if phase.timeout else "what its phase allows"
        message = f"ran longer than its time limit of {limit} without a sign of progress"
        return self._retried(
            lease, phase, JobError(type="TimeLimit", code="time_limit", message=message), None
        )

    def _self_stopped(self, lease: Lease, phase: Phase) -> Outcome:
        """A job that had begun when its instance could not renew the lease and stopped it. An outage of the database is not the job's
        doing, so the attempt is spared at first; a job that keeps its instance from renewing must not come back without end, and one of a
        single attempt not at all."""
        message = (
            "the instance that ran this job could not renew its lease in time and stopped it; look for what kept the database from "
            "taking the heartbeat: an outage, or a write transaction that was open for too long"
        )
        if is_once(lease):
            message = f"{message}; {ONCE}"
        stopped = JobError(type="SelfStopped", code="self_stopped", message=message)
        counted = is_once(lease) or self._self_stops.is_too_often(lease)
        return self._retried(lease, phase, stopped, None, counted=counted)

    def _uncommitted(self, running: RunningAttempt, phase: Phase) -> Outcome:
        """A job that ended in a transaction of its handler's own, unless that was committed: then the database has the end already, and
        this changes nothing."""
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
        if counted and lease.attempt >= lease.max_attempts:  # a failure: there is nothing to wait for
            return Retried(lease, failed, timedelta(0), counted=counted)
        try:
            delay = as_delay(phase.retry.delay(lease.attempt, error))
        except BaseException as broken:  # noqa: BLE001  the policy may be the user's own
            emit(events.POLICY_BROKEN, lease=lease, reason=explain(broken))
            delay = STAND_IN.delay(lease.attempt)
            failed = replace(failed, details={**failed.details, "retry_policy": explain(broken)})
        return Retried(lease, failed, delay, counted=counted)


def _unknown_kind(lease: Lease) -> JobError:
    message = (
        f"no handler is defined for kind {lease.kind!r} in phase {lease.phase!r}; deploy it, then retry this job: "
        "app.store.jobs.retry(id)"
    )
    return JobError(type="UnknownKind", code="unknown_kind", message=message)


def _cut_off(lease: Lease, *, is_begun: bool) -> Outcome:
    """A job that its instance stops to run is given back. One of a single attempt that has begun fails, for nobody knows how far it came,
    and it is not to be run twice (I-14)."""
    if not (is_begun and is_once(lease)):
        return Released(lease)
    message = f"the instance that ran this job stopped it before it ended, as at a shutdown; {ONCE}"
    return Failed(lease, JobError(type="Interrupted", code="interrupted", message=message))
