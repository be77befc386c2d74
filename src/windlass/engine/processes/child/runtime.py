"""Runs jobs inside a child process: receives messages on one thread, calls handlers on the main one.

Sync handlers run directly on the main thread, async ones on one event loop that is kept from job to job.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import logging
import os
import resource
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from windlass.arguments.importable import AUTHORITY, PHASE, WRAP, Address, find
from windlass.engine.processes.child.store import ChildStore
from windlass.engine.processes.exceptions import to_message
from windlass.engine.processes.forks import exit_child
from windlass.engine.processes.wire import Frames, Message, pack, to_lease
from windlass.engine.running_attempt import Processor, RunningAttempt
from windlass.engine.running_job_store import RunningJobStore
from windlass.errors import PayloadError
from windlass.forking import Process
from windlass.handlers.context import Context
from windlass.handlers.registry import Kind, Phase, Registry
from windlass.model import Flag, Lease, has_flag
from windlass.model.retry import fixed
from windlass.observe import logs
from windlass.observe.current_job import current_job
from windlass.observe.logger import get_logger
from windlass.principals.authority import Authority, gated

PRELOAD = "WINDLASS_CHILD_PRELOAD"
"""Modules to import before any handler's, for frameworks that have to be set up first."""
TOUCH_EVERY = 0.2
LONGEST_EXIT = 10.0
_M_ARENA_MAX = -8


class CurrentJob:
    """The job that this process runs, as both threads see it."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.number: int = message["job"]
        self.is_over = False
        self.is_stop_asked = False
        self._lock = threading.Lock()
        self._stop: list[Callable[[], object]] = []

    def on_stop(self, function: Callable[[], object]) -> None:
        """Call ``function`` when the job is asked to stop, or now if it was."""
        with self._lock:
            self._stop.append(function)
            asked = self.is_stop_asked
        if asked:
            function()

    def ask_to_stop(self) -> None:
        with self._lock:
            self.is_stop_asked = True
            stop = list(self._stop)
        for function in stop:
            with suppress(RuntimeError):  # a loop that was closed meanwhile
                function()


class ChildContext(Context):
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
            touch=lambda: runtime.touch(number),
            on_duplicate=lambda name: runtime.send({"do": "duplicate", "job": number, "name": name}),
        )
        self._send_recorded = partial(runtime.send, {"do": "recorded", "job": number})
        self._send_awaits_commit = partial(runtime.send, {"do": "awaits commit", "job": number})
        self._runtime, self._number = runtime, number

    def _on_end(self, result: Any) -> None:
        super()._on_end(result)
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
        self._main: Mapping[str, Any] | None = None
        self._phases: dict[str, tuple[Phase, Authority]] = {}
        self._runner = asyncio.Runner()

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
                    self._job.ask_to_stop()
            case _:
                self._work.put(message)

    # ------------------------------------------------------------------ running

    def _set_up(self, message: Message) -> None:
        sys.argv = list(message["argv"])
        self._main = message["main"]
        self._store = ChildStore(message["store"], message["lease"])
        if message["logs"] is not None:
            logs.adopt(message["logs"], lambda: self._job.message["instance"] if self._job else None)
        elif message["log_level"] is not None:
            logging.basicConfig(
                level=message["log_level"], format="%(asctime)s %(levelname)s %(name)s %(message)s"
            )
        for name in os.environ.get(PRELOAD, "").split():
            importlib.import_module(name)
        if message["memory_limit"] is not None:
            _limit_memory(message["memory_limit"])
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
            phase, authority = self._phase(job.message["phase"])
        except BaseException as error:  # noqa: BLE001  a module may raise anything while it is loaded
            return None, {**to_message(error, asked=False), "unloadable": True}
        try:
            number, waited = job.message["processor"], job.message["waited_ms"]
            processor, claimed = Processor(lease.phase, number), began - waited / 1000
            running = RunningAttempt(lease, phase, processor, claimed, began, False)
            store = RunningJobStore(self._store, running)
            context = ChildContext(lease, phase, store, self, job.number, authority)
            job.on_stop(context.ask_to_stop)
            current_job.set(running)
            try:
                arguments = phase.signature.decode_args(lease.args_json)
            except PayloadError as error:
                return context, {"how": "refused", "code": "bad_arguments", "message": str(error)}
            for name, annotation in phase.signature.injected.items():
                if annotation is Context:
                    arguments[name] = context
            handler = phase.handler
            if has_flag(lease.flags, Flag.PRINCIPAL):
                handler = gated(handler, phase, context, authority)
            value = handler(**arguments)
            if inspect.isawaitable(value):
                value = self._await(value, job)
            if Process.pid != self._pid:
                exit_child()
        except BaseException as error:  # noqa: BLE001  also SystemExit and KeyboardInterrupt of a handler
            if Process.pid != self._pid:
                exit_child(error)
            if context is not None and context.is_recorded:
                return context, {"how": "recorded", "after": to_message(error, asked=context.should_stop)}
            return context, to_message(error, asked=context is not None and context.should_stop)
        if context.is_recorded:
            return context, {"how": "recorded", "dropped": context.is_dropped(value)}
        try:
            text = phase.signature.encode_result(value)
            context.refuse_tokens("result", text)
        except PayloadError as error:
            return context, {"how": "refused", "code": "bad_result", "message": str(error)}
        return context, {
            "how": "returned",
            "text": text,
            "is_none": value is None,
            "dropped": context.is_dropped(value),
        }

    def _await(self, value: Awaitable[Any], job: CurrentJob) -> Any:
        loop = self._runner.get_loop()

        async def wait() -> Any:
            if (task := asyncio.current_task()) is not None:
                job.on_stop(lambda: loop.call_soon_threadsafe(task.cancel))
            return await value

        return loop.run_until_complete(wait())

    def _phase(self, facts: Message) -> tuple[Phase, Authority]:
        """The phase of a job, as the instance has it: this process may have loaded only a part of a pipeline."""
        known = self._phases.get(facts["name"])
        if known is None:
            found = find(Address(facts["module"], facts["qualname"]), self._main)
            made = getattr(found, PHASE, None)
            if not isinstance(made, Phase):
                made = Registry().define(
                    facts["kind"], found, injected=lambda annotation: annotation is Context
                )
            wrap, handler = getattr(found, WRAP, None), made.handler
            if wrap is not None and made.supplied:
                handler = wrap(handler, made.supplied)
            owner = Kind(facts["kind"])
            phase = Phase(
                name=facts["name"],
                label=facts["label"],
                kind=facts["kind"],
                handler=handler,
                signature=made.signature,
                retry=made.retry,
                where=made.where,
                principal_expiry=made.principal_expiry,
                _owner=owner,
            )
            owner.phases.append(phase)
            if facts["following"] is not None:
                name, attempts = facts["following"]
                owner.phases.append(
                    Phase(
                        name=name,
                        label=name,
                        kind=facts["kind"],
                        handler=made.handler,
                        signature=made.signature,
                        retry=fixed(attempts),
                        where=made.where,
                        _owner=owner,
                    )
                )
            known = self._phases[facts["name"]] = phase, getattr(found, AUTHORITY, None) or Authority()
        return known


def _limit_memory(limit: int) -> None:
    """Let this process use ``limit`` bytes of address space beyond its current size; then Python raises ``MemoryError``.

    By default the C library reserves 64 MB for each thread, too much for a small limit; so it gets one arena.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        limit += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ValueError, OSError) as error:
        get_logger("windlass.engine").warning("this system does not limit the memory of a process: %s", error)
