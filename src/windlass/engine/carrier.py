"""Runs coroutines on the loop, one after the other in one task until one of them waits for something.

That one keeps the task for good, and another task goes on with the rest of the line. Most jobs that wait for something wait for long,
and their task costs nothing against it; a job that does not wait would spend more on a task of its own than on anything else
(7.3 µs against 4.3). Every job has its own context, and in every step of it ``asyncio.current_task()`` is a task, as time-outs and
task groups need it. Only what a job leaves behind on the task itself without ever having waited could be seen by the next one; a
cancel is looked for, and such a task carries nobody else.
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from windlass.engine.executors import Bench, Ended, ended
from windlass.engine.runner import Call
from windlass.engine.running import Running
from windlass.observe.current import current_job

AT_A_TIME = 200
"""So many jobs may come and go before the loop looks after everything else."""


class Carrier:
    """The line of jobs and the tasks that carry them; on the loop's thread only, but for ``current``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bench: Bench, note: Callable[[Ended], None]) -> None:
        self._loop = loop
        self._bench = bench
        self._note = note
        self._clean = contextvars.copy_context()
        self._line: deque[Running] = deque()
        self._at_line: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Task[None], Running] = {}
        self.current: Running | None = None
        """The job whose own code the thread is in."""

    def add(self, batch: Sequence[Running]) -> None:
        self._line.extend(batch)
        if self._at_line is None:
            self._go_on()

    def cancel(self, running: Running) -> None:
        """Have a job stop where it waits. One that has not begun is looked at before it does."""
        task = running.handle
        if task is not None and not task.done():
            task.cancel()

    def close(self) -> None:
        """Begin nothing more, and have every job stop that waits."""
        self._line.clear()
        for task in list(self._waiting):
            task.cancel()

    def _go_on(self) -> None:
        self._at_line = asyncio.Task(self._carry(), loop=self._loop, context=self._clean.copy())

    async def _carry(self) -> None:
        """What a task does: jobs in line, until one waits."""
        task = self._at_line
        try:
            await self._serve_line(task)
        finally:
            if self._at_line is task:
                self._at_line = None
                if self._line:
                    self._go_on()

    @types.coroutine
    def _serve_line(self, task: asyncio.Task[None] | None) -> Generator[Any, Any, None]:
        line, since = self._line, 0
        while line:
            running = line.popleft()
            begun = self._begin(running)
            if begun is not None:
                self._at_line = None
                if line:
                    self._go_on()
                yield from self._stay_with(task, running, *begun)
                return
            if (
                task is not None and task.cancelling()
            ):  # by the job itself, which was done before it could be told
                return
            since += 1
            if since >= AT_A_TIME:
                since = 0
                yield

    def _begin(self, running: Running) -> tuple[Any, contextvars.Context, Any] | None:
        """A job's first step: None when it came to its end by it, else what it waits for, last."""
        bench = self._bench
        call = bench.prepare(running)
        if not isinstance(call, Call):
            self._note(Ended(running, bench.timed(running, call)))
            return None
        context = self._clean.copy()
        self.current = running
        try:
            coroutine = call()
            awaited = context.run(_first_step, running, coroutine)
        except StopIteration as stop:
            self._note(ended((running, bench.returned(running, stop.value))))
            return None
        except BaseException as error:  # noqa: BLE001  whatever a handler raises is an outcome
            self._note(ended((running, bench.raised(running, error))))
            return None
        finally:
            self.current = None
        return coroutine, context, awaited

    def _stay_with(
        self,
        task: asyncio.Task[None] | None,
        running: Running,
        coroutine: Any,
        context: contextvars.Context,
        awaited: Any,
    ) -> Generator[Any, Any, None]:
        """All further steps of a job that waits: as ``await coroutine``, but in the job's own context."""
        bench = self._bench
        running.handle = task
        if task is not None:
            self._waiting[task] = running
        try:
            while True:
                resume, value = coroutine.send, None
                try:
                    value = yield awaited
                except GeneratorExit:
                    coroutine.close()
                    raise
                except BaseException as error:  # noqa: BLE001  thrown into the job, as a cancel is
                    resume, value = coroutine.throw, error
                self.current = running
                try:
                    awaited = context.run(resume, value)
                except StopIteration as stop:
                    self._note(ended((running, bench.returned(running, stop.value))))
                    return
                except BaseException as error:  # noqa: BLE001  as above
                    self._note(ended((running, bench.raised(running, error))))
                    return
                finally:
                    self.current = None
        finally:
            if task is not None:
                self._waiting.pop(task, None)


def _first_step(running: Running, coroutine: Any) -> Any:
    current_job.set(running)
    return coroutine.send(None)
