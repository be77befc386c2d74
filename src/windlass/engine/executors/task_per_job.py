"""Runs coroutines on the loop, each in a task of its own; takes the place of ``SharedTask`` while the two are compared."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Any

from windlass.arguments.json_checks import explain
from windlass.engine.attempt import AttemptRunner, Call
from windlass.engine.executors.contract import Ended, ended
from windlass.engine.executors.fault import Fault
from windlass.engine.running_attempt import RunningAttempt
from windlass.observe.current_job import current_job


class TaskPerJob:
    """The tasks of jobs; on the loop's thread only, but for ``current``. ``options`` are those of ``asyncio.Task`` (``eager_start``)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        runner: AttemptRunner,
        note: Callable[[Ended], None],
        fault: Fault,
        **options: Any,
    ) -> None:
        self._loop = loop
        self._runner = runner
        self._note = note
        self._fault = fault
        self._options = options
        self._clean = contextvars.copy_context()
        self._tasks: dict[asyncio.Task[None], RunningAttempt] = {}

    @property
    def current(self) -> RunningAttempt | None:
        """The job whose own code the thread is in."""
        task = asyncio.current_task(self._loop)
        return self._tasks.get(task) if task is not None else None

    def add(self, batch: Sequence[RunningAttempt]) -> None:
        for running in batch:
            work = self._run(running)
            try:
                task: asyncio.Task[None] = asyncio.Task(
                    work, loop=self._loop, context=self._clean.copy(), **self._options
                )
            except Exception as error:  # noqa: BLE001  whatever it is, no handler of this job was entered
                work.close()
                self._fault.give_back(explain(error), [running])
                continue
            self._fault.reason = None
            if not task.done():
                running.handle = task
                self._tasks[task] = running
                task.add_done_callback(self._gone)

    def cancel(self, running: RunningAttempt) -> None:
        """Have a job stop where it waits."""
        task = running.handle
        if task is not None and not task.done():
            task.cancel()

    def close(self) -> None:
        """Have every job stop that waits."""
        for task in list(self._tasks):
            task.cancel()

    def _gone(self, task: asyncio.Task[None]) -> None:
        """A task is over. One that is cancelled before its first step has not reported its end."""
        running = self._tasks.pop(task)
        if running.handle is task:
            self._note(ended((running, self._runner.raised(running, asyncio.CancelledError()))))

    async def _run(self, running: RunningAttempt) -> None:
        runner = self._runner
        call = runner.prepare(running)
        if not isinstance(call, Call):
            running.handle = None
            self._note(Ended(running, call))
            return
        current_job.set(running)
        try:
            outcome = runner.returned(running, await call.handler(**call.arguments))
        except BaseException as error:  # noqa: BLE001  whatever a handler raises is an outcome
            outcome = runner.raised(running, error)
        running.handle = None
        self._note(ended((running, outcome)))
