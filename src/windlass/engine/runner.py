"""One job in, one outcome out; no database of its own.

Whatever a handler does (returns, raises, returns something that is not JSON) becomes an outcome with a structured error.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from windlass.arguments.json_checks import explain
from windlass.engine.attempt import Stop
from windlass.errors import LeaseLost, NotAllowedError, PayloadError, StoreBusyError, WindlassError
from windlass.handlers.context import Context
from windlass.handlers.registry import Phase, Registry
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
    Run,
    has_flag,
)
from windlass.model.retry import as_delay, exponential
from windlass.model.signals import BadResult, Cancel, Fail, Retry, Stopped
from windlass.observe import events
from windlass.principals.authority import Authority, gated

STAND_IN = exponential()
"""Says how long to wait where a policy cannot."""

STOPPED = (asyncio.CancelledError, Stopped)
"""What a handler raises that was told to stop and did."""

Wrapper = Callable[[Callable[..., Any], Mapping[str, Any]], Callable[..., Any]]


class Call(NamedTuple):
    """A handler and the arguments to call it with."""

    handler: Callable[..., Any]
    arguments: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.handler(**self.arguments)


_PRINCIPAL = int(Flag.PRINCIPAL)
make_call = partial(tuple.__new__, Call)  # as in executors.py: the class's own constructor is slow


BUSY_SPARED = 10
SELF_STOPS_SPARED = 3
"""How often one worker gives an attempt back unspent because the database was locked, or because the lease could not be renewed."""

ONCE = "it may be attempted once only and is not run twice by itself: look how far it came, then retry it: app.store.jobs.retry(id)"


def is_once(lease: Lease) -> bool:
    """Whether a job may be attempted once only: what cuts it off, whoever's doing it is, ends it."""
    return lease.max_attempts == 1


class Runner:
    """Turns leases into calls, and what came of a call into an outcome."""

    def __init__(
        self,
        registry: Registry,
        *,
        wrap: Wrapper | None = None,
        authority: Authority | None = None,
    ) -> None:
        self._registry = registry
        self._wrap = wrap
        self.authority = authority or Authority()
        self._wrapped: dict[str, Callable[..., Any]] = {}
        self._busy = _Mishaps(BUSY_SPARED)
        self._self_stops = _Mishaps(SELF_STOPS_SPARED)

    def _handler(self, phase: Phase) -> Callable[..., Any]:
        """The handler, with what it asks for by type supplied."""
        if self._wrap is None:
            return phase.handler
        found = self._wrapped.get(phase.name)
        if found is None:
            found = self._wrapped[phase.name] = self._wrap(phase.handler, phase.supplied)
        return found

    def phase(self, name: str) -> Phase | None:
        return self._registry.phase(name)

    def prepare(self, lease: Lease, context: Callable[[Phase], Context] | None = None) -> Call | Outcome:
        """The call a job asks for; an outcome where there is none to make (I-16: a bad row ends, it does not stop the loop)."""
        phase = self._registry.phase(lease.phase)
        if phase is None or phase.kind != lease.kind:
            message = f"no handler is defined for kind {lease.kind!r} in phase {lease.phase!r}; deploy it, then retry this job: app.store.jobs.retry(id)"
            return Failed(lease, JobError(type="UnknownKind", code="unknown_kind", message=message))
        made: Context | None = None
        try:
            arguments = phase.signature.decode_args(lease.args_json)
            if phase.signature.injected:
                for name, annotation in phase.signature.injected.items():
                    if annotation is Context and context is not None:
                        arguments[name] = made = made or context(phase)
        except PayloadError as error:
            return Failed(lease, JobError(type="PayloadError", code="bad_arguments", message=str(error)))
        except Exception as error:  # noqa: BLE001  a job that cannot be prepared must still come to an end
            return self._failed_attempt(lease, phase, error)
        handler = self._handler(phase)
        if context is not None and has_flag(lease.flags, _PRINCIPAL):
            handler = gated(handler, phase, made or context(phase), self.authority)
        return make_call((handler, arguments))

    def returned(self, lease: Lease, phase: Phase, value: Any, run: Run | None = None) -> Outcome:
        """The outcome of a handler that returned."""
        following = phase.following
        if value is None and following is None and phase.signature.accepts_none:
            return Completed(lease, None, run, phase.route)
        try:
            text = Json(phase.signature.encode_result(value))
        except PayloadError as error:
            return Failed(lease, JobError(type="PayloadError", code="bad_result", message=str(error)), run)
        return phase.ended(lease, None if value is None and following is None else text, run)

    def raised(self, lease: Lease, phase: Phase, error: BaseException) -> Outcome:
        """The outcome of a handler that raised. ``LeaseLost`` is one like others: it may be about another job, whose context was kept;
        if it is about this one, the database takes nothing from it any more."""
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
                told = JobError(type="Retry", code="retry", message=error.message)
                if error.after is not None:
                    return Retried(lease, told, error.after, counted=error.counted)
                return self._retried(lease, phase, told, error, counted=error.counted)
            case _:
                return self._failed_attempt(lease, phase, error)

    def stopped(self, lease: Lease, phase: Phase, reason: Stop, error: BaseException | None) -> Outcome:
        """The outcome of a job that ended with an exception after it was told to stop."""
        match reason:
            case Stop.CANCELLED:
                return Cancelled(lease, ON_REQUEST)
            case Stop.TIME_LIMIT:
                return self.timed_out(lease, phase)
            case Stop.SHUTDOWN | Stop.LEASE_LOST | Stop.NOT_BEGUN:
                if error is not None and not isinstance(error, (*STOPPED, LeaseLost)):
                    return self.raised(lease, phase, error)
                if error is not None and reason is Stop.LEASE_LOST:
                    return self.self_stopped(lease, phase)
                return self.cut_off(lease, is_begun=error is not None)

    def timed_out(self, lease: Lease, phase: Phase) -> Outcome:
        """The outcome of a job that outran its phase's time limit."""
        limit = f"{phase.timeout:g} s" if phase.timeout else "what its phase allows"
        message = f"ran longer than its time limit of {limit} without a sign of progress"
        told = JobError(type="TimeLimit", code="time_limit", message=message)
        return self._retried(lease, phase, told, None)

    def cut_off(self, lease: Lease, *, is_begun: bool) -> Outcome:
        """The outcome of a job that its instance stops to run: it is given back. One of a single attempt that has begun fails, for nobody
        knows how far it came, and it is not to be run twice (I-14)."""
        if not (is_begun and is_once(lease)):
            return Released(lease)
        message = f"the instance that ran this job stopped it before it ended, as at a shutdown; {ONCE}"
        return Failed(lease, JobError(type="Interrupted", code="interrupted", message=message))

    def self_stopped(self, lease: Lease, phase: Phase) -> Outcome:
        """The outcome of a job that had begun when its instance could not renew the lease and stopped it. An outage of the database is
        not the job's doing, so the attempt is spared at first; a job that keeps its instance from renewing must not come back without end,
        and one of a single attempt not at all."""
        message = (
            "the instance that ran this job could not renew its lease in time and stopped it; look for what kept the database from "
            "taking the heartbeat: an outage, or a write transaction that was open for too long"
        )
        if is_once(lease):
            message = f"{message}; {ONCE}"
        told = JobError(type="SelfStopped", code="self_stopped", message=message)
        counted = is_once(lease) or self._self_stops.is_too_often(lease)
        return self._retried(lease, phase, told, None, counted=counted)

    def uncommitted(self, lease: Lease, phase: Phase) -> Outcome:
        """The outcome of a job that ended in a transaction of its handler's own, unless that was committed: then the database
        has the end already, and this changes nothing."""
        message = "ctx.complete_in was called, but its transaction was not committed; commit it before the handler returns"
        told = JobError(type="NotCommitted", code="not_committed", message=message)
        return self._retried(lease, phase, told, None)

    def failed(self, lease: Lease, phase: Phase, told: JobError) -> Outcome:
        """The outcome of an attempt of which no more is known than this."""
        return self._retried(lease, phase, told, None)

    def _failed_attempt(self, lease: Lease, phase: Phase, error: BaseException) -> Outcome:
        return self._retried(lease, phase, describe(error), error)

    def _retried(
        self, lease: Lease, phase: Phase, told: JobError, error: BaseException | None, *, counted: bool = True
    ) -> Outcome:
        if counted and lease.attempt >= lease.max_attempts:
            return Retried(
                lease, told, timedelta(0), counted=counted
            )  # which is a failure: there is nothing to wait for
        try:
            delay = as_delay(phase.retry.delay(lease.attempt, error))
        except BaseException as broken:  # noqa: BLE001  the policy may be the user's own
            events.policy_broken(lease, broken)
            delay = STAND_IN.delay(lease.attempt)
            told = replace(told, details={**told.details, "retry_policy": explain(broken)})
        return Retried(lease, told, delay, counted=counted)


