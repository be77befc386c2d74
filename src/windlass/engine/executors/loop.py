"""Runs async handlers on one event loop with its own thread (uvloop if it is installed).

Jobs begin and end in batches: one wake-up of the loop for many jobs, one callback for all that ended in the same turn of the loop. The
watchdog enforces time limits, without a timer per job.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from windlass.arguments.json_checks import explain
from windlass.engine.attempt import AttemptRunner
from windlass.engine.executors.contract import Ended, OnEnded
from windlass.engine.executors.fault import Fault
from windlass.engine.executors.shared_task import SharedTask
from windlass.engine.running_attempt import RunningAttempt
from windlass.errors import WindlassError
from windlass.observe.logger import thread


class LoopExecutor:
    """Runs coroutines. Raises ``WindlassError`` if the event loop or its thread cannot be created."""

    def __init__(self, runner: AttemptRunner, on_ended: OnEnded, fault: Fault) -> None:
        self.fault = fault
        self._runner = runner
        self._on_ended = on_ended
        self._inbox: list[Sequence[RunningAttempt]] = []
        self._inbox_lock = threading.Lock()
        self._tasks: SharedTask | None = None
        self._ended: list[Ended] = []
        self._is_flushing = False
        self._is_closing = False
        self._loop = _new_loop()  # here, not on its thread: the start of the engine raises the error
        self._thread = thread(self._run, "windlass-loop")
        try:
            self._thread.start()
        except RuntimeError as error:
            self._loop.close()
            raise _missing("a thread", error) from error

    # ------------------------------------------------------------------ from any thread

    def submit(self, batch: Sequence[RunningAttempt]) -> None:
        if threading.get_ident() == self._thread.ident:
            self._start(batch)
            return
        with self._inbox_lock:
            self._inbox.append(batch)
            if len(self._inbox) > 1:
                return  # the loop is woken already
        try:
            self._loop.call_soon_threadsafe(self._take)
        except RuntimeError as error:  # closed
            if not self._is_closing:
                self.fault.give_back(explain(error), [job for jobs in self._arrived() for job in jobs])

    def stop_job(self, running: RunningAttempt) -> None:
        self._call(self._cancel, running)

    def ping(self, pong: threading.Event) -> None:
        """Make the loop set an event; so the watchdog detects that the loop is blocked."""
        self._call(pong.set)

    def blocker(self) -> tuple[RunningAttempt | None, str]:
        """The job whose code the loop's thread runs, and its stack; for a blocked loop."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        lines = traceback.format_stack(frame)[-3:] if frame else []
        return self._tasks.current if self._tasks else None, "".join(lines)

    def close(self, *, wait: float = 0.0) -> None:
        self._call(self._end)
        self._thread.join(wait)

    def _call(self, function: Any, *arguments: Any) -> None:
        with suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(function, *arguments)

    # ------------------------------------------------------------------ on the loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._tasks = SharedTask(self._loop, self._runner, self._note, self.fault)
        try:
            while not self._is_closing:
                try:
                    self._loop.run_forever()
                except (SystemExit, KeyboardInterrupt):
                    continue  # from a task that a handler made: the task keeps it as its exception
        finally:
            self._loop.close()

    def _take(self) -> None:
        for batch in self._arrived():
            self._start(batch)

    def _arrived(self) -> list[Sequence[RunningAttempt]]:
        with self._inbox_lock:
            batches, self._inbox = self._inbox, []
        return batches

    def _start(self, batch: Sequence[RunningAttempt]) -> None:
        if self._tasks is not None:
            self._tasks.add(batch)

    def _note(self, item: Ended) -> None:
        self._ended.append(item)
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        batch, self._ended = self._ended, []
        self._is_flushing = False
        self._on_ended(batch)

    def _cancel(self, running: RunningAttempt) -> None:
        if self._tasks is not None:
            self._tasks.cancel(running)

    def _end(self) -> None:
        if self._tasks is not None:
            self._tasks.close()
        self._is_closing = True
        self._loop.call_soon(self._loop.stop)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        try:
            import uvloop
        except ImportError:
            return asyncio.new_event_loop()
        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        return loop
    except OSError as error:
        raise _missing("an event loop", error) from error


def _missing(what: str, error: Exception) -> WindlassError:
    return WindlassError(
        f"async handlers cannot be served: could not create {what} ({error}); raise the limits of this process "
        "(ulimit -n for open files, -u for threads) and start it again"
    )
