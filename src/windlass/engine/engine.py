"""One instance: owns the parts, starts them in order, stops them so that nothing is lost.

Threads: watchdog, heartbeat, listener, step (records and claims), ticker, upkeep, started in this order; and those of the executors. Stop:
claim nothing more, give back jobs that wait in memory, let running jobs finish for the grace time, stop and give back the rest.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from windlass.engine.attempt import AttemptRunner, Wrapper
from windlass.engine.discovery import Discovery
from windlass.engine.duties import Duties
from windlass.engine.executors.choice import Executors
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.hold import InstanceHold
from windlass.engine.listener import Listening
from windlass.engine.recorder import Recorder
from windlass.engine.running_attempt import Stop
from windlass.engine.stats import Stats
from windlass.engine.step import Stepper
from windlass.engine.switchboard import Switchboard
from windlass.engine.waker import Waker
from windlass.engine.watchdog import Watchdog
from windlass.engine.workload.places import Places
from windlass.engine.workload.workload import Workload
from windlass.errors import ConfigError, WindlassError, did_you_mean
from windlass.features import Store
from windlass.forking import Process
from windlass.handlers.definitions import sync
from windlass.handlers.registry import Registry
from windlass.model import Lease, Run
from windlass.observe import events
from windlass.observe.current_job import current_job
from windlass.observe.logger import thread, use
from windlass.observe.report import EngineReport, PhaseReport
from windlass.principals.authority import Authority
from windlass.schedules.ticker import Ticker
from windlass.settings import Settings
from windlass.store.jobs.holder import Holder
from windlass.upkeep.loop import NEVER, Duty, UpkeepLoop
from windlass.upkeep.recoverer import Recoverer
from windlass.upkeep.troubles import Troubles

# Seconds that a stop waits at most:
STOP_WAIT = 2.0  # for jobs that were told to stop, after the grace time
LAST_WORDS = 2.0  # for the last outcomes to be written, and then for the instance to leave
ALL_ENDED = 4.0  # for everything after the grace time, even if a handler or the database hangs


class _Part(Protocol):
    """Something with a thread of its own."""

    def start(self) -> None: ...


class Engine:
    """Runs the jobs of a registry from a store. One start, one stop; every start of a process makes a new instance."""

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
    ) -> None:
        self._logger = logger
        self._places = places
        self.settings = settings = settings or Settings()
        self._store = store
        self._info = dict(info or {})
        self.phases = served(registry, settings)
        self.stats = stats or Stats()
        self._troubles = degraded
        self.state = "starting"
        self._started_at = datetime.now(UTC)
        self._waker = Waker()
        self._workload = Workload(self.phases, settings, places=places)
        self._recorder = Recorder(self.stats)
        self._discovery = Discovery(self.phases, settings)
        self._registry = registry
        hold = InstanceHold(store, lambda: self._heartbeat.holder, self.run_of)
        self._runner = AttemptRunner(lambda running: hold, wrap=wrap, authority=authority, stats=self.stats)
        self._board = Switchboard(
            workload=self._workload,
            recorder=self._recorder,
            discovery=self._discovery,
            runner=self._runner,
            waker=self._waker,
            stats=self.stats,
        )
        self.on_ready: Callable[[], None] = lambda: None
        """Called when all that may refuse a start has been asked, before the first claim."""
        self._life_lock = threading.Lock()
        self._forget_places: Callable[[], None] = lambda: None
        self._hurry = threading.Event()
        self._stopped = threading.Event()

    # ------------------------------------------------------------------ start

    def start(self) -> None:
        """Become an instance and begin to serve. Raises, with nothing left behind, where the database cannot be reached."""
        with self._life_lock:
            if self.state != "starting":
                raise WindlassError(
                    f"this engine is {self.state}, and one engine is started once; make another with app.worker()"
                )
            with use(self._logger), ExitStack() as undo:
                self._start(undo)
                undo.pop_all()

    def _start(self, undo: ExitStack) -> None:
        """Make and start the parts; whatever begins says in ``undo`` how it is ended should a later one fail."""
        settings, phases, board = self.settings, self.phases, self._board
        info = {"pid": os.getpid(), "host": platform.node(), "phases": sorted(phases), **self._info}
        lease = timedelta(seconds=settings.lease)
        self._heartbeat = Heartbeat(
            join=lambda: self._store.join(lease=lease, info=info),
            settings=settings,
            stats=self.stats,
            on_cancelled=board.cancel_all,
            on_lost=board.on_lost,
            on_good=board.on_good,
        )
        undo.callback(self._leave)
        self._runner.pid = Process.pid  # an engine may be made before a fork and started after it
        self._hosts = Executors(
            self._runner,
            phases,
            settings,
            self._store,
            board.on_ended,
            board.on_recorded,
            on_crash=board.on_crash,
            on_unstarted=board.on_unstarted,
        )
        undo.callback(self._hosts.close)
        self._watchdog = Watchdog(
            workload=self._workload,
            phases=phases,
            loop=self._hosts.loop,
            settings=settings,
            stats=self.stats,
            lease_left=lambda: self._heartbeat.left,
            stop_job=board.stop_job,
            give_up=board.give_up,
            on_lease_over=board.on_lease_over,
            catch_up=self._hosts.catch_up,
        )
        self._duty_troubles = Troubles()
        self._stepper = Stepper(
            holder=lambda: self._heartbeat.holder,
            workload=self._workload,
            discovery=self._discovery,
            recorder=self._recorder,
            dispatch=self._hosts.dispatch,
            may_claim=lambda: self._watchdog.has_lease,
            on_claim_failed=self._heartbeat.claim_failed,
            settings=settings,
            stats=self.stats,
            waker=self._waker,
            troubles=self._duty_troubles,
        )
        recoverer = Recoverer(
            self._store,
            holder=lambda: self._heartbeat.holder,
            phases=phases,
            death_cap=settings.death_cap,
            record=board.record,
            in_thread=self._hosts.in_thread,
            on_recovered=board.on_recovered,
            on_crash=board.on_crash,
        )
        ticker = Ticker(self._store.schedules, on_fired=board.on_fired)
        self._ticker = UpkeepLoop(
            [Duty("tick", ticker.run, NEVER, jitter=0.0)], "windlass-ticker", troubles=self._duty_troubles
        )
        self._duties = Duties(
            self._store,
            self._registry,
            phases,
            settings,
            stats=self.stats,
            board=board,
            recoverer=recoverer,
            on_tick=lambda seconds: self._ticker.ask("tick", seconds),
            holder=lambda: self._heartbeat.holder,
            report=self.report,
            waiting=self._waiting,
            troubles=self._duty_troubles,
        )
        self._upkeep_loop = UpkeepLoop(self._duties.all(), troubles=self._duty_troubles)
        self._listening = Listening(
            self._store.listen,
            on_phase=board.on_hint,
            on_later=lambda: self._upkeep_loop.ask("agenda"),
            on_nudge=board.on_nudge,
            on_cancel=board.cancel,
            on_listening=board.on_listening,
        )
        board.connect(
            heartbeat=self._heartbeat,
            hosts=self._hosts,
            watchdog=self._watchdog,
            stepper=self._stepper,
            upkeep_loop=self._upkeep_loop,
        )
        self._duties.announce()
        self._define()
        self._store.limits.tell(phase.flow for phase in phases.values() if phase.flow)
        ends: list[tuple[_Part, Callable[[], object]]] = [
            (self._watchdog, self._watchdog.stop),
            (self._heartbeat, self._heartbeat.stop),
            (self._listening, self._listening.stop),
            (self._stepper, lambda: self._stepper.finish(time.monotonic() + LAST_WORDS)),
            (self._ticker, lambda: self._ticker.stop(1.0)),
            (self._upkeep_loop, lambda: self._upkeep_loop.stop(1.0)),
        ]
        self.on_ready()
        for part, end in ends:
            part.start()
            undo.callback(end)
        if self._places is not None:
            self._forget_places = self._places.on_free(lambda: self._upkeep_loop.ask("assign"))
            undo.callback(self._forget_places)
        self.state = "running"
        events.instance_started(self.id, sorted(phases))

    def _define(self) -> None:
        """Make the database say what this code says about schedules and rules."""
        synced = sync(self._store, self._registry)
        events.schedules_defined(synced.schedules)
        events.rules_defined(synced.rules)

    # ------------------------------------------------------------------ stop

    def stop(self, grace: float | None = None) -> None:
        """Stop in order; answers when everything is given back. A second call (or ``hurry``) cuts the grace time short.

        Whatever hangs, a handler or the database: five seconds after the grace time it is over, and what could not be given back is
        recovered by others. An engine that was not started, or could not be, has nothing to stop.
        """
        grace = self.settings.grace if grace is None else _seconds(grace)
        self._refuse_to_wait_for_itself()
        if self.state == "stopping":
            self.hurry()
        with use(self._logger), self._life_lock:
            if self.state not in ("running", "stopping"):  # the latter: a stop before was interrupted
                return
            self.state = "stopping"
            events.instance_stopping(self.id, len(self._workload.running()), grace)
            self._stepper.stop_claiming()
            self._workload.close()
            self._board.give_back(self._workload.clear())
            self._await_idle(grace)
            deadline = time.monotonic() + ALL_ENDED
            for running in self._workload.running():
                self._board.stop_job(running, Stop.SHUTDOWN)
            self._await_idle(STOP_WAIT, may_hurry=False)
            self._hosts.close_processes()  # before their jobs are given back: another instance may have them at once
            self._board.abandon()
            self._board.give_back(self._workload.clear())
            self._end(deadline)
            self.state = "stopped"
            events.instance_stopped(self.id)
            self._stopped.set()

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
                f"job {job.lease.id} asked the engine that runs it to stop, which waits for that job; have another thread do it: "
                "threading.Thread(target=engine.stop).start()"
            )

    def _end(self, deadline: float) -> None:
        def left(most: float) -> float:
            return max(0.05, min(most, deadline - time.monotonic()))

        self._forget_places()
        self._ticker.stop(left(0.5))
        self._upkeep_loop.stop(left(0.5))
        was_written = self._stepper.finish(time.monotonic() + left(LAST_WORDS))
        self._listening.stop(left(2.0))
        self._heartbeat.stop(left(2.0))
        self._watchdog.stop(left(2.0))
        self._hosts.close()
        self._duties.summary.tell(is_last=True)
        if was_written:
            leaving = thread(self._take_leave, "windlass-leave")
            leaving.start()
            leaving.join(left(LAST_WORDS))  # the database may hang, and others forget us by themselves

    def _take_leave(self) -> None:
        try:
            self._duties.rollups.run()
        except WindlassError as error:
            events.store_unreachable(error)
        else:
            self._leave()

    def _leave(self) -> None:
        try:
            self._heartbeat.holder.leave()
        except WindlassError as error:
            events.store_unreachable(error)

    # ------------------------------------------------------------------ looking

    def _waiting(self) -> dict[str, int]:
        return {name: waiting for name, (_, waiting) in self._workload.report().items()}

    @property
    def id(self) -> str:
        """The instance's id; empty before the start."""
        heartbeat: Heartbeat | None = getattr(self, "_heartbeat", None)
        return heartbeat.holder.id if heartbeat else ""

    @property
    def holder(self) -> Holder:
        return self._heartbeat.holder

    def run_of(self, lease: Lease) -> Run | None:
        """Where a job runs and how long it has run so far; None where it does not run here."""
        running = self._workload.running_one(lease)
        return running.run(time.monotonic()) if running else None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held: no job waits in memory or runs, and no outcome is unwritten."""
        return self._workload.is_empty and not len(self._recorder)

    def report(self) -> EngineReport:
        """How this instance is doing."""
        has_begun = self.state != "starting"
        degraded = [*self._troubles()]
        if has_begun and not self._stepper.is_reachable:
            degraded.append("store: the database does not answer, or takes nothing; outcomes wait in memory")
        if has_begun and not self._listening.is_listening:
            degraded.append("listener: no notifications; polling instead")
        if has_begun and not self._watchdog.has_lease:
            degraded.append("lease: it could not be renewed in time; nothing is claimed")
        if has_begun:
            degraded += [
                f"phase {name}: {events.jobs_wait(count)}, and no instance serves it"
                for name, count in self._duties.unserved.phases.items()
            ]
            degraded += [f"executor {name}: {reason}" for name, reason in self._hosts.faults()]
            degraded += self._duty_troubles.lines()
            degraded += self._duties.history.lines()
            degraded += [
                f"schedule {name}: {reason}" for name, reason in self._store.schedules.left().items()
            ]
        lag = self._watchdog.loop_lag if has_begun else 0.0
        if lag >= self.settings.blocked_after:
            degraded.append("loop: a handler blocks the event loop")
        return EngineReport(
            instance=self.id if has_begun else "",
            started_at=self._started_at,
            state=self.state,
            phases={
                name: PhaseReport(pool.idle, pool.busy, len(pool.in_error), waiting, list(pool.in_error))
                for name, (pool, waiting) in self._workload.report().items()
            },
            lease_left=self._heartbeat.left if has_begun else 0.0,
            last_step_seconds_ago=time.monotonic() - self._stepper.turned_at if has_begun else 0.0,
            step_limit=max(90.0, 3 * self.settings.scan),
            store_reachable=self._stepper.is_reachable if has_begun else False,
            listening=self._listening.is_listening if has_begun else False,
            degraded=degraded,
            loop_lag=lag,
            loop_limit=self.settings.blocked_after,
        )

    def tell_unserved(self) -> None:
        """Say which jobs wait in phases that no instance serves."""
        with use(self._logger):
            self._duties.unserved.run()

    def processors(self) -> list[tuple[str, str, str | None, float]]:
        """Each processor: name, state (idle, busy, error), the job it runs, and for how many seconds. One whose job outran its time limit
        is in error until the job has stopped, also beside the processor that took its place under the same name."""
        return self._workload.processors()


def _seconds(grace: object) -> float:
    if (
        isinstance(grace, bool)
        or not isinstance(grace, int | float)
        or not 0 <= grace <= threading.TIMEOUT_MAX
    ):
        raise ConfigError("grace", grace, "a number of seconds from 0")
    return grace


def served(registry: Registry, settings: Settings) -> dict[str, Any]:
    """The phases an engine with these settings serves; ``ConfigError`` for names that are not defined."""
    known = registry.phases
    wanted = settings.phases if settings.phases is not None else tuple(known)
    for key, names in (("phases", wanted), ("processors", tuple(settings.processors))):
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ConfigError(
                    key, name, f"one of the phases that are defined: {listed}{did_you_mean(name, known)}"
                )
    return {name: known[name] for name in known if name in wanted}
