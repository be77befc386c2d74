"""Runs handlers in child processes: heavy ones, and *suspects*, which may have killed their instances.

    any thread:   submit, stop_job ──> inbox ──wake──> supervisor thread ──> on_ended(batch)
    supervisor:   sockets, output pipes and exits of all children (children.py), deadlines

A child runs one job at a time and is used again for the next. It can be killed, so a job that exceeds its time limit, or does not stop
when asked to, ends at once. The death of a child ends only its own job, whose error says how the child died.
The supervisor thread starts all children: the kernel kills them when that thread ends, however this process ends.
"""

from __future__ import annotations

import itertools
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from windlass.arguments.importable import Address, locate, main_script, refuse_in_main_script
from windlass.arguments.json_checks import explain
from windlass.engine.attempt import AttemptRunner
from windlass.engine.executors.contract import Ended, OnEnded
from windlass.engine.executors.fault import Fault
from windlass.engine.processes.assignment import ChildAssignment
from windlass.engine.processes.child_process import Child, Exit
from windlass.engine.processes.children import EXIT_CHECK_EVERY, EXIT_WAIT, ChildProcesses
from windlass.engine.processes.outcomes import ChildOutcomes
from windlass.engine.processes.wire import Message
from windlass.engine.running_attempt import OVERDUE, RunningAttempt, Stop
from windlass.errors import ConfigError
from windlass.handlers.registry import Phase
from windlass.job_logs.lines import LogLine
from windlass.model import Lease, Outcome, Released
from windlass.observe import logs
from windlass.observe.logger import get_logger, thread
from windlass.store.jobs.recovery import CRASH_CAP

log = get_logger("windlass.engine")

IDLE_KEPT = 2
IDLE_SECONDS = 60.0
TRIES = 2  # children that may end before their job begins
REAPING = 0.5  # seconds for killed children to be gone at the close
STARTING = 10.0  # seconds that do not count against a job's time limit while its child starts


