"""One instance: owns the parts, starts them in order, and stops them without losing a job.

Threads: watchdog, heartbeat, listener, step (records and claims), ticker, upkeep, started in this order; and the threads of the executors.
Stop: claim nothing more, give back jobs that wait in memory, let running jobs finish for the grace time, stop and give back the rest.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from windlass.audit.deploys import note_version
from windlass.engine.announcer import Announcer
from windlass.engine.around import refuse_late, runner_for
from windlass.engine.attempt import Wrapper
from windlass.engine.discovery import Discovery
from windlass.engine.duties import Duties
from windlass.engine.engine_state import EngineState
from windlass.engine.executors.choice import Executors
from windlass.engine.executors.contract import Ended
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.instance import Instance
from windlass.engine.job_locks import JobLocks
from windlass.engine.job_log_writer import JobLogWriter
from windlass.engine.listener import Listening
from windlass.engine.places import Places
from windlass.engine.recorder import Recorder
from windlass.engine.reporter import Reporter
from windlass.engine.requests import InstanceRequests
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.engine.running_job_store import RunningJobStore
from windlass.engine.served import resolved, served
from windlass.engine.starts import REFUSED_PAUSE
from windlass.engine.stats import Stats
from windlass.engine.step import Stepper
from windlass.engine.stopper import Stopper
from windlass.engine.watchdog import Watchdog
from windlass.engine.workload import Workload
from windlass.errors import ConfigError, WindlassError
from windlass.features import Store
from windlass.forking import Process
from windlass.handlers.definitions import sync
from windlass.handlers.registry import Registry
from windlass.observe import events
from windlass.observe.current_job import current_job
from windlass.observe.emit import emit
from windlass.observe.logger import thread, use
from windlass.principals.authority import Authority
from windlass.ranges import is_number
from windlass.settings import Settings
from windlass.upkeep.troubles import Troubles

# Seconds that a stop waits at most:
STOP_WAIT = 2.0  # for jobs that were asked to stop, after the grace time
LAST_WRITES_WAIT = 2.0  # for the last outcomes to be written, and then for the instance to leave
DRAIN_CHECK = 0.05  # between two checks whether a drained instance still runs jobs
END_WAIT = 4.0  # for everything after the grace time, even if a handler or the database hangs


class _Part(Protocol):
    """A part with its own thread."""

    def start(self) -> None: ...


class Engine(EngineState):
    """Runs the jobs of a registry from a store. It starts once and stops once; every start of a process makes a new instance."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings | None = None,
        *,
        wrap: Wrapper | None = None,
        authority: Authority | None = None,
        info: dict[str, Any] | None = None,
        stats: Stats | None = None,
        degraded: Callable[[], Iterable[str]] = tuple,
        places: Places | None = None,
        logger: logging.Logger | None = None,
        locks: JobLocks | None = None,
        operations: Callable[[str], float | None] | None = None,
    ) -> None:
        self._logger = logger
        self._operations = operations
        self._locks = locks
        self._places = places
        self.settings = settings = resolved(registry, settings or Settings())
        self._store = store
        self._registry = registry
        self._info = dict(info or {})
        self.phases = served(registry, settings)
        self.stats = stats or Stats()
        self._degraded = degraded
        self.state = "starting"
        self._started_at = datetime.now(UTC)
        self.on_ready: Callable[[], None] = lambda: None
        """Called when nothing can refuse the start any more, before the first claim."""
        self.on_drained: Callable[[], None] = lambda: None
        """Called when a drain that was asked for from elsewhere is over and the engine has stopped."""
        self._is_draining = False
        self._life_lock = threading.Lock()
        self._unsubscribe_places: Callable[[], None] = lambda: None
        self._hurry = threading.Event()
        self._stopped = threading.Event()
        self._wrap = wrap
        self._authority = authority
        self._make_parts()

    def _make_parts(self) -> None:
        settings, stats, phases, registry = self.settings, self.stats, self.phases, self._registry
        instance, troubles = Instance(self._store, settings.lease), Troubles()
        announcer = Announcer(instance)
        recorder = Recorder(stats, announcer)
        workload = Workload(phases, settings, places=self._places)
        discovery = Discovery(phases, settings)
        job_logs = JobLogWriter(self._store, workload, lambda after: duties.loop.ask("logs", after))
        store_of = partial(RunningJobStore, instance)
        runner = runner_for(
            registry, store_of, settings, wrap=self._wrap, authority=self._authority, stats=stats
        )
        with use(self._logger):  # also for their threads
            executors = Executors(
                runner,
                phases,
                settings,
                self._store,
                on_ended=self._ended,
                on_unstarted=self._unstarted,
                on_recorded=lambda lease: instance.holder.forget([lease]),
                on_crash=lambda: stats.count("crashes"),
                on_log=job_logs.add,
            )
            heartbeat = Heartbeat(
                instance,
                settings,
                stats,
                on_cancelled=lambda asked: stopper.cancel_all(asked),
                on_lost=lambda why: stopper.lease_lost(),
                on_good=lambda is_restored: stepper.hint() if is_restored else None,
            )
            stepper = Stepper(
                instance, settings, stats, troubles, workload, discovery, recorder, executors, heartbeat, self._locks,
            )  # fmt: skip
            stopper = Stopper(instance, workload, executors, runner, stepper, stats)
            watchdog = Watchdog(phases, settings, stats, workload, executors, heartbeat, stopper)
            requests = InstanceRequests(instance, workload, stepper, executors, self.drain)
            duties = Duties(
                instance, registry, phases, settings, stats, troubles,
                workload, recorder, executors, heartbeat, stepper, job_logs, self.report, self._operations, requests.run,
            )  # fmt: skip
            self._listening = Listening(instance, stats, stepper, stopper, duties, announcer)
        self._instance, self._runner, self._executors = instance, runner, executors
        self._announcer = announcer
        self._workload, self._discovery = workload, discovery
        self._recorder, self._troubles = recorder, troubles
        self._heartbeat, self._watchdog, self._stepper, self._stopper = heartbeat, watchdog, stepper, stopper
        self._duties, self._job_logs, self._requests = duties, job_logs, requests
        self._reporter = Reporter(
            self._store, settings, workload, heartbeat, stepper, self._listening, executors, watchdog, duties, troubles,
            self._locks, self._degraded, self._started_at,
        )  # fmt: skip

    # ------------------------------------------------------------------ start

    def start(self) -> None:
        """Become an instance and begin to serve. Raises if the database cannot be reached; nothing is left running then."""
        with self._life_lock:
            if self.state != "starting":
                raise WindlassError(
                    f"this engine is {self.state}, and an engine can be started only once; make another with app.worker()"
                )
            try:
                with use(self._logger), ExitStack() as undo:
                    self._start(undo)
                    undo.pop_all()
            except BaseException:
                self._make_parts()  # a thread can be started only once: another try needs new parts
                raise

    def _start(self, undo: ExitStack) -> None:
        """Start the parts; ``undo`` ends those that were started if a later one fails."""
        phases = sorted(self.phases)
        refuse_late(self._registry, self._runner)
        self._runner.pid = Process.pid  # an engine may be made before a fork and started after it
        self._instance.info = {"pid": os.getpid(), "host": platform.node(), "phases": phases, **self._info}
        self._heartbeat.join()
        undo.callback(self._instance.leave)
        undo.callback(self._executors.close)
        self._executors.start()
        self._duties.announce()
        self._define()
        undo.callback(self._announcer.stop)
        ends: list[tuple[_Part, Callable[[], object]]] = [
            (self._job_logs, self._job_logs.stop),
            (self._watchdog, self._watchdog.stop),
            (self._heartbeat, self._heartbeat.stop),
            (self._listening, self._listening.stop),
            (self._stepper, lambda: self._stepper.finish(time.monotonic() + LAST_WRITES_WAIT)),
            *((loop, partial(loop.stop, 1.0)) for loop in self._duties.loops),
        ]
        self.on_ready()
        for part, end in ends:
            part.start()
            undo.callback(end)
        if self._places is not None:
            self._unsubscribe_places = self._places.on_free(lambda: self._duties.ask("assign"))
            undo.callback(self._unsubscribe_places)
        self.state = "running"
        events.instance_started(self.id, phases, [item.name for item in self._registry.middleware])
        self._duties.pruner.announce()

    def _define(self) -> None:
        """Store the schedules, rules and limits of the code in the database."""
        synced = sync(self._store, self._registry)
        events.defined(synced.schedules, synced.rules)
        if (version := self._info.get("version")) is not None:
            others = [
                one for one in self._store.instances.list() if one.dead_at is None and one.id != self.id
            ]
            note_version(self._store.db, version, [str(one.info.get("version")) for one in others])
        self._store.limits.define(phase.flow for phase in self.phases.values() if phase.flow)

    # ------------------------------------------------------------------ what executors report

    def _ended(self, ended: Sequence[Ended]) -> None:
        """Record jobs that ended, and begin the next jobs on their processors."""
        recorder = self._recorder
        firsts, following = self._workload.end([item.running for item in ended])
        for item in ended:
            if (context := item.running.context) is not None and context.awaits_commit:
                recorder.expect_elsewhere(item.running.lease)
        outcomes = [
            item.outcome
            for item, first in zip(ended, firsts, strict=True)
            if first and item.outcome is not None
        ]
        if outcomes:
            recorder.put(outcomes)
        for item, first in zip(ended, firsts, strict=True):
            if first and item.outcome is None:
                recorder.recorded_elsewhere(item.running)
        if following:
            self._stepper.begin(following)
        self._stepper.wake()

    def _unstarted(self, jobs: Sequence[RunningAttempt], is_given_back: bool) -> None:
        """Handle jobs that an executor could not start. Their phases are not claimed from for a moment: a claim would return the same jobs."""
        for phase in {running.lease.phase for running in jobs}:
            self._discovery.postpone(phase, REFUSED_PAUSE)
        if is_given_back:
            self._stepper.give_back(self._workload.reject(jobs))

    # ------------------------------------------------------------------ stop

    def stop(self, grace: float | None = None) -> None:
        """Stop in order; returns when every job is given back. A second call (or ``hurry``) cuts the grace time short.

        Even if a handler or the database hangs, the engine has stopped five seconds after the grace time; other instances recover the jobs
        that could not be given back. An engine that was not started has nothing to stop.
        """
        grace = self.settings.grace if grace is None else _seconds(grace)
        self._refuse_to_wait_for_itself()
        if self.state == "stopping":
            self.hurry()
        with use(self._logger), self._life_lock:
            if self.state not in ("running", "stopping"):  # "stopping": an earlier stop was interrupted
                return
            self.state = "stopping"
            left = len(self._workload.running())
            emit(events.INSTANCE_STOPPING, instance=self.id, running=left, grace_seconds=grace)
            self._stepper.stop_claiming()
            self._workload.close()
            self._stepper.give_back(self._workload.clear())
            self._await_idle(grace)
            deadline = time.monotonic() + END_WAIT
            self._stopper.stop_all(Stop.SHUTDOWN)
            self._await_idle(STOP_WAIT, may_hurry=False)
            self._executors.close_processes()  # before their jobs are given back: another instance may have them at once
            self._stopper.abandon()
            self._stepper.give_back(self._workload.clear())
            self._end(deadline)
            self.state = "stopped"
            emit(events.INSTANCE_STOPPED, instance=self.id)
            self._stopped.set()

    def drain(self, grace: float | None = None) -> bool:
        """Claim nothing more, let running jobs finish (for ``grace`` seconds at most, None for as long as they take), then stop; returns at once.
        False if the engine does not run, or drains already. A ``stop`` meanwhile counts its own grace time."""
        if not self._life_lock.acquire(
            timeout=1.0
        ):  # a stop holds it, which waits for the thread that calls this
            return False
        try:
            if self.state != "running" or self._is_draining:
                return False
            self._is_draining = True
        finally:
            self._life_lock.release()
        self._stepper.stop_claiming()
        self._stepper.give_back(self._workload.clear())
        with use(self._logger):
            thread(partial(self._drain, grace), "windlass-drain").start()
        return True

    def _drain(self, grace: float | None) -> None:
        deadline = None if grace is None else time.monotonic() + grace
        while self.state == "running" and self._workload.running():
            if deadline is not None and time.monotonic() >= deadline:
                break
            time.sleep(DRAIN_CHECK)
        if self.state == "running":
            self.stop(0.0)
            self.on_drained()

    def hurry(self) -> None:
        """Do not wait for running jobs any longer."""
        self._hurry.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the engine has stopped."""
        return self._stopped.wait(timeout)

    def _await_idle(self, seconds: float, *, may_hurry: bool = True) -> None:
        deadline = time.monotonic() + seconds
        while self._workload.running() and time.monotonic() < deadline:
            if may_hurry and self._hurry.wait(0.01):
                return
            if not may_hurry:
                time.sleep(0.01)

    def _refuse_to_wait_for_itself(self) -> None:
        job = current_job.get()
        if job is not None and self._workload.running_one(job.lease) is not None:
            raise WindlassError(
                f"job {job.lease.id} called stop() of the engine that runs it, which would wait for this job; call it on another thread: "
                "threading.Thread(target=engine.stop).start()"
            )

    def _end(self, deadline: float) -> None:
        def left(most: float) -> float:
            return max(0.05, min(most, deadline - time.monotonic()))

        self._unsubscribe_places()
        self._duties.stop(left)
        was_written = self._stepper.finish(time.monotonic() + left(LAST_WRITES_WAIT))
        self._listening.stop(left(2.0))
        self._announcer.stop(left(0.5))
        self._heartbeat.stop(left(2.0))
        self._watchdog.stop(left(2.0))
        self._executors.close()
        self._job_logs.stop()
        self._duties.summary.log(is_last=True)
        if was_written:
            leaving = thread(self._leave, "windlass-leave")
            leaving.start()
            leaving.join(
                left(LAST_WRITES_WAIT)
            )  # the database may hang; other instances then remove this one
        self._duties.await_pruner(left(2.0))

    def _leave(self) -> None:
        try:
            self._job_logs.flush()
            self._duties.rollups.run()
            self._requests.finish()
        except WindlassError as error:
            events.store_unreachable(error)
        else:
            self._instance.leave()


def _seconds(grace: object) -> float:
    if not is_number(grace, 0, threading.TIMEOUT_MAX):
        raise ConfigError("grace", grace, "a number of seconds from 0")
    return grace
