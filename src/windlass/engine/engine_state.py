"""What an engine says of itself: its id, whether it holds jobs, its report and its processors."""

from __future__ import annotations

import logging

from windlass.engine.duties import Duties
from windlass.engine.instance import Instance
from windlass.engine.recorder import Recorder
from windlass.engine.reporter import Reporter
from windlass.engine.workload import Workload
from windlass.observe.logger import use
from windlass.observe.report import EngineReport
from windlass.store.jobs.holder import Holder


class EngineState:
    """The part of an engine that reads its parts for health, metrics and people."""

    state: str
    _is_draining: bool
    _logger: logging.Logger | None
    _instance: Instance
    _workload: Workload
    _recorder: Recorder
    _reporter: Reporter
    _duties: Duties

    @property
    def id(self) -> str:
        """The instance's id; empty before the start."""
        return self._instance.id

    @property
    def holder(self) -> Holder:
        """The holder that claims and records for the instance; a lost lease replaces it."""
        return self._instance.holder

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held: no job waits in memory or runs, and no outcome is unwritten."""
        return self._workload.is_empty and not len(self._recorder)

    def report(self) -> EngineReport:
        """The state of this instance, for health and metrics."""
        state = "stopping" if self._is_draining and self.state == "running" else self.state
        return self._reporter.report(self.id, state)

    def report_unserved(self) -> None:
        """Log which jobs wait in phases that no instance serves."""
        with use(self._logger):
            self._duties.unserved.run()

    def processors(self) -> list[tuple[str, str, str | None, float]]:
        """Each processor: name, state (idle, busy, error), the job it runs, and for how many seconds. One whose job outran its time limit
        is in error until the job has stopped, and is listed beside the processor of the same name that replaced it."""
        return self._workload.processors()