class ProcessExecutor:
    """Runs functions and coroutines in child processes.

    ``open_store`` has the options with which children open the database: JSON values, with ``url``. ``lease`` is the seconds of a lease of
    this instance, ``cancel_grace`` the seconds for a job to stop when asked. ``memory_limit`` bounds the bytes that a child may use beyond
    those at its start. ``on_recorded`` is called at once with leases whose jobs ended in a transaction of their handlers, ``on_crash`` for
    each child that died while its job ran.
    """

    def __init__(
        self,
        runner: AttemptRunner,
        on_ended: OnEnded,
        *,
        on_recorded: Callable[[Lease], None] = lambda lease: None,
        on_crash: Callable[[], None] = lambda: None,
        on_log: Callable[[Lease, LogLine], None] = lambda lease, line: None,
        open_store: Mapping[str, Any] | None = None,
        lease: float = 30.0,
        crash_cap: int = CRASH_CAP,
        cancel_grace: float = 5.0,
        memory_limit: int | None = None,
        idle_kept: int = IDLE_KEPT,
        idle_seconds: float = IDLE_SECONDS,
        fault: Fault | None = None,
    ) -> None:
        self.fault = fault or Fault("processes")
        self._runner = runner
        self._on_ended = on_ended
        self._on_recorded = on_recorded
        self._on_crash = on_crash
        self._on_log = on_log
        self._outcomes = ChildOutcomes(runner, crash_cap=crash_cap, memory_limit=memory_limit)
        self._cancel_grace = cancel_grace
        self._init: dict[str, Any] = {
            "store": dict(open_store or {}),
            "lease": lease,
            "memory_limit": memory_limit,
            "chunk_defaults": runner.chunk_defaults.facts,
        }
        self._idle = {"idle_kept": idle_kept, "idle_seconds": idle_seconds}
        self._addresses: dict[str, tuple[Phase, Address | None]] = {}
        self._lock = threading.Lock()
        self._inbox: list[tuple[str, RunningAttempt]] = []
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None
        self._children: ChildProcesses | None = None
        self._closing_at: float | None = None
        self._numbers = itertools.count(1)
        self._ended: list[Ended] = []

    # ------------------------------------------------------------------ from any thread

    def start(self) -> None:
        """Check that children can be started: not in a child that loads the main script, and with options that are JSON."""
        refuse_in_main_script()
        self._init["store"] = _as_json(self._init["store"])

    def can_host(self, phase: Phase) -> bool:
        """Whether another process can import this phase's handler."""
        return self._address(phase) is not None

    def submit(self, batch: Sequence[RunningAttempt]) -> None:
        """Run these jobs, each at once. After ``close`` they are left to recovery."""
        self._put([("run", running) for running in batch])

    def stop_job(self, running: RunningAttempt) -> None:
        """Stop a job: at once if it exceeded its time limit, otherwise by a message, and by force after the grace time."""
        self._put([("stop", running)])

    def close(self, *, wait: float = 0.0) -> None:
        """Accept no more jobs, give running ones ``wait`` seconds, then kill the children that are left. The wait for children that the
        kernel cannot kill is bounded, and not repeated by further calls."""
        with self._lock:
            thread = self._thread
            until = time.monotonic() + wait
            self._closing_at = until if self._closing_at is None else min(self._closing_at, until)
            over_at = self._closing_at + EXIT_WAIT + REAPING
            self._nudge()
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, over_at - time.monotonic()))

    @property
    def pids(self) -> list[int]:
        """The ids of the current child processes."""
        return self._children.pids if self._children else []

    def _put(self, items: Sequence[tuple[str, RunningAttempt]]) -> None:
        with self._lock:
            if self._closing_at is not None and self._wake is None:
                return  # closed
            if self._thread is None:
                self._start_supervisor()
            self._inbox.extend(items)
            if len(self._inbox) == len(items) and self._thread is not threading.current_thread():
                self._nudge()  # otherwise it is woken already, or is this thread

    def _start_supervisor(self) -> None:
        """Start the supervisor. Raises if that fails, and leaves nothing open."""
        ours, theirs = socket.socketpair()
        with ExitStack() as undo:
            undo.callback(ours.close)
            undo.callback(theirs.close)
            ours.setblocking(False)
            theirs.setblocking(False)
            children = ChildProcesses(self._first_message, ours, **self._idle)  # type: ignore[arg-type]
            undo.callback(children.close)
            supervisor = thread(self._supervise, "windlass-processes", children)
            supervisor.start()
            undo.pop_all()
        self._children, self._wake, self._thread = children, theirs, supervisor

    def _nudge(self) -> None:
        if self._wake is not None:
            with suppress(BlockingIOError):  # full of wake-ups that were not read yet
                self._wake.send(b"!")

    def _address(self, phase: Phase) -> Address | None:
        known = self._addresses.get(phase.name)
        if known is None or known[0] is not phase:
            known = self._addresses[phase.name] = phase, locate(phase.handler)
        return known[1]

    # ------------------------------------------------------------------ the supervisor

    def _supervise(self, children: ChildProcesses) -> None:
        while not self._is_over(children):
            try:
                for child, event in children.wait(0.0 if self._inbox else self._timeout()):
                    self._handle(children, child, event)
                with self._lock:
                    inbox, self._inbox = self._inbox, []
                for what, running in inbox:
                    if what == "run":
                        self._begin(children, running)
                    else:
                        self._stop(children, running)
                children.enforce(self._closing_at)
            except Exception:
                log.exception("unexpected error in the supervisor of child processes; it continues")
                time.sleep(0.1)  # the error may be permanent
            self._flush()
        children.close()

    def _is_over(self, children: ChildProcesses) -> bool:
        """Whether all work is done after ``close``; from then on no job is accepted."""
        with self._lock:
            if self._closing_at is None or len(children) or self._inbox or self._wake is None:
                return False
            self._wake.close()
            self._wake = None
            return True

    def _timeout(self) -> float | None:
        return (
            None if self._closing_at is None else max(EXIT_CHECK_EVERY, self._closing_at - time.monotonic())
        )

    def _handle(self, children: ChildProcesses, child: Child, event: Message | Exit) -> None:
        if isinstance(event, Exit):
            if child.work is not None:
                self._lost(children, child, child.work, event)
            return
        try:
            self._receive(children, child, event)
        except Exception as error:
            log.exception("a child process sent a wrong message")
            children.distrust(child, f"sent a wrong message ({error!r})")

    def _receive(self, children: ChildProcesses, child: Child, message: Message) -> None:
        work: ChildAssignment | None = child.work
        if message["do"] == "ready":
            child.ready(message["max_rss"])
        if work is None or message.get("job") != work.number:
            return
        match message["do"]:
            case "begun":
                work.is_begun = work.running.begun = True
                self.fault.reason = None
                work.running.processor.touch(time.monotonic())
            case "touch":
                work.running.processor.touch(time.monotonic())
            case "log":
                self._on_log(work.running.lease, LogLine.from_json(message["line"]))
            case "recorded":
                self._recorded(work)
            case "duplicate":
                self._runner.duplicate(work.running.lease, str(message["name"]))
            case "awaits commit":
                work.note_awaits_commit()
            case "token":
                work.note_token(message["value"])
            case "ended":
                self._end(work, self._outcome(work, message))
                children.finish_work(child, is_fit=message["fit"])

    def _outcome(self, work: ChildAssignment, message: Message) -> Outcome | None:
        if work.is_recorded:
            self._outcomes.after_end(work.running, message)
            return None
        running, phase = work.running, work.phase
        if message.get("unloadable") and running.is_isolated:
            self._addresses[phase.name] = phase, None  # from here on its suspects run beside other jobs
            log.warning(
                "the handler of phase %s cannot be loaded by another process (%s); job %s is given back, to run beside other jobs",
                phase.name,
                message.get("message"),
                running.lease.id,
            )
            return Released(running.lease)
        return self._outcomes.reported(running, message)

    # ------------------------------------------------------------------ jobs

    def _begin(self, children: ChildProcesses, running: RunningAttempt) -> None:
        phase = running.phase
        if self._closing_at is not None:
            self._ended.append(Ended(running, Released(running.lease)))
            return
        if running.stop is not None or phase is None or phase.kind != running.lease.kind:
            outcome: Any = self._runner.prepare(running)  # none of these jobs is called
            self._ended.append(Ended(running, outcome))
            return
        address = self._address(phase)
        if address is None:
            self._ended.append(Ended(running, self._outcomes.unhostable(running)))
            return
        work = ChildAssignment(running, phase, address, next(self._numbers))
        running.handle = work
        self._assign(children, work)

    def _assign(self, children: ChildProcesses, work: ChildAssignment) -> None:
        running = work.running
        running.processor.touch(time.monotonic() + STARTING)  # the start of a process takes time
        try:
            child = children.take(work)
        except Exception as error:  # noqa: BLE001  a process that cannot be started is not this job's fault
            self._unstarted(work, explain(error), "")
            return
        work.tries += 1
        work.child = child
        if child.is_ready:
            running.processor.touch(time.monotonic())
        children.send(child, work.message())

    def _stop(self, children: ChildProcesses, running: RunningAttempt) -> None:
        work = running.handle
        if not isinstance(work, ChildAssignment) or work.child is None:
            return  # the job has ended
        if running.stop in OVERDUE:
            children.kill(work.child)
        elif work.child.kill_at is None:
            work.child.kill_at = time.monotonic() + self._cancel_grace
            children.send(work.child, {"do": "stop", "job": work.number, "reason": running.stop})

    def _lost(self, children: ChildProcesses, child: Child, work: ChildAssignment, how: Exit) -> None:
        """Handle the exit of a child: its job has ended, too, unless it had not begun."""
        running, what = work.running, child.fault or str(how)
        if work.is_recorded:
            self._end(work, None)
        elif child.was_killed or running.stop in (Stop.CANCELLED, *OVERDUE):
            self._end(work, self._outcomes.stopped(running))
        elif work.is_begun:
            self._on_crash()
            self._end(work, self._outcomes.died(running, how, what, child.last_output))
        elif work.tries < TRIES and self._closing_at is None:
            log.warning("a child process %s before job %s began; trying another", what, running.lease.id)
            self._assign(children, work)
        else:
            self._unstarted(work, f"it {what}", child.last_output)

    def _unstarted(self, work: ChildAssignment, why: str, last_output: str) -> None:
        """Give a job back to run later; its history has the reason."""
        self.fault.note(f"no process could be started: {why}", [work.running])
        self._end(work, self._outcomes.unstarted(work.running, why, last_output))

    def _end(self, work: ChildAssignment, outcome: Outcome | None) -> None:
        work.child = None
        self._ended.append(Ended(work.running, outcome))

    def _recorded(self, work: ChildAssignment) -> None:
        work.note_recorded()
        try:
            self._on_recorded(work.running.lease)
        except Exception:
            log.exception("the end of job %s could not be reported", work.running.lease.id)

    def _flush(self) -> None:
        if self._ended:
            ended, self._ended = self._ended, []
            try:
                self._on_ended(ended)
            except Exception:
                log.exception("the ends of %d jobs could not be reported", len(ended))

    def _first_message(self) -> Message:
        root = logging.getLogger()
        level = root.level if root.handlers else None
        return {
            **self._init,
            "do": "init",
            "argv": sys.argv,
            "main": main_script(),
            "log_level": level,
            "logs": logs.options_for_child(),
        }


def _as_json(options: Any) -> Any:
    try:
        return json.loads(json.dumps(dict(options)))
    except (TypeError, ValueError) as error:
        raise ConfigError("open_store", sorted(options), f"values that JSON can hold ({error})") from error
