"""Middleware in a child process: the outcome that it sees is computed here as the instance will compute it from the message."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from windlass.arguments.importable import AS_MAIN, MAIN
from windlass.engine.around import ending_of
from windlass.engine.attempt import AttemptRunner
from windlass.engine.processes.wire import Message
from windlass.engine.running_attempt import RunningAttempt
from windlass.engine.running_job_store import RunningJobStore
from windlass.errors import WindlassError
from windlass.handlers.attempt_context import AttemptContext
from windlass.handlers.middleware import Ending, Middleware
from windlass.handlers.registry import Phase, Registry
from windlass.model import Failed, JobError, Outcome
from windlass.observe import events
from windlass.observe.emit import emit


class BadArguments(Exception):  # noqa: N818  a signal, never seen by callers
    """The stored arguments do not fit the handler, which is not called."""


class Messages(Protocol):
    """Makes the messages of ends (``ChildRuntime``)."""

    def returned(self, context: AttemptContext, phase: Phase, value: Any) -> Message: ...

    def raised(self, context: AttemptContext | None, error: BaseException) -> Message: ...


class ChildJudge:
    """Decides how an attempt in a child process ended; the record is the message to the instance."""

    def __init__(
        self,
        messages: Messages,
        running: RunningAttempt,
        phase: Phase,
        context: AttemptContext,
        store: RunningJobStore,
    ) -> None:
        self._messages = messages
        self._running = running
        self._phase = phase
        self._context = context
        self._store = store
        self._runner = AttemptRunner(lambda running: store)
        running.context, running.begun = context, True

    def returned(self, value: Any) -> Ending:
        message = self._messages.returned(self._context, self._phase, value)
        outcome: Outcome | None
        if message["how"] == "recorded":
            outcome = None
        elif message["how"] == "refused":
            outcome = self._refused(message)
        elif self._context.awaits_commit:
            outcome = self._runner.returned(self._running, None)
        else:
            outcome = self._phase.ended(self._running.lease, None)
        return self._ending(outcome, None, message)

    def raised(self, error: BaseException) -> Ending:
        message = self._messages.raised(self._context, error)
        if message["how"] == "recorded":
            return self._ending(None, error, message)
        if isinstance(error, BadArguments):
            return self._ending(self._refused(message), None, message)
        return self._ending(self._runner.raised(self._running, error), error, message)

    def settled(self, ending: Ending) -> Ending:
        try:
            name = self._store.ended_as(self._running.lease)
        except WindlassError:  # the database decides when the outcome is recorded
            return ending
        return ending if name is None else Ending(name, ending.record, is_committed=True)

    def _refused(self, message: Message) -> Outcome:
        failed = JobError(type="PayloadError", code=message["code"], message=message["message"])
        return Failed(self._running.lease, failed)

    def _ending(self, outcome: Outcome | None, error: BaseException | None, message: Message) -> Ending:
        return ending_of(self._running.lease, self._phase, self._context, outcome, error, message)


def middleware_of(registry: Registry | None, facts: Message) -> Sequence[Middleware]:
    """The middleware of the handler's app. The modules in which the instance registered it are loaded first; one that is missing
    nevertheless is logged. The main script is not run for it."""
    for module in facts["modules"]:
        if module not in (MAIN, AS_MAIN, ""):
            importlib.import_module(module)
    found = [] if registry is None else registry.middleware
    missing = [name for name in facts["names"] if name not in {item.name for item in found}]
    if missing:
        emit(events.MIDDLEWARE_MISSING, middleware=", ".join(missing))
    return found
