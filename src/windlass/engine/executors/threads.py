"""Runs sync handlers in threads, which are started when they are needed and stay.

If the machine cannot start another thread, jobs wait for one of the existing threads; if there is none at all, jobs are given back.
A thread cannot be stopped from outside. A job that does not stop when asked keeps its thread; its processor is replaced, and a new
thread is started for it.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from windlass.arguments.json_checks import explain
from windlass.engine.attempt import AttemptRunner, Call
from windlass.engine.executors.contract import Ended, OnEnded
from windlass.engine.executors.fault import Fault
from windlass.engine.running_attempt import RunningAttempt
from windlass.observe.current_job import current_job
from windlass.observe.logger import thread


class ThreadExecutor:
    """Runs sync functions."""

    def __init__(self, runner: AttemptRunner, on_ended: OnEnded, fault: Fault) -> None:
        self.fault = fault
        self._runner = runner
        self._on_ended = on_ended
        self._work: SimpleQueue[RunningAttempt | Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = itertools.count(1)
        self._threads: list[threading.Thread] = []

    @property
    def busy(self) -> int:
        """How many threads run something now."""
        return len(self._threads) - max(0, self._idle)

    def submit(self, batch: Sequence[RunningAttempt]) -> None:
        self._add(batch)

    def run(self, function: Callable[[], None]) -> None:
        """Run a function that is not a job (a probe) on a thread of this pool; it must not raise."""
        self._add([function])

    def stop_job(self, running: RunningAttempt) -> None:
        """Does nothing: a thread is asked through the job's context, which was done."""

    def close(self, *, wait: float = 0.0) -> None:
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._work.put(None)
        deadline = time.monotonic() + wait
        for one in threads:
            one.join(max(0.0, deadline - time.monotonic()))

    def catch_up(self) -> None:
        """Start the threads that could not be started when they were needed."""
        if self._idle < 0:
            self._start_missing()
        elif self._threads:
            self.fault.reason = None  # the existing threads have run all that waited

    def _add(self, items: Sequence[RunningAttempt | Callable[[], None]]) -> None:
        with self._lock:
            self._idle -= len(items)
            for item in items:
                self._work.put(item)
        if self._idle < 0:
            self._start_missing()

    def _start_missing(self) -> None:
        """Start one thread for each item without an idle thread."""
        with self._lock:
            error = self._start_threads()
            missing, unstarted = -self._idle, [] if self._threads or error is None else self._take_unstarted()
        if error is None:
            self.fault.reason = None
        elif unstarted:
            self.fault.give_back(explain(error), unstarted)
        else:
            self.fault.note(f"{explain(error)}; {missing} jobs wait for a thread")

    def _take_unstarted(self) -> list[RunningAttempt]:
        """Remove the jobs that no thread will run; other functions stay."""
        items: list[RunningAttempt | Callable[[], None] | None] = []
        with suppress(Empty):
            while True:
                items.append(self._work.get_nowait())
        jobs = [item for item in items if isinstance(item, RunningAttempt)]
        for item in items:
            if not isinstance(item, RunningAttempt):
                self._work.put(item)
        self._idle += len(jobs)
        return jobs

    def _start_threads(self) -> RuntimeError | MemoryError | None:
        """Start missing threads; returns the error if the machine cannot start one."""
        while self._idle < 0:
            made = thread(self._serve, f"windlass-thread-{next(self._count)}")
            try:
                made.start()
            except (RuntimeError, MemoryError) as error:
                return error
            self._threads.append(made)
            self._idle += 1
        return None

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            if not isinstance(item, RunningAttempt):
                item()
                with self._lock:
                    self._idle += 1
                continue
            ended = self._execute(item)
            with self._lock:
                self._idle += 1
            self._on_ended([ended])

    def _execute(self, running: RunningAttempt) -> Ended:
        call = self._runner.prepare(running)
        if not isinstance(call, Call):
            return Ended(running, call)
        context = contextvars.copy_context()
        return context.run(self._call, running, call)

    def _call(self, running: RunningAttempt, call: Call) -> Ended:
        current_job.set(running)
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001  also SystemExit and KeyboardInterrupt of a handler
            return Ended(running, self._runner.raised(running, error))
        return Ended(running, self._runner.returned(running, value))
