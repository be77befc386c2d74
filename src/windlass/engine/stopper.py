"""Stops jobs that are held here: a cancel, a time limit, a lost lease, the end of the instance."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.engine.attempt import AttemptRunner
from windlass.engine.executors.choice import Executors
from windlass.engine.instance import Instance
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.engine.stats import Stats
from windlass.engine.step import Stepper
from windlass.engine.workload import Workload
from windlass.model import ON_REQUEST, Cancelled
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.store.jobs.holder_results import CancelRequest


class Stopper:
    """Asks running jobs to stop, removes waiting jobs, and records the end of jobs that do not stop. From any thread."""

    def __init__(
        self,
        instance: Instance,
        workload: Workload,
        executors: Executors,
        runner: AttemptRunner,
        stepper: Stepper,
        stats: Stats,
    ) -> None:
        self._instance = instance
        self._workload = workload
        self._executors = executors
        self._runner = runner
        self._stepper = stepper
        self._stats = stats

    def stop(self, running: RunningAttempt, reason: Stop) -> None:
        """Ask one job to stop."""
        if self._workload.stop(running, reason):
            self._executors.stop_job(running)

    def stop_all(self, reason: Stop) -> None:
        """Ask every running job to stop."""
        for running in self._workload.running():
            self.stop(running, reason)

    def cancel(self, asked: CancelRequest) -> None:
        """Stop a job that was cancelled, if it is held here."""
        found = self._workload.find(asked.job, asked.token)
        if isinstance(found, RunningAttempt):
            self.stop(found, Stop.CANCELLED)
        elif found is not None:
            self._stepper.record([Cancelled(found, ON_REQUEST)])

    def cancel_all(self, asked: Sequence[CancelRequest]) -> None:
        for one in asked:
            self.cancel(one)

    def give_up(self, stubborn: Sequence[RunningAttempt]) -> None:
        """Record the end of jobs that do not stop, and give their processors to other jobs."""
        for running in stubborn:
            if self._workload.give_up(running):
                emit(
                    events.PROCESSOR_REPLACED,
                    lease=running.lease,
                    processor=running.processor.name,
                    reason=str(running.stop or ""),
                )
                self._stepper.record([self._runner.given_up(running)])
        self._stepper.assign()

    def abandon(self) -> None:
        """Record the end of all jobs that did not stop in time before the instance ends."""
        for running in self._workload.running():
            if self._workload.give_up(running):
                self._stepper.record([self._runner.cut_off(running)])

    def lease_over(self) -> None:
        """Stop all jobs because the lease is about to end unrenewed, and give back waiting jobs if the database still accepts that."""
        self._stats.count("self_stops")
        emit(events.SELF_STOPPED, instance=self._instance.id)
        self._stepper.give_back(self._workload.clear())
        self.stop_all(Stop.LEASE_LOST)

    def lease_lost(self) -> None:
        """Drop waiting jobs and stop running ones: other instances have them now."""
        self._workload.clear()
        self.stop_all(Stop.LEASE_LOST)
