"""Runs coroutines on the loop. Jobs of phases that never wait share a task; all others have their own.

A task, its turns of the loop and its callback are most of the cost of a coroutine that does not wait: 7.3 µs with a task each, 4.5 with a
shared one. So jobs form a line and run one after the other in one task, until one of them waits. That job keeps the task, and its phase is
known to wait from then on: all its jobs, those in line first, begin at once in their own tasks.

Every job has its own context, and a task from its first line on, as time-outs and task groups need it. If a job leaves traces on a shared
task (a reference, a callback, a name, a cancel), the task ends, and the next job gets another.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any

from windlass.arguments.json_checks import explain
from windlass.engine.attempt import AttemptRunner, Call
from windlass.engine.executors.contract import Ended, ended
from windlass.engine.executors.fault import Fault
from windlass.engine.processes.forks import exit_stray_child
from windlass.engine.running_attempt import RunningAttempt
from windlass.forking import Process
from windlass.observe.current_job import current_job

AT_A_TIME = 200
"""Jobs that run in line before the loop gets a turn for everything else."""


class SharedTask:
    """The line of jobs and their tasks; on the loop's thread only, except ``current``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        runner: AttemptRunner,
        note: Callable[[Ended], None],
        fault: Fault,
    ) -> None:
        self._loop = loop
        self._fault = fault
        self._runner = runner
        self._note = note
        self._clean = contextvars.copy_context()
        self._waiting_phases: set[str] = set()
        self._line: deque[RunningAttempt] = deque()
        self._line_task: asyncio.Task[None] | None = None
        self._own: dict[asyncio.Task[None], RunningAttempt] = {}
        self.current: RunningAttempt | None = None
        """The job whose code the thread runs."""

    def add(self, batch: Sequence[RunningAttempt]) -> None:
        for running in batch:
            if running.lease.phase in self._waiting_phases:
                self._give_task(running)
            else:
                self._line.append(running)
        self._start_line()

    def cancel(self, running: RunningAttempt) -> None:
        """Cancel a job where it waits. A job in line is checked before it begins."""
        task = running.handle
        if task is not None and not task.done():
            task.cancel()

    def close(self) -> None:
        """Begin no more jobs, and cancel those that wait."""
        self._line.clear()
        for task in list(self._own):
            task.cancel()

    # ------------------------------------------------------------------ tasks

    def _give_task(self, running: RunningAttempt) -> None:
        task = self._new_task(self._run_in_own_task(running), [running])
        if task is not None:
            running.handle = task
            self._own[task] = running

    def _start_line(self) -> None:
        """Start a task for the line, if there is none."""
        if self._line and self._line_task is None:
            self._line_task = self._new_task(self._serve_line(), self._line)

    def _new_task(self, work: Any, jobs: Collection[RunningAttempt]) -> asyncio.Task[None] | None:
        """Make a task for these jobs; if that fails, they are given back."""
        try:
            task: asyncio.Task[None] = asyncio.Task(work, loop=self._loop, context=self._clean.copy())
        except Exception as error:  # noqa: BLE001  no handler of these jobs was called
            work.close()
            unstarted = list(jobs)
            if jobs is self._line:
                self._line.clear()
            self._fault.give_back(explain(error), unstarted)
            return None
        self._fault.reason = None
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        """Handle the end of a task. A task that is cancelled before its first step does not report its job itself."""
        error = None if task.cancelled() else task.exception()
        running = self._own.pop(task, None)
        if running is not None:
            self._note(ended((running, self._runner.raised(running, error or asyncio.CancelledError()))))
        if self._line_task is task:
            self._line_task = None
            self._start_line()

    async def _run_in_own_task(self, running: RunningAttempt) -> None:
        task = running.handle
        begun = self._begin(running)
        if begun is None:
            self._own.pop(task, None)
        else:
            await self._run_to_end(task, running, *begun)

    async def _serve_line(self) -> None:
        task, line, since = self._line_task, self._line, 0
        assert task is not None
        traces = _traces(task)
        while line:
            running = line.popleft()
            begun = self._begin(running)
            if begun is not None:
                self._own[task] = running
                running.handle = task
                self._line_task = None
                self._leave_line(running.lease.phase)
                await self._run_to_end(task, running, *begun)
                return
            if _traces(task) != traces:
                return
            since += 1
            if since >= AT_A_TIME:
                since = 0
                await _one_turn()
                traces = _traces(task)

    def _leave_line(self, phase: str) -> None:
        """Note that jobs of a phase wait: those in line begin in this turn of the loop, each in its own task."""
        self._waiting_phases.add(phase)
        line = list(self._line)
        self._line.clear()
        self.add(line)

    # ------------------------------------------------------------------ the steps of a job

    def _begin(self, running: RunningAttempt) -> tuple[Any, contextvars.Context, Any] | None:
        """Run the first step of a job; None if it ended, else its coroutine, its context and what it awaits."""
        runner = self._runner
        call = runner.prepare(running)
        if not isinstance(call, Call):
            self._note(Ended(running, call))
            return None
        context = self._clean.copy()
        self.current = running
        try:
            coroutine = context.run(_called, running, call)
        except BaseException as error:  # noqa: BLE001  a decorator's own code
            self.current = None
            self._note(ended((running, runner.raised(running, error))))
            return None
        try:
            awaited = context.run(coroutine.send, None)
        except StopIteration as stop:
            self._note(ended((running, runner.returned(running, stop.value))))
            return None
        except BaseException as error:  # noqa: BLE001  every exception of a handler is an outcome
            self._note(ended((running, runner.raised(running, error))))
            return None
        finally:
            self.current = None
        return coroutine, context, awaited

    @types.coroutine
    def _run_to_end(
        self,
        task: asyncio.Task[None],
        running: RunningAttempt,
        coroutine: Any,
        context: contextvars.Context,
        awaited: Any,
    ) -> Generator[Any, Any, None]:
        """Run all further steps of a job that waits: like ``await coroutine``, but in the job's own context."""
        runner = self._runner
        while True:
            resume, value = coroutine.send, None
            try:
                value = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001  thrown into the job, as a cancel is
                resume, value = coroutine.throw, error
            if Process.pid != runner.pid:
                exit_stray_child()
            self.current = running
            try:
                awaited = context.run(resume, value)
                continue
            except StopIteration as stop:
                outcome = runner.returned(running, stop.value)
            except BaseException as error:  # noqa: BLE001  as above
                outcome = runner.raised(running, error)
            finally:
                self.current = None
            self._own.pop(task, None)
            self._note(ended((running, outcome)))
            return


def _called(running: RunningAttempt, call: Call) -> Any:
    """Return the coroutine of a job; plain decorators around its handler run here, in its context."""
    current_job.set(running)
    made = call.handler(**call.arguments)  # one frame less than call(): 0.1 µs
    return made if type(made) is types.CoroutineType else _awaited(made)


@types.coroutine
def _one_turn() -> Generator[None]:
    """Wait for one turn of the loop."""
    yield


async def _awaited(given: Any) -> Any:
    """Wrap an awaitable that a decorator returned instead of a coroutine: a task, a future."""
    return await given


def _traces(task: Any) -> tuple[Any, ...]:
    """The traces that a job may have left on a shared task."""
    return (
        sys.getrefcount(task),
        weakref.getweakrefcount(task),
        len(task._callbacks or ()),
        task.get_name(),
        task.cancelling(),
        getattr(task, "_must_cancel", False),
    )
