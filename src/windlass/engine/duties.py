"""The periodic duties of an instance beside running jobs; some of them serve the whole system."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta

from windlass.engine.board import BoardPublisher
from windlass.engine.executors.choice import Executors
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.instance import Instance
from windlass.engine.job_locks import CHECK_EVERY
from windlass.engine.job_log_writer import JobLogWriter
from windlass.engine.recorder import Recorder
from windlass.engine.stats import Stats
from windlass.engine.step import Stepper
from windlass.engine.workload import Workload
from windlass.handlers.registry import Phase, Registry
from windlass.model import Fired, Recovered
from windlass.observe import events
from windlass.observe.health_log import HealthCheck
from windlass.observe.report import EngineReport
from windlass.observe.summary import Summary
from windlass.schedules.ticker import Ticker
from windlass.settings import Settings
from windlass.upkeep.agenda import Agenda
from windlass.upkeep.backpressure import Pressure, Unserved
from windlass.upkeep.history import History
from windlass.upkeep.loop import NEVER, Duty, UpkeepLoop
from windlass.upkeep.pruner import Pruner
from windlass.upkeep.recoverer import Recoverer
from windlass.upkeep.rollup_writer import RollupWriter
from windlass.upkeep.troubles import Troubles

WAKE_EVERY, WAKE_LASTS = 10.0, 25.0
MAINTAIN_EVERY, SWEEP_EVERY = 3600.0, 600.0
SUMMARY_EVERY = 10.0
ERASE_EVERY = 600.0
HISTORY_EVERY = 3600.0


class Duties:
    """The duties of one instance, on two threads: one for schedules, which must be on time, and one for all others; on a third one it does
    operations, if an app said how, and on a fourth one it prunes, if there is a retention."""

    def __init__(
        self,
        instance: Instance,
        registry: Registry,
        phases: Mapping[str, Phase],
        settings: Settings,
        stats: Stats,
        troubles: Troubles,
        workload: Workload,
        recorder: Recorder,
        executors: Executors,
        heartbeat: Heartbeat,
        stepper: Stepper,
        job_logs: JobLogWriter,
        report: Callable[[], EngineReport],
        operations: Callable[[str], float | None] | None = None,
        requests: Callable[[], None] = lambda: None,
    ) -> None:
        store = instance.store
        self._store = store
        self._settings = settings
        self._phases = phases
        self._stats = stats
        self._job_logs = job_logs
        self._stepper = stepper
        self._recorder = recorder
        self._workload = workload
        self._heartbeat = heartbeat
        self._requests = requests
        self._recoverer = Recoverer(
            store,
            instance=instance,
            phases=phases,
            death_cap=settings.death_cap,
            record=lambda outcome: stepper.record([outcome]),
            in_thread=executors.in_thread,
            on_recovered=self._recovered,
            on_crash=lambda: stats.count("crashes"),
        )
        self._agenda = Agenda(
            store,
            self._recoverer,
            every=settings.recovery,
            on_promoted=self._promoted,
            on_tick=lambda seconds: self.ticker.ask("tick", seconds),
            on_resumed=self.check_everything,
            on_requests=lambda: self.ask("requests"),
            on_operations=lambda: self.operations.ask("operations"),
            on_watched=self.watched,
            troubles=troubles,
        )
        self.rollups = RollupWriter(
            store, stats, lambda: instance.id, every=settings.rollup, keep_days=settings.rollup_days
        )
        self._pressure = Pressure(store, phases, hold=stepper.hold)
        self.board = BoardPublisher(
            instance,
            settings,
            workload,
            self._pressure,
            stepper.locks,
            report,
            stats.report,
        )
        self.unserved = Unserved(
            store,
            registry,
            instance=instance,
            fail_after=settings.fail_unserved,
            record=lambda outcome: stepper.record([outcome]),
        )
        self.history = History(store)
        self.summary = Summary(stats.report, workload.waiting)
        self._health_check = HealthCheck(report)
        ticker = Ticker(store.schedules, on_fired=self._fired)
        self.ticker = UpkeepLoop(
            [Duty("tick", ticker.run, NEVER, jitter=0.0)], "windlass-ticker", troubles=troubles
        )
        self.loop = UpkeepLoop(self.all(), troubles=troubles)
        self.loops = [self.ticker, self.loop]
        acts = [] if operations is None else [Duty("operations", lambda: operations(instance.id), NEVER)]
        self.operations = UpkeepLoop(acts, "windlass-operations", troubles=troubles)
        if acts:  # on a thread of its own: a page may wait for the transaction of a handler
            self.loops.append(self.operations)
        self._pruning: UpkeepLoop | None = None
        over = threading.Event()
        self.pruner = Pruner(store, settings, is_stopping=over.is_set)
        if self.pruner.is_needed:  # on a thread of its own: dropping a day of history may wait for readers
            prune = Duty("prune", self.pruner.run, self.pruner.every, at_start=True)
            self._pruning = UpkeepLoop(
                [prune], "windlass-pruner", troubles=troubles, over=over, at_end=self.pruner.close
            )
            self.loops.append(self._pruning)

    def ask(self, name: str) -> None:
        """Have a duty done now; from any thread."""
        self.loop.ask(name)

    def stop(self, left: Callable[[float], float]) -> None:
        """Stop all threads, and wait for those that write for jobs. ``left`` returns the seconds that are left, at most those given."""
        for loop in self.loops:
            loop.end_soon()
        for loop in self.loops:
            if loop is not self._pruning:
                loop.stop(left(0.5))

    def await_pruner(self, seconds: float) -> None:
        """Wait until the pruner, which was stopped, has finished its page and closed the archive. After that time it is left to do so by itself."""
        if self._pruning is not None:
            self._pruning.stop(seconds)

    def watched(self, seconds: float) -> None:
        """Publish the board now and every second, while people watch."""
        if self.board.watched(seconds):
            self.ask("board")

    def announce(self) -> None:
        """Register as waiting for these phases, so that enqueues notify."""
        self._store.wait([*self._phases, "@later"], WAKE_LASTS)

    def check_everything(self) -> None:
        """Check all phases, cancels and the registration of this instance: notifications may have been missed."""
        self.ask("wake")
        if not self._heartbeat.is_check_planned and not self._workload.is_empty:
            self._heartbeat.check_cancels()
        self._stepper.hint()

    def all(self) -> list[Duty]:
        """All duties but the ticker's, each with its interval."""
        settings, pressure = self._settings, self._pressure
        return [
            Duty("agenda", self._agenda.run, settings.recovery, at_start=True),
            Duty("assign", self._stepper.assign, settings.cycle),
            Duty("wake", self.announce, WAKE_EVERY),
            Duty("maintain", self.history.make_ahead, MAINTAIN_EVERY, at_start=True),
            Duty("history", self.history.run, HISTORY_EVERY, at_start=True),
            Duty("orphans", self._recoverer.sweep, SWEEP_EVERY),
            Duty("logs", self._job_logs.flush, NEVER),
            Duty("rollups", self.rollups.run, settings.rollup),
            # Lines of the log: in the first moments of an instance they would say what its start has said.
            Duty("summary", lambda: _only(self.summary.log()), SUMMARY_EVERY, after_interval=True),
            Duty("health", lambda: _only(self._health_check.check()), settings.health, after_interval=True),
            Duty("unserved", self.unserved.run, settings.unserved),
            Duty("board", self.board.run, settings.heartbeat, at_start=True),
            Duty("requests", self._requests, NEVER),
            *(
                [Duty("locks", locks.check, CHECK_EVERY, at_start=True)]
                if (locks := self._stepper.locks)
                else []
            ),
            *self._erasing(settings.erase_principal_after),
            *(
                [Duty("pressure", pressure.run, settings.pressure, at_start=True)]
                if pressure.is_needed
                else []
            ),
        ]

    def _erasing(self, after: float | None) -> list[Duty]:
        """The duty that erases the principals of jobs that ended long enough ago."""
        if after is None:
            return []
        erase, lasts = self._store.principals.erase, timedelta(seconds=after)
        return [Duty("principals", lambda: _only(erase(lasts)), min(ERASE_EVERY, max(1.0, after)))]

    # ------------------------------------------------------------------ results of duties

    def _promoted(self, phase: str, count: int) -> None:
        self._stats.count("promoted", count)
        events.promoted(phase, count)
        self._stepper.hint(phase)

    def _fired(self, item: Fired) -> None:
        self._stats.count("ticks", len(item.ticks))
        self._stats.count("ticks_skipped", item.skipped)
        events.fired(item)
        if item.ticks:
            self._stepper.hint(item.phase)

    def _recovered(self, item: Recovered) -> None:
        self._stats.count("recovered", label=item.verdict)
        events.recovered(item)
        self._recorder.recovered(item)


def _only(_result: object) -> None:
    """Discard the return value: these duties always run at their fixed interval."""
