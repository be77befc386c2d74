"""Chooses the executor of each job: coroutines on the loop, functions in threads, heavy or suspect ones in processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from windlass.arguments.asyncness import is_async
from windlass.arguments.json_checks import explain
from windlass.engine.attempt import AttemptRunner
from windlass.engine.executors.contract import Executor, OnEnded
from windlass.engine.executors.fault import Fault
from windlass.engine.executors.loop import LoopExecutor
from windlass.engine.executors.stacks import stack_of_task, stack_of_thread
from windlass.engine.executors.threads import ThreadExecutor
from windlass.engine.processes.executor import ProcessExecutor
from windlass.engine.running_attempt import RunningAttempt
from windlass.features import Store
from windlass.handlers.phase_options import Where
from windlass.handlers.registry import Phase
from windlass.job_logs.lines import LogLine
from windlass.model import Lease
from windlass.observe.logger import get_logger
from windlass.settings import Settings

log = get_logger("windlass.engine")


class Executors:
    """The executors of one instance. Threads and processes are started when a job needs them, the event loop at once if any phase is async."""

    def __init__(
        self,
        runner: AttemptRunner,
        phases: Mapping[str, Phase],
        settings: Settings,
        store: Store,
        on_ended: OnEnded,
        on_recorded: Callable[[Lease], None],
        *,
        on_crash: Callable[[], None],
        on_log: Callable[[Lease, LogLine], None],
        on_unstarted: Callable[[Sequence[RunningAttempt], bool], None],
    ) -> None:
        self._threads = ThreadExecutor(runner, on_ended, Fault("threads", on_unstarted))
        self._processes = ProcessExecutor(
            runner,
            on_ended,
            on_recorded=on_recorded,
            on_crash=on_crash,
            on_log=on_log,
            open_store=store.options,
            lease=settings.lease,
            crash_cap=settings.crash_cap,
            cancel_grace=settings.cancel_grace,
            memory_limit=settings.memory_limit,
            fault=Fault("processes", on_unstarted),
        )
        self._new_loop = partial(LoopExecutor, runner, on_ended, Fault("loop", on_unstarted))
        self._has_coroutines = any(_is_coroutine(phase) for phase in phases.values())
        self.loop: LoopExecutor | None = None
        """Runs the coroutines; None where no phase is async, and before the start."""
        self._warned: set[str] = set()

    def start(self) -> None:
        """Start the event loop, if any phase is async."""
        self._processes.start()
        if self._has_coroutines:
            self.loop = self._new_loop()

    def dispatch(self, batch: Sequence[RunningAttempt]) -> None:
        """Start jobs, each on its executor; jobs that cannot be started are given back."""
        if self.loop is not None and all(_is_plain(running) for running in batch):
            self.loop.submit(batch)
            return
        groups: dict[int, tuple[Executor, list[RunningAttempt]]] = {}
        for running in batch:
            host = self._executor_of(running)
            groups.setdefault(id(host), (host, []))[1].append(running)
        for host, jobs in groups.values():
            try:
                host.submit(jobs)
            except Exception as error:  # noqa: BLE001  an executor that raises has started none of them
                host.fault.give_back(explain(error), jobs)

    def faults(self) -> list[tuple[str, str]]:
        """The executors that could not start a job when they last had one, and why."""
        hosts = (self._threads, self._processes, self.loop)
        faults = [host.fault for host in hosts if host is not None]
        return [(fault.executor, reason) for fault in faults if (reason := fault.reason)]

    @property
    def busy_threads(self) -> int:
        """How many threads run a plain handler now."""
        return self._threads.busy

    def in_thread(self, function: Callable[[], None]) -> None:
        """Run a function that is not a job on a thread."""
        self._threads.run(function)

    def catch_up(self) -> None:
        """Start threads that could not be started when they were needed."""
        self._threads.catch_up()

    def stop_job(self, running: RunningAttempt) -> None:
        """Make a job stop that was asked to."""
        self._executor_of(running).stop_job(running)

    def stack(self, running: RunningAttempt) -> str:
        """The stack of the handler of a running job; ``LookupError`` with the reason if there is none here."""
        host = self._executor_of(running)
        if host is self._processes:
            raise LookupError("its handler runs in a process of its own, whose stack py-spy shows")
        text = stack_of_thread(running) if host is self._threads else stack_of_task(running)
        if text is None:
            raise LookupError("its handler has not begun, or has just ended")
        return text

    def close_processes(self) -> None:
        """End child processes now; jobs that still run there are given back."""
        self._processes.close(wait=0.0)

    def close(self) -> None:
        for host in (self._threads, self._processes, self.loop):
            if host is not None:
                host.close(wait=0.5)

    def _executor_of(self, running: RunningAttempt) -> Executor:
        phase = running.phase
        if phase is None:
            return self._threads
        if running.is_isolated or phase.where is Where.PROCESS:
            if self._processes.can_host(phase):
                return self._processes
            if phase.name not in self._warned:
                self._warned.add(phase.name)
                log.warning(
                    "the handler of phase %s cannot be imported by another process, so a job that may have killed its instance "
                    "runs beside other jobs; define the handler at the top level of a module",
                    phase.name,
                )
        return self.loop if self.loop is not None and _is_coroutine(phase) else self._threads


def _is_coroutine(phase: Phase) -> bool:
    return phase.where is Where.LOOP or is_async(phase.handler)


def _is_plain(running: RunningAttempt) -> bool:
    return running.phase is not None and running.phase.where is Where.LOOP and not running.is_isolated
