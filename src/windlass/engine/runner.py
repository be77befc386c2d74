"""One job in, one outcome out; no database of its own.

Whatever a handler does (returns, raises, returns something that is not JSON) becomes an outcome with a structured error. The
only place besides the executors that catches broadly.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.errors import LeaseLost, PayloadError, WindlassError
from windlass.json_tree import explain
from windlass.model import Advanced, Cancelled, Completed, Failed, JobError, Json, Lease, Outcome, Retried
from windlass.signals import Cancel, Fail, Retry
from windlass.work.kind import Phase, Registry

Injector = Callable[[Phase], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """A handler and the arguments to call it with."""

    phase: Phase
    arguments: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.phase.handler(**self.arguments)


class Runner:
    """Turns leases into calls, and what came of a call into an outcome."""

    def __init__(
        self, registry: Registry, inject: Callable[[Phase, Lease], Mapping[str, Any]] | None = None
    ) -> None:
        self._registry = registry
        self._inject = inject

    def prepare(self, lease: Lease) -> Call | Outcome:
        """The call a job asks for; an outcome where there is none to make (I-16: a bad row ends, it does not stop the loop)."""
        phase = self._registry.phase(lease.phase)
        if phase is None or phase.kind != lease.kind:
            message = f"no handler is defined for kind {lease.kind!r} in phase {lease.phase!r}; deploy it, then retry this job"
            return Failed(lease, JobError(type="UnknownKind", code="unknown_kind", message=message))
        try:
            arguments = phase.signature.decode_args(lease.args_json)
            if self._inject is not None:
                arguments = {**arguments, **self._inject(phase, lease)}
        except PayloadError as error:
            return Failed(lease, JobError(type="PayloadError", code="bad_arguments", message=str(error)))
        except Exception as error:  # noqa: BLE001  a factory of a dependency may raise anything
            return self._failed_attempt(lease, phase, error)
        return Call(phase, arguments)

    def returned(self, lease: Lease, phase: Phase, value: Any) -> Outcome:
        """The outcome of a handler that returned."""
        try:
            text = Json(phase.signature.encode_result(value))
        except PayloadError as error:
            return Failed(lease, JobError(type="PayloadError", code="bad_result", message=str(error)))
        kind = self._registry.kind(lease.kind)
        following = kind.after(phase.name) if kind else None
        if following is not None:
            return Advanced(lease, following.name, text, following.retry.attempts)
        return Completed(lease, None if value is None else text)

    def raised(self, lease: Lease, phase: Phase, error: BaseException) -> Outcome | None:
        """The outcome of a handler that raised; None where its lease is lost and there is nothing to say."""
        match error:
            case LeaseLost():
                return None
            case Cancel():
                return Cancelled(lease, error.reason)
            case Fail():
                return Failed(lease, JobError(type="Fail", code=error.code, message=error.message))
            case Retry():
                told = JobError(type="Retry", code="retry", message=error.message)
                wait = error.after if error.after is not None else phase.retry.delay(lease.attempt, error)
                return Retried(lease, told, wait, counted=error.counted)
            case _:
                return self._failed_attempt(lease, phase, error)

    def timed_out(self, lease: Lease, phase: Phase) -> Outcome:
        """The outcome of a job that outran its phase's time limit (C5)."""
        message = f"ran longer than its time limit of {phase.timeout:g} s without a sign of progress"
        told = JobError(type="TimeLimit", code="time_limit", message=message)
        return Retried(lease, told, phase.retry.delay(lease.attempt))

    def _failed_attempt(self, lease: Lease, phase: Phase, error: BaseException) -> Outcome:
        told = describe(error)
        try:
            delay = phase.retry.delay(lease.attempt, error)
        except Exception as broken:  # noqa: BLE001  the policy may be the user's own
            return Failed(lease, describe(broken))
        return Retried(lease, told, delay)


def describe(error: BaseException) -> JobError:
    """An exception as data; safe for exceptions that cannot even be printed."""
    code = error.code if isinstance(error, WindlassError) else "exception"
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001  __str__ or __cause__ of a user's exception raised
        trace = "the traceback could not be formatted"
    return JobError(type=type(error).__name__, code=code, message=explain(error), traceback=trace)
