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
from windlass.store.jobs.holder import CancelAsked


class Stopper:
    """Tells running jobs to stop, takes out those that wait, and records what comes of those that do not stop. From any thread."""

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
        """Tell one job to stop."""
        if self._workload.stop(running, reason):
            self._executors.stop_job(running)

    def stop_all(self, reason: Stop) -> None:
        """Tell every running job to stop."""
        for running in self._workload.running():
            self.stop(running, reason)

    def cancel(self, asked: CancelAsked) -> None:
        """Stop a job that was cancelled, if it is held here."""
        found = self._workload.find(asked.job, asked.token)
        if isinstance(found, RunningAttempt):
            self.stop(found, Stop.CANCELLED)
        elif found is not None:
            self._stepper.record([Cancelled(found, ON_REQUEST)])

    def cancel_all(self, asked: Sequence[CancelAsked]) -> None:
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
        """The lease is about to end unrenewed: stop everything, and give it back if the database still takes it."""
        self._stats.count("self_stops")
        emit(events.SELF_STOPPED, instance=self._instance.id)
        self._stepper.give_back(self._workload.clear())
        self.stop_all(Stop.LEASE_LOST)

    def lease_lost(self) -> None:
        """Other instances have the jobs now: drop what waits, stop what runs."""
        self._workload.clear()
        self.stop_all(Stop.LEASE_LOST)
