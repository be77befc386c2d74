"""Runs jobs inside a child process: receives messages on one thread, calls handlers on the main one.

Sync handlers run directly on the main thread, async ones on one event loop that is kept from job to job.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import os
import resource
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from windlass.arguments.asyncness import is_async
from windlass.engine.log_capture import LogCapture
from windlass.engine.processes.child.around import BadArguments, ChildJudge
from windlass.engine.processes.child.memory import limit_memory
from windlass.engine.processes.child.phases import ChildPhases
from windlass.engine.processes.child.store import ChildStore
from windlass.engine.processes.exceptions import to_message
from windlass.engine.processes.forks import exit_child
from windlass.engine.processes.wire import Frames, Message, pack, to_lease
from windlass.engine.running_attempt import Processor, RunningAttempt, Stop
from windlass.engine.running_job_store import RunningJobStore
from windlass.errors import PayloadError
from windlass.forking import Process
from windlass.handlers.attempt_context import AttemptContext
from windlass.handlers.chunk_defaults import CHUNK_DEFAULTS, ChunkDefaults
from windlass.handlers.context import Context
from windlass.handlers.middleware import CurrentAttempt, Middleware, around, around_async
from windlass.handlers.registry import Phase
from windlass.job_logs.lines import MAX_LINE, LogLine
from windlass.model import Flag, Lease, Verdict, has_flag
from windlass.observe import application_logs, logs
from windlass.observe.current_job import current_job
from windlass.principals.authority import Authority, gated

PRELOAD = "WINDLASS_CHILD_PRELOAD"
"""Modules to import before any handler's, for frameworks that have to be set up first."""
TOUCH_EVERY = 0.2
LONGEST_EXIT = 10.0


class CurrentJob:
    """The job that this process runs, as both threads see it."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.number: int = message["job"]
        self.is_over = False
        self.is_stop_asked = False
        self.stop_reason: Stop | None = None
        self._lock = threading.Lock()
        self._stop: list[Callable[[], object]] = []

    def on_stop(self, function: Callable[[], object]) -> None:
        """Call ``function`` when the job is asked to stop, or now if it was."""
        with self._lock:
            self._stop.append(function)
            asked = self.is_stop_asked
        if asked:
            function()

    def ask_to_stop(self, reason: Stop | None) -> None:
        with self._lock:
            self.is_stop_asked, self.stop_reason = True, reason
            stop = list(self._stop)
        for function in stop:
            with suppress(RuntimeError):  # a loop that was closed meanwhile
                function()


class ChildContext(AttemptContext):
    """A context that notifies the instance at the moment when the job's end is committed."""

    def __init__(
        self,
        lease: Lease,
        phase: Phase,
        store: RunningJobStore,
        runtime: ChildRuntime,
        number: int,
        authority: Authority,
    ) -> None:
        super().__init__(
            lease,
            phase,
            store,
            authority=authority,
            chunk_defaults=runtime.chunk_defaults,
            touch=lambda: runtime.touch(number),
            on_duplicate=lambda name: runtime.send({"do": "duplicate", "job": number, "name": name}),
        )
        self._send_recorded = partial(runtime.send, {"do": "recorded", "job": number})
        self._send_awaits_commit = partial(runtime.send, {"do": "awaits commit", "job": number})
        self._runtime, self._number = runtime, number

    def _on_end(self, result: Any, verdict: Verdict) -> None:
        super()._on_end(result, verdict)
        self._send_recorded()

    def _on_end_in(self, result: Any) -> None:
        super()._on_end_in(result)
        self._send_awaits_commit()

    def _on_token(self, token: str) -> None:
        """Send the token to the instance, which removes it from the last output of this process if it dies."""
        self._runtime.send({"do": "token", "job": self._number, "value": token})


