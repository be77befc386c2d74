"""The part of an app with which people and programs see and act: ``app.jobs``, ``app.phases`` and their siblings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.app.parts import AppParts
    from windlass.control.actor import Actor
    from windlass.control.audit import AuditControl
    from windlass.control.deploys import DeployControl
    from windlass.control.doctor.noun import DoctorControl
    from windlass.control.events import Events
    from windlass.control.failures import FailureControl
    from windlass.control.history import HistoryControl
    from windlass.control.instances import InstanceControl
    from windlass.control.jobs import JobControl
    from windlass.control.operations import OperationControl
    from windlass.control.overview import OverviewControl
    from windlass.control.phases import PhaseControl
    from windlass.control.rules import RuleControl
    from windlass.control.schedules import ScheduleControl
    from windlass.control.service import Control
    from windlass.control.tokens import TokenControl
    from windlass.model.principal import Principal


class Controlling:
    """The control service of an app; the actor of these attributes is the application itself, which sees everything."""

    parts: AppParts

    def acting_as(self, who: Principal | Actor) -> Control:
        """The control service for a principal: its parts show and change what the principal may see and change, and the audit trail names the
        principal.

        >>> app.acting_as(principal).jobs.cancel(job_id, reason="ordered twice")
        """
        from windlass.control.actor import Actor
        from windlass.control.service import Control

        return Control(self.parts, who if isinstance(who, Actor) else Actor.of(who))

    @property
    def jobs(self) -> JobControl:
        """Shows, searches, cancels, retries and changes jobs."""
        return self.parts.control.jobs

    @property
    def phases(self) -> PhaseControl:
        """Counts, pauses and resumes phases."""
        return self.parts.control.phases

    @property
    def schedules(self) -> ScheduleControl:
        """Lists, pauses, resumes and runs schedules."""
        return self.parts.control.schedules

    @property
    def rules(self) -> RuleControl:
        """Lists rules and open fan-ins."""
        return self.parts.control.rules

    @property
    def failures(self) -> FailureControl:
        """Groups failed jobs by their cause."""
        return self.parts.control.failures

    @property
    def history(self) -> HistoryControl:
        """Reads statistics over time."""
        return self.parts.control.history

    @property
    def instances(self) -> InstanceControl:
        """Lists instances and their processors."""
        return self.parts.control.instances

    @property
    def overview(self) -> OverviewControl:
        """Reads the state of all phases and instances, and what is wrong."""
        return self.parts.control.overview

    @property
    def operations(self) -> OperationControl:
        """Begins, shows and stops acts on many jobs."""
        return self.parts.control.operations

    @property
    def audit(self) -> AuditControl:
        """Reads the audit trail."""
        return self.parts.control.audit

    @property
    def deploys(self) -> DeployControl:
        """Marks deploys on the charts, and lists the marks."""
        return self.parts.control.deploys

    @property
    def tokens(self) -> TokenControl:
        """Makes, lists and revokes API tokens."""
        return self.parts.control.tokens

    @property
    def doctor(self) -> DoctorControl:
        """Checks settings, database and instances."""
        return self.parts.control.doctor

    def events(self, *, timeout: float | None = None) -> Events:
        """Samples of everything, one a second; all watchers of this app read together. With a ``timeout`` an iteration ends when no sample came
        for so many seconds."""
        return self.parts.control.events(timeout=timeout)
