"""Attempts with middleware around them: prepared and judged like others, with the outcome shown to the middleware first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from windlass.arguments.asyncness import is_async
from windlass.engine.attempt import AttemptRunner, Call
from windlass.engine.job_errors import describe
from windlass.engine.recorder import outcome_name
from windlass.engine.running_attempt import RunningAttempt
from windlass.errors import ConfigError, WindlassError
from windlass.handlers.attempt_context import AttemptContext
from windlass.handlers.chunk_defaults import ChunkDefaults
from windlass.handlers.middleware import (
    CurrentAttempt,
    Ending,
    HandlerError,
    Middleware,
    around,
    around_async,
    refuse_async,
)
from windlass.handlers.registry import Phase, Registry
from windlass.model import Advanced, Completed, Failed, JobError, Lease, Outcome, Released, Retried, Verdict
from windlass.settings import Settings
from windlass.store.attempt_store import AttemptStore


class Decided(NamedTuple):
    """The return value of a handler whose outcome was decided inside the middleware."""

    outcome: Outcome | None


class MiddlewareRunner(AttemptRunner):
    """An ``AttemptRunner`` with middleware around the handlers. ``deadly`` are exceptions that stand for the death of the process."""

    def __init__(
        self,
        store_of: Callable[[RunningAttempt], AttemptStore],
        middleware: Sequence[Middleware],
        *,
        deadly: tuple[type[BaseException], ...] = (),
        **options: Any,
    ) -> None:
        super().__init__(store_of, **options)
        self._middleware = middleware
        self.deadly = deadly
        self._is_async: dict[str, bool] = {}

    def prepare(self, running: RunningAttempt) -> Call | Outcome:
        call, phase, lease = super().prepare(running), running.phase, running.lease
        if not self._middleware or phase is None:
            return call
        if not isinstance(call, Call) and (running.stop is not None or phase.kind != lease.kind):
            return call  # there is no attempt
        is_asynchronous = self._is_async.get(phase.name)
        if is_asynchronous is None:
            is_asynchronous = is_async(phase.handler)
            if not is_asynchronous and (problems := refuse_async(self._middleware, phase.name)):
                error = ConfigError("middleware", phase.name, because="; ".join(problems))
                return self.timed(running, Failed(lease, describe(error)))
            self._is_async[phase.name] = is_asynchronous
        surround = self._around_async if is_asynchronous else self._around
        return Call(surround, {"running": running, "phase": phase, "call": call})

    def returned(self, running: RunningAttempt, value: Any) -> Outcome | None:
        return value.outcome if type(value) is Decided else super().returned(running, value)

    def _around(self, running: RunningAttempt, phase: Phase, call: Call | Outcome) -> Decided:
        judge = _Judge(self, running, phase)
        inner: Callable[[], Any] = call.__call__ if isinstance(call, Call) else judge.refusing(call)
        return Decided(around(self._middleware, self._attempt(running, phase), judge, inner))

    async def _around_async(self, running: RunningAttempt, phase: Phase, call: Call | Outcome) -> Decided:
        judge = _Judge(self, running, phase)
        inner: Callable[[], Any] = call.__call__ if isinstance(call, Call) else judge.refusing_async(call)
        return Decided(await around_async(self._middleware, self._attempt(running, phase), judge, inner))

    def _attempt(self, running: RunningAttempt, phase: Phase) -> CurrentAttempt:
        return CurrentAttempt(running.lease, lambda: running.context or self._context(running, phase))

    def judged(self, running: RunningAttempt, value: Any, error: BaseException | None) -> Outcome | None:
        """The outcome of a handler that returned or raised, as without middleware."""
        return super().returned(running, value) if error is None else super().raised(running, error)

    def ended_as(self, running: RunningAttempt) -> str | None:
        """How the database says that an attempt ended; None if it did not."""
        return self._store_of(running).ended_as(running.lease)


def runner_for(
    registry: Registry,
    store_of: Callable[[RunningAttempt], AttemptStore],
    settings: Settings,
    **options: Any,
) -> AttemptRunner:
    """The runner of an engine: without middleware one that knows nothing of it, so that a job costs nothing more."""
    options["chunk_defaults"] = ChunkDefaults.of(settings)
    if not registry.middleware:
        return AttemptRunner(store_of, **options)
    return MiddlewareRunner(store_of, registry.middleware, **options)


def refuse_late(registry: Registry, runner: AttemptRunner) -> None:
    """Refuse to start an engine that was made before the first middleware was registered: it would run jobs without it."""
    if registry.middleware and not isinstance(runner, MiddlewareRunner):
        raise WindlassError(
            "middleware was registered after this engine was made; call app.middleware before app.worker()"
        )


class _Refused(Exception):  # noqa: N818  a signal between two methods of the class below
    """The handler is not called."""


class _Judge:
    """Decides how an attempt in this process ended."""

    def __init__(self, runner: MiddlewareRunner, running: RunningAttempt, phase: Phase) -> None:
        self._runner = runner
        self._running = running
        self._phase = phase
        self._refused: Outcome | None = None

    def refusing(self, outcome: Outcome) -> Callable[[], Any]:
        """A call that ends with this outcome: there is nothing to call."""

        def refuse() -> Any:
            self._refused = outcome
            raise _Refused

        return refuse

    def refusing_async(self, outcome: Outcome) -> Callable[[], Any]:
        refuse = self.refusing(outcome)

        async def refuse_async() -> Any:
            return refuse()

        return refuse_async

    def returned(self, value: Any) -> Ending:
        return self._ending(self._runner.judged(self._running, value, None), None)

    def raised(self, error: BaseException) -> Ending:
        if isinstance(error, self._runner.deadly):
            raise error
        if isinstance(error, _Refused):
            return self._ending(self._refused, None)
        return self._ending(self._runner.judged(self._running, None, error), error)

    def _ending(self, outcome: Outcome | None, error: BaseException | None) -> Ending:
        running = self._running
        if running.is_over:
            return Ending("lost", outcome, exception=error)
        return ending_of(running.lease, self._phase, running.context, outcome, error)

    def settled(self, ending: Ending) -> Ending:
        try:
            name = self._runner.ended_as(self._running)
        except WindlassError:  # the database decides when the outcome is recorded
            return ending
        return ending if name is None else Ending(name, ending.record, is_committed=True)


def ending_of(
    lease: Lease,
    phase: Phase,
    context: AttemptContext | None,
    outcome: Outcome | None,
    error: BaseException | None,
    record: Any = None,
) -> Ending:
    """The ending for an outcome. ``record`` is what the executor gets, if that is not the outcome."""
    record = outcome if record is None else record
    if outcome is None:
        is_recorded = context is not None and context.is_recorded
        name = recorded_name(phase, context) if context is not None and is_recorded else "lost"
        return Ending(name, record, exception=_shown(context, None, error), is_committed=is_recorded)
    failure = outcome.error if isinstance(outcome, Failed | Retried | Released) else None
    return Ending(
        outcome_name(outcome, Verdict.RECORDED),
        record,
        failure,
        _shown(context, failure, error),
        is_open=context is not None and context.awaits_commit,
    )


def recorded_name(phase: Phase, context: AttemptContext) -> str:
    """The outcome that a transaction of the handler recorded."""
    last = phase.following is None
    made = Completed(context.lease) if last else Advanced(context.lease, "")
    return outcome_name(made, context.recorded_as)


def _shown(
    context: AttemptContext | None, failure: JobError | None, error: BaseException | None
) -> BaseException | None:
    """The exception that middleware may see: none that may hold a token that the attempt was given."""
    if context is not None and context.has_tokens and error is not None:
        cleaned = failure or JobError(
            type=type(error).__name__, code="exception", message="raised after its end"
        )
        return HandlerError(cleaned)
    return error if error is not None or failure is None else HandlerError(failure)
