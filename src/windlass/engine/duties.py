"""The periodic duties of an instance beside running jobs; some of them serve the whole system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from windlass.engine.executors.choice import Executors
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.instance import Instance
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
from windlass.upkeep.recoverer import Recoverer
from windlass.upkeep.rollup_writer import RollupWriter
from windlass.upkeep.troubles import Troubles

WAKE_EVERY, WAKE_LASTS = 10.0, 25.0
MAINTAIN_EVERY, SWEEP_EVERY = 3600.0, 600.0
SUMMARY_EVERY = 10.0
ERASE_EVERY = 600.0
HISTORY_EVERY = 3600.0


class Duties:
    """The duties of one instance, on two threads: one for schedules, which must be on time, and one for all others."""

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
        report: Callable[[], EngineReport],
    ) -> None:
        store = instance.store
        self._store = store
        self._settings = settings
        self._phases = phases
        self._stats = stats
        self._stepper = stepper
        self._recorder = recorder
        self._workload = workload
        self._heartbeat = heartbeat
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
            troubles=troubles,
        )
        self.rollups = RollupWriter(
            store, stats, lambda: instance.id, every=settings.rollup, keep_days=settings.rollup_days
        )
        self._pressure = Pressure(store, phases, hold=stepper.hold)
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

    def ask(self, name: str) -> None:
        """Have a duty done now; from any thread."""
        self.loop.ask(name)

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
            Duty("maintain", self._store.upkeep.maintain, MAINTAIN_EVERY, at_start=True),
            Duty("history", self.history.run, HISTORY_EVERY, at_start=True),
            Duty("orphans", self._recoverer.sweep, SWEEP_EVERY),
            Duty("rollups", self.rollups.run, settings.rollup),
            Duty("summary", lambda: _only(self.summary.log()), SUMMARY_EVERY),
            Duty("health", lambda: _only(self._health_check.check()), settings.health),
            Duty("unserved", self.unserved.run, settings.unserved),
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
