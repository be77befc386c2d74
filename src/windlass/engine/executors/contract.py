"""What all executors share: how a job is prepared, how its end is told, and the job a thread or task works on.

An executor is given batches of running jobs and tells their ends in batches. It may be called from any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from windlass.engine.attempt import RunningAttempt, Stop
from windlass.engine.fault import Fault
from windlass.engine.processes.forks import leave, wandered
from windlass.engine.runner import STOPPED, Call, Runner, describe, unseen
from windlass.errors import LeaseLost
from windlass.forking import Process
from windlass.handlers.context import Context, Probe
from windlass.handlers.registry import Phase
from windlass.model import Failed, Flag, Lease, Outcome, Released, has_flag
from windlass.observe import events
from windlass.store.attempt_store import AttemptStore


class Ended(NamedTuple):
    """A job that came to its end on a processor; no outcome where its lease is lost or its end is recorded already."""

    running: RunningAttempt
    outcome: Outcome | None


ended = partial(tuple.__new__, Ended)
"""``Ended`` from a pair, for the busiest path: a third of the price of its own constructor."""

OnEnded = Callable[[Sequence[Ended]], None]
_PRINCIPAL = int(Flag.PRINCIPAL)


class Executor(Protocol):
    """Hosts handlers."""

    fault: Fault

    def submit(self, batch: Sequence[RunningAttempt]) -> None:
        """Run these jobs, each at once. Raises only where none of them was started."""
        ...

    def stop_job(self, running: RunningAttempt) -> None:
        """Make a job stop that was told to (``running.stop`` is set), as far as this executor can."""
        ...

    def close(self, *, wait: float = 0.0) -> None:
        """Stop hosting; jobs that still run are left to their fate after ``wait`` seconds."""
        ...


class Bench:
    """The tools every executor uses on a job: prepare the call, make the outcome."""

    def __init__(
        self,
        runner: Runner,
        hold: AttemptStore,
        *,
        probe: Probe | None = None,
        on_duplicate: Callable[[Lease, str], None] = lambda lease, name: None,
    ) -> None:
        self._runner = runner
        self._on_duplicate = on_duplicate
        self._hold = hold
        self._probe = probe
        self.pid = Process.pid

    def prepare(self, running: RunningAttempt) -> Call | Outcome:
        """The call a job asks for, or the outcome where there is none to make. Never raises. From here on the job counts as begun: one that
        outruns its time limit is stopped, while a job that has not begun by then is given back."""
        if Process.pid != self.pid:
            wandered()
        running.begun = True
        try:
            return self._prepare(running)
        except BaseException as error:  # noqa: BLE001  a job that cannot be prepared must still come to an end
            return Failed(running.lease, describe(error))

    def _prepare(self, running: RunningAttempt) -> Call | Outcome:
        if running.stop is not None and running.phase is not None:
            return self._runner.stopped(running.lease, running.phase, running.stop, None)
        phase = running.phase
        if phase is None or not (phase.signature.injected or has_flag(running.lease.flags, _PRINCIPAL)):
            return self._runner.prepare(running.lease)

        def context(phase: Phase) -> Context:
            touch = running.processor.touch
            made = Context(
                running.lease,
                phase,
                self._hold,
                touch=lambda: touch(time.monotonic()),
                probe=self._probe,
                authority=self._runner.authority,
                on_duplicate=partial(self._on_duplicate, running.lease),
            )
            running.context = made
            if running.stop is not None:
                made.ask_to_stop()
            return made

        return self._runner.prepare(running.lease, context)

    def returned(self, running: RunningAttempt, value: Any) -> Outcome | None:
        """The outcome of a handler that returned. Never raises."""
        if Process.pid != self.pid:
            leave()
        context = running.context
        if context is not None and context.is_dropped(value):
            events.result_dropped(running.lease)
        if running.phase is None or (context is not None and context.is_recorded):
            return None
        if context is not None and context.awaits_commit:
            return self.timed(running, self._runner.uncommitted(running.lease, running.phase))
        try:
            outcome: Outcome = self._runner.returned(
                running.lease, running.phase, value, running.run(time.monotonic())
            )
        except Exception as error:  # noqa: BLE001  a result that breaks whoever looks at it is a failed job
            outcome = Failed(running.lease, describe(error))
        return outcome if context is None else context.cleaned(outcome)

    def raised(self, running: RunningAttempt, error: BaseException) -> Outcome | None:
        """The outcome of a handler that raised. Never raises."""
        if Process.pid != self.pid:
            leave(error)
        phase = running.phase
        if running.context is not None and running.context.is_recorded:
            self._tell_after_end(running, running.context, error)
            return None
        if phase is None:
            return None
        try:
            return self._raised(running, phase, error)
        except BaseException as broken:  # noqa: BLE001  an exception of the user's own that breaks whoever looks at it
            return self.timed(running, self._runner.failed(running.lease, phase, unseen(error, broken)))

    def _tell_after_end(self, running: RunningAttempt, context: Context, error: BaseException) -> None:
        """An error that came after the job's end changes nothing of the job, and must not be lost."""
        if isinstance(error, STOPPED) and (running.stop is not None or context.should_stop):
            return
        told = context.cleaned(Failed(running.lease, describe(error)))
        if isinstance(told, Failed):
            events.raised_after_end(running.lease, told.error)

    def _raised(self, running: RunningAttempt, phase: Phase, error: BaseException) -> Outcome | None:
        if isinstance(error, LeaseLost) and running.context is not None and running.context.awaits_commit:
            # "Lost" is also what a handler hears that repeats a commit which had succeeded; the database knows.
            return self.timed(running, self._runner.uncommitted(running.lease, phase))
        if running.stop is not None:
            # A task that is cancelled before its first step raises, too, without having begun.
            outcome = self._runner.stopped(
                running.lease, phase, running.stop, error if running.begun else None
            )
        elif isinstance(error, STOPPED) and running.context is not None and running.context.should_stop:
            # A checkpoint was told of the cancel before the engine heard of it.
            outcome = self._runner.stopped(running.lease, phase, Stop.CANCELLED, error)
        else:
            outcome = self._runner.raised(running.lease, phase, error)
        return self.timed(running, outcome)

    def cut_off(self, running: RunningAttempt) -> Outcome | None:
        """The outcome of a job that its instance stops to run."""
        return self.timed(running, self._runner.cut_off(running.lease, is_begun=running.begun))

    def timed(self, running: RunningAttempt, outcome: Outcome | None) -> Outcome | None:
        """The outcome with where and how long it ran, and without the tokens that the job was given."""
        if outcome is None or isinstance(outcome, Released):
            return outcome
        if running.context is not None:
            outcome = running.context.cleaned(outcome)
        return replace(outcome, run=running.run(time.monotonic()))
