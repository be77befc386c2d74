"""What an instance does beside running jobs, from time to time and some of it for the whole system: its duties, for the caretaker's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from windlass.engine.stats import Stats
from windlass.engine.switchboard import Switchboard
from windlass.features import Store
from windlass.handlers.registry import Phase, Registry
from windlass.observe.health_log import HealthCheck
from windlass.observe.report import EngineReport
from windlass.observe.summary import Summary
from windlass.settings import Settings
from windlass.store.jobs.holder import Holder
from windlass.upkeep.agenda import Agenda
from windlass.upkeep.backpressure import Pressure, Unserved
from windlass.upkeep.history import History
from windlass.upkeep.loop import Duty
from windlass.upkeep.recoverer import Recoverer
from windlass.upkeep.rollup_writer import RollupWriter
from windlass.upkeep.troubles import Troubles

WAKE_EVERY, WAKE_LASTS = 10.0, 25.0
MAINTAIN_EVERY, SWEEP_EVERY = 3600.0, 600.0
SUMMARY_EVERY = 10.0
ERASE_EVERY = 600.0
HISTORY_EVERY = 3600.0


class Duties:
    """The duties of one instance, and those of their parts that are asked for at other times as well."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        phases: Mapping[str, Phase],
        settings: Settings,
        *,
        stats: Stats,
        board: Switchboard,
        recoverer: Recoverer,
        on_tick: Callable[[float], None],
        holder: Callable[[], Holder],
        report: Callable[[], EngineReport],
        waiting: Callable[[], Mapping[str, int]],
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._settings = settings
        self._phases = phases
        self._board = board
        self._recoverer = recoverer
        self._agenda = Agenda(
            store,
            recoverer,
            every=settings.recovery,
            on_promoted=board.on_promoted,
            on_tick=on_tick,
            on_resumed=lambda: board.on_hint(None),
            troubles=troubles,
        )
        self.rollups = RollupWriter(
            store, stats, lambda: holder().id, every=settings.rollup, keep_days=settings.rollup_days
        )
        self._pressure = Pressure(store, phases, hold=board.on_pressure)
        self.unserved = Unserved(
            store, registry, holder=holder, fail_after=settings.fail_unserved, record=board.record
        )
        self.history = History(store)
        self.summary = Summary(stats.report, waiting)
        self._check = HealthCheck(report)

    def announce(self) -> None:
        """Say that somebody waits for these phases, so that enqueues tell."""
        self._store.wait([*self._phases, "@later"], WAKE_LASTS)

    def all(self) -> list[Duty]:
        """All of them, each with how often it is done."""
        settings, pressure = self._settings, self._pressure
        return [
            Duty("agenda", self._agenda.run, settings.recovery, at_start=True),
            Duty("assign", self._board.assign, settings.cycle),
            Duty("wake", self.announce, WAKE_EVERY),
            Duty("maintain", self._store.upkeep.maintain, MAINTAIN_EVERY, at_start=True),
            Duty("history", self.history.run, HISTORY_EVERY, at_start=True),
            Duty("orphans", self._recoverer.sweep, SWEEP_EVERY),
            Duty("rollups", self.rollups.run, settings.rollup),
            Duty("summary", lambda: _only(self.summary.tell()), SUMMARY_EVERY),
            Duty("health", lambda: _only(self._check.look()), settings.health),
            Duty("unserved", self.unserved.run, settings.unserved),
            *self._erasing(settings.erase_principal_after),
            *(
                [Duty("pressure", pressure.run, settings.pressure, at_start=True)]
                if pressure.is_needed
                else []
            ),
        ]

    def _erasing(self, after: float | None) -> list[Duty]:
        """Forget who asked for jobs that ended long enough ago."""
        if after is None:
            return []
        erase, lasts = self._store.principals.erase, timedelta(seconds=after)
        return [Duty("principals", lambda: _only(erase(lasts)), min(ERASE_EVERY, max(1.0, after)))]


def _only(_answer: object) -> None:
    """Discard the return value: these duties always run at their fixed interval."""
