"""Async handlers: one event loop on a thread of its own (uvloop where it is installed).

Jobs come in batches and go in batches: one wake-up of the loop for many jobs, one call outwards for all that ended in the same
turn of the loop. Time limits are the watchdog's, not a timer per job.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any

from windlass.engine.executors import Bench, Ended, OnEnded, ended
from windlass.engine.runner import Call
from windlass.engine.running import Running
from windlass.observe.current import current_job


class LoopExecutor:
    """Runs coroutines."""

    def __init__(self, bench: Bench, on_ended: OnEnded) -> None:
        self._bench = bench
        self._on_ended = on_ended
        self._inbox: list[Sequence[Running]] = []
        self._inbox_lock = threading.Lock()
        self._tasks: dict[asyncio.Task[Any], Running] = {}
        self._ended: list[Ended] = []
        self._is_flushing = False
        self._is_closing = False
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="windlass-loop", daemon=True)
        self._thread.start()
        self._ready.wait()

    # ------------------------------------------------------------------ from any thread

    def submit(self, batch: Sequence[Running]) -> None:
        if threading.get_ident() == self._thread.ident:
            self._start(batch)
            return
        with self._inbox_lock:
            self._inbox.append(batch)
            if len(self._inbox) > 1:
                return  # the loop was told and has not come yet
        self._call(self._take)

    def stop_job(self, running: Running) -> None:
        self._call(self._cancel, running)

    def ping(self, answer: threading.Event) -> None:
        """Have the loop set an event: how the watchdog knows that nothing blocks it."""
        self._call(answer.set)

    def blocker(self) -> tuple[Running | None, str]:
        """The job whose code the loop's thread is in, and where; for a loop that does not answer."""
        task = asyncio.current_task(self._loop) if self._loop else None
        frame = sys._current_frames().get(self._thread.ident or 0)
        lines = traceback.format_stack(frame)[-3:] if frame else []
        return self._tasks.get(task) if task else None, "".join(lines)

    def close(self, *, wait: float = 0.0) -> None:
        self._call(self._end)
        self._thread.join(wait)

    def _call(self, function: Any, *arguments: Any) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(function, *arguments)
            except RuntimeError:  # closed between the two lines
                return

    # ------------------------------------------------------------------ on the loop

    def _run(self) -> None:
        self._loop = _new_loop()
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        try:
            while not self._is_closing:
                try:
                    self._loop.run_forever()
                except (SystemExit, KeyboardInterrupt):
                    continue  # a handler's own: its task has it as its exception, and the loop goes on
        finally:
            self._loop.close()

    def _take(self) -> None:
        with self._inbox_lock:
            batches, self._inbox = self._inbox, []
        for batch in batches:
            self._start(batch)

    def _start(self, batch: Sequence[Running]) -> None:
        loop, bench, tasks = self._loop, self._bench, self._tasks
        if loop is None:
            return
        for running in batch:
            call = bench.prepare(running)
            if not isinstance(call, Call):
                self._note(Ended(running, bench.timed(running, call)))
                continue
            context = contextvars.copy_context()
            context.run(current_job.set, running)
            try:
                coroutine = call()
            except Exception as error:  # noqa: BLE001  a handler that is not a coroutine function after all
                self._note(Ended(running, bench.raised(running, error)))
                continue
            task = _task(coroutine, loop, context)
            running.handle = task
            tasks[task] = running
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        running = self._tasks.pop(task)
        bench = self._bench
        if task.cancelled():
            outcome = bench.raised(running, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            outcome = bench.raised(running, error)
        else:
            outcome = bench.returned(running, task.result())
        self._note(ended((running, outcome)))

    def _note(self, item: Ended) -> None:
        self._ended.append(item)
        if not self._is_flushing and self._loop is not None:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        batch, self._ended = self._ended, []
        self._is_flushing = False
        self._on_ended(batch)

    def _cancel(self, running: Running) -> None:
        task = running.handle
        if task is not None and not task.done():
            task.cancel()

    def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self._is_closing = True
        if self._loop is not None:
            self._loop.call_soon(self._loop.stop)


def _task(coroutine: Any, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> asyncio.Task[Any]:
    if sys.version_info >= (3, 12):  # starts at once: 2.5 instead of 4 µs a job
        return asyncio.Task(coroutine, loop=loop, context=context, eager_start=True)
    return asyncio.Task(coroutine, loop=loop, context=context)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