class ChildRuntime:
    """Receives jobs, runs them and reports their ends."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._pid = Process.pid
        self._sending = threading.Lock()
        self._work: SimpleQueue[CurrentJob | Message | None] = SimpleQueue()
        self._job: CurrentJob | None = None
        self._touched = 0.0
        self._store = ChildStore({}, 30.0)
        self.chunk_defaults = CHUNK_DEFAULTS
        self._phases = ChildPhases(None, {}, None)
        self._runner = asyncio.Runner()
        LogCapture(self._logged).start()

    def serve(self) -> None:
        """Run jobs until the instance closes the socket."""
        threading.Thread(target=self._listen, name="windlass-line", daemon=True).start()
        is_fit = True
        while is_fit and (item := self._work.get()) is not None:
            if isinstance(item, CurrentJob):
                is_fit = self._run(item)
            else:
                self._set_up(item)
        self._runner.close()
        self._store.close()

    def send(self, message: Message) -> None:
        with self._sending:
            self._line.sendall(pack(message))

    def touch(self, number: int) -> None:
        """Report progress of a job, at most every 0.2 s."""
        now = time.monotonic()
        if now - self._touched >= TOUCH_EVERY:
            self._touched = now
            self.send({"do": "touch", "job": number})

    def _logged(self, lease: Lease, line: LogLine) -> None:
        """Send a line of the running job to the instance, which keeps it with the job."""
        job = self._job
        if job is not None and not job.is_over and Process.pid == self._pid:
            short = line._replace(message=line.message[:MAX_LINE])
            self.send({"do": "log", "job": job.number, "line": short.to_json()})

    # ------------------------------------------------------------------ messages

    def _listen(self) -> None:
        frames = Frames()
        try:
            while data := self._line.recv(65536):
                for message in frames.feed(data):
                    self._receive(message)
        except Exception:  # noqa: BLE001  such as MemoryError: a process that does not receive messages is useless
            traceback.print_exc()
            os._exit(1)
        if self._job is not None and not self._job.is_over:
            os._exit(1)  # the instance is gone, and the lease with it: this job can record nothing
        self._work.put(None)
        time.sleep(LONGEST_EXIT)  # for exit handlers of user code; this thread ends with the process
        os._exit(1)

    def _receive(self, message: Message) -> None:
        match message["do"]:
            case "run":
                self._job = CurrentJob(message)
                self._work.put(self._job)
            case "stop":
                if self._job is not None and self._job.number == message["job"]:
                    self._job.ask_to_stop(Stop(message["reason"]) if message["reason"] else None)
            case _:
                self._work.put(message)

    # ------------------------------------------------------------------ running

    def _set_up(self, message: Message) -> None:
        sys.argv = list(message["argv"])
        self._store = ChildStore(message["store"], message["lease"])
        self.chunk_defaults = ChunkDefaults(*message["chunk_defaults"])
        if message["logs"] is not None:
            logs.adopt(message["logs"], lambda: self._job.message["instance"] if self._job else None)
        level = None if message["logs"] is not None else message["log_level"]
        self._phases = ChildPhases(message["main"], self._store.options, level)
        for name in os.environ.get(PRELOAD, "").split():
            importlib.import_module(name)
        application_logs.enable_loggers()
        if message["memory_limit"] is not None:
            limit_memory(message["memory_limit"])
        self.send({"do": "ready", "max_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss})

    def _run(self, job: CurrentJob) -> bool:
        """Run a job and report its end; returns whether this process can run another one."""
        self.send({"do": "begun", "job": job.number})
        context, end = contextvars.copy_context().run(self._attempt, job)
        if context is not None:
            end = context.hidden(end)
        is_fit = end.get("type") != "MemoryError"
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        job.is_over = True
        self.send({"do": "ended", "job": job.number, "fit": is_fit, **end})
        return is_fit

    def _attempt(self, job: CurrentJob) -> tuple[ChildContext | None, Message]:
        """Run a job; returns its context, if it got that far, and the message of its end."""
        if job.is_stop_asked:
            return None, {"how": "stopped"}
        lease = to_lease(job.message["lease"])
        began = time.monotonic()
        context: ChildContext | None = None
        try:
            phase, authority, middleware = self._phases.find(job.message["phase"])
        except BaseException as error:  # noqa: BLE001  a module may raise anything while it is loaded
            return None, {**to_message(error, asked=False), "unloadable": True}
        try:
            number, waited = job.message["processor"], job.message["waited_ms"]
            processor, claimed = Processor(lease.phase, number), began - waited / 1000
            running = RunningAttempt(lease, phase, processor, claimed, began, False)
            store = RunningJobStore(self._store, running)
            context = ChildContext(lease, phase, store, self, job.number, authority)
            running.context = context
            job.on_stop(context.ask_to_stop)
            current_job.set(running)
            call = partial(self._call, phase, context, authority)
            if middleware:
                job.on_stop(lambda: setattr(running, "stop", job.stop_reason))
                judge = ChildJudge(self, running, phase, context, store)
                attempt = CurrentAttempt(lease, lambda: context)
                return context, self._surrounded(middleware, attempt, judge, phase, call, job)
            value = self._awaited(call(), job)
        except BaseException as error:  # noqa: BLE001  also SystemExit and KeyboardInterrupt of a handler
            return context, self.raised(context, error)
        return context, self.returned(context, phase, value)

    def _call(self, phase: Phase, context: ChildContext, authority: Authority) -> Any:
        """Call the handler; returns what it returned, which may be a coroutine."""
        lease = context.lease
        try:
            arguments = phase.signature.decode_args(lease.args_json)
        except PayloadError as error:
            raise BadArguments(str(error)) from error
        for name, annotation in phase.signature.injected.items():
            if annotation is Context:
                arguments[name] = context
        handler = phase.handler
        if has_flag(lease.flags, Flag.PRINCIPAL):
            handler = gated(handler, phase, context, authority)
        return handler(**arguments)

    def _surrounded(
        self,
        middleware: Sequence[Middleware],
        attempt: CurrentAttempt,
        judge: ChildJudge,
        phase: Phase,
        call: Callable[[], Any],
        job: CurrentJob,
    ) -> Message:
        """Call the handler inside the middleware; returns the message of its end."""
        end: Message
        if is_async(phase.handler):

            async def call_async() -> Any:  # the arguments are decoded inside the middleware
                return await call()

            end = self._await(around_async(middleware, attempt, judge, call_async), job)
        else:
            end = around(middleware, attempt, judge, lambda: self._awaited(call(), job))
        return end

    def returned(self, context: AttemptContext, phase: Phase, value: Any) -> Message:
        """The message of a handler that returned."""
        if Process.pid != self._pid:
            exit_child()
        if context.is_recorded:
            return {"how": "recorded", "dropped": context.is_dropped(value)}
        try:
            text = phase.signature.encode_result(value)
            context.refuse_tokens("result", text)
        except PayloadError as error:
            return {"how": "refused", "code": "bad_result", "message": str(error)}
        return {
            "how": "returned",
            "text": text,
            "is_none": value is None,
            "dropped": context.is_dropped(value),
        }

    def raised(self, context: AttemptContext | None, error: BaseException) -> Message:
        """The message of a handler that raised, or was not called."""
        if Process.pid != self._pid:
            exit_child(error)
        if isinstance(error, BadArguments):
            return {"how": "refused", "code": "bad_arguments", "message": str(error)}
        if context is not None and context.is_recorded:
            return {"how": "recorded", "after": to_message(error, asked=context.should_stop)}
        return to_message(error, asked=context is not None and context.should_stop)

    def _awaited(self, value: Any, job: CurrentJob) -> Any:
        return self._await(value, job) if inspect.isawaitable(value) else value

    def _await(self, value: Awaitable[Any], job: CurrentJob) -> Any:
        loop = self._runner.get_loop()

        async def wait() -> Any:
            if (task := asyncio.current_task()) is not None:
                job.on_stop(lambda: loop.call_soon_threadsafe(task.cancel))
            return await value

        return loop.run_until_complete(wait())