class _Mishaps:
    """Counts how often an attempt met something that is hardly its own doing: a locked database, a lease that could not be renewed. Such
    an attempt is not spent; but a job may be the cause of it, and would come back without end, so only ``spared`` of them are free."""

    KEPT = 1_000

    def __init__(self, spared: int) -> None:
        self._spared = spared
        self._met: dict[tuple[str, int, str, int], int] = {}
        self._lock = threading.Lock()

    def is_too_often(self, lease: Lease) -> bool:
        key = (lease.id, lease.generation, lease.phase, lease.attempt)
        with self._lock:
            count = self._met.pop(key, 0) + 1
            if count > self._spared:
                return True
            self._met[key] = count
            if len(self._met) > self.KEPT:
                del self._met[next(iter(self._met))]
            return False


def describe(error: BaseException) -> JobError:
    """An exception as data; safe for exceptions that cannot even be looked at. One from another process says it itself."""
    try:
        return _described(error)
    except BaseException as broken:  # noqa: BLE001  an attribute or a property of a user's exception raised
        return unseen(error, broken)


def unseen(error: BaseException, why: BaseException) -> JobError:
    """What can be said of an exception without looking at it."""
    name = _class_name(error)
    message = f"{name}, which cannot be looked at: doing so raised {_class_name(why)}"
    return JobError(type=name, code="exception", message=message)


def _class_name(error: BaseException) -> str:
    try:
        return str(type(error).__name__)
    except BaseException:  # noqa: BLE001  a metaclass of the user's own
        return "an exception"


def _described(error: BaseException) -> JobError:
    told = getattr(error, "windlass_told", None)
    if isinstance(told, JobError):
        return told
    code = error.code if isinstance(error, WindlassError) else "exception"
    try:
        trace = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001  __str__ or __cause__ of a user's exception raised
        trace = "the traceback could not be formatted"
    return JobError(
        type=type(error).__name__, code=code, message=explain(error), traceback=trace, exception=error
    )
