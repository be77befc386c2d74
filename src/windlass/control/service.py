"""The control service: its parts for one actor."""

from __future__ import annotations

from functools import cached_property

from windlass.control.actor import APPLICATION, Actor
from windlass.control.audit import AuditControl
from windlass.control.deploys import DeployControl
from windlass.control.doctor.noun import DoctorControl
from windlass.control.events import Events, checked_timeout
from windlass.control.failures import FailureControl
from windlass.control.history import HistoryControl
from windlass.control.instances import InstanceControl
from windlass.control.jobs import JobControl
from windlass.control.metrics import MetricsControl
from windlass.control.noun import Source
from windlass.control.operations import OperationControl
from windlass.control.overview import OverviewControl
from windlass.control.phases import PhaseControl
from windlass.control.pipelines import PipelineControl
from windlass.control.rules import RuleControl
from windlass.control.schedules import ScheduleControl
from windlass.control.submitting import SubmitControl
from windlass.control.tokens import TokenControl


class Control:
    """Everything that can be seen and done, for one actor; made by ``app.acting_as(principal)``, or by the app for itself."""

    def __init__(self, source: Source, actor: Actor = APPLICATION) -> None:
        self._source = source
        self.actor = actor

    @cached_property
    def jobs(self) -> JobControl:
        """Shows, searches, cancels, retries and changes jobs."""
        return JobControl(self._source, self.actor)

    @cached_property
    def submits(self) -> SubmitControl:
        """Submits jobs that the actor asks for."""
        return SubmitControl(self._source, self.actor)

    @cached_property
    def pipelines(self) -> PipelineControl:
        """Lists the kinds and pipelines of the application."""
        return PipelineControl(self._source, self.actor)

    @cached_property
    def phases(self) -> PhaseControl:
        """Counts, pauses and resumes phases."""
        return PhaseControl(self._source, self.actor)

    @cached_property
    def schedules(self) -> ScheduleControl:
        """Lists, pauses, resumes and runs schedules."""
        return ScheduleControl(self._source, self.actor)

    @cached_property
    def rules(self) -> RuleControl:
        """Lists rules and open fan-ins."""
        return RuleControl(self._source, self.actor)

    @cached_property
    def failures(self) -> FailureControl:
        """Groups failed jobs by their cause."""
        return FailureControl(self._source, self.actor)

    @cached_property
    def history(self) -> HistoryControl:
        """Reads statistics over time."""
        return HistoryControl(self._source, self.actor)

    @cached_property
    def instances(self) -> InstanceControl:
        """Lists instances and their processors."""
        return InstanceControl(self._source, self.actor)

    @cached_property
    def overview(self) -> OverviewControl:
        """Reads the state of all phases and instances, and what is wrong."""
        return OverviewControl(self._source, self.actor)

    @cached_property
    def operations(self) -> OperationControl:
        """Begins, shows and stops acts on many jobs."""
        return OperationControl(self._source, self.actor)

    @cached_property
    def audit(self) -> AuditControl:
        """Reads the audit trail."""
        return AuditControl(self._source, self.actor)

    @cached_property
    def deploys(self) -> DeployControl:
        """Marks deploys on the charts, and lists the marks."""
        return DeployControl(self._source, self.actor)

    @cached_property
    def tokens(self) -> TokenControl:
        """Makes, lists and revokes API tokens."""
        return TokenControl(self._source, self.actor)

    @cached_property
    def metrics(self) -> MetricsControl:
        """Renders metrics of the database."""
        return MetricsControl(self._source, self.actor)

    @cached_property
    def doctor(self) -> DoctorControl:
        """Checks settings, database and instances."""
        return DoctorControl(self._source, self.actor)

    def events(self, *, timeout: float | None = None) -> Events:
        """Samples of everything, one a second; all watchers of an app read together. For actors who see all jobs; ``jobs.events`` has the events
        of one job. With a ``timeout`` an iteration ends when no sample came for so many seconds."""
        self.actor.require_all("watch the counts and processors of all phases")
        checked_timeout(timeout)
        return Events(self._source.sampler.overview(), timeout)
