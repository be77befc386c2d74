"""Who is told what: each part of an instance reports here, and here it is decided which other parts have to know.

The parts know nothing of each other. What they report is short: it is told from their own threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.engine.attempt import AttemptRunner
from windlass.engine.discovery import Discovery
from windlass.engine.executors.choice import Executors
from windlass.engine.executors.contract import Ended
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.recorder import Recorder
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.engine.stats import Stats
from windlass.engine.step import REFUSED_PAUSE, Stepper
from windlass.engine.waker import Waker
from windlass.engine.watchdog import Watchdog
from windlass.engine.workload.workload import Workload
from windlass.model import ON_REQUEST, Cancelled, Fired, Lease, Outcome, Recovered, Released
from windlass.observe import events
from windlass.store.jobs.holder import CancelAsked
from windlass.upkeep.loop import UpkeepLoop


class Switchboard:
    """Passes on what the parts tell. Parts that report here are made with it, so ``connect`` names them afterwards."""

    def __init__(
        self,
        *,
        workload: Workload,
        recorder: Recorder,
        discovery: Discovery,
        runner: AttemptRunner,
        waker: Waker,
        stats: Stats,
    ) -> None:
        self._workload = workload
        self._recorder = recorder
        self._discovery = discovery
        self._runner = runner
        self._waker = waker
        self._stats = stats
        self._has_listened = False

    def connect(
        self,
        *,
        heartbeat: Heartbeat,
        hosts: Executors,
        watchdog: Watchdog,
        stepper: Stepper,
        upkeep_loop: UpkeepLoop,
    ) -> None:
        """Name the parts that have threads. Before they start: they may report at once."""
        self._heartbeat = heartbeat
        self._hosts = hosts
        self._watchdog = watchdog
        self._stepper = stepper
        self._upkeep_loop = upkeep_loop

    def on_ended(self, ended: Sequence[Ended]) -> None:
        firsts, following = self._workload.end([item.running for item in ended])
        for item in ended:
            if (context := item.running.context) is not None and context.awaits_commit:
                self._recorder.expect_elsewhere(item.running.lease)
        outcomes = [
            item.outcome
            for item, first in zip(ended, firsts, strict=True)
            if first and item.outcome is not None
        ]
        if outcomes:
            self._recorder.put(outcomes)
        for item, first in zip(ended, firsts, strict=True):
            if first and item.outcome is None:
                self._recorder.recorded_elsewhere(item.running)
        if following:
            self._stepper.begin(following)
        self._waker.wake()

    def on_recorded(self, lease: Lease) -> None:
        """A child process ended its job in a transaction of its own."""
        self._heartbeat.holder.let_go([lease])

    def record(self, outcome: Outcome) -> None:
        self._recorder.put([outcome])
        self._waker.wake()

    def give_back(self, leases: Iterable[Lease]) -> None:
        self._recorder.put([Released(lease) for lease in leases])
        self._waker.wake()

    def on_unstarted(self, jobs: Sequence[RunningAttempt], is_given_back: bool) -> None:
        """An executor could not start these jobs. Their phases are left alone for a moment: the next claim would bring them back."""
        for phase in {running.lease.phase for running in jobs}:
            self._discovery.postpone(phase, REFUSED_PAUSE)
        if is_given_back:
            self.give_back(self._workload.turn_away(jobs))

    def stop_job(self, running: RunningAttempt, reason: Stop) -> None:
        if self._workload.stop(running, reason):
            self._hosts.stop_job(running)

    def assign(self) -> None:
        """Give what waits to idle processors. Claims and ends do so at once; this is the net under them."""
        if following := self._workload.assign():
            self._stepper.begin(following)
        if self._workload.has_news:
            self._waker.wake()

    def give_up(self, stubborn: Sequence[RunningAttempt]) -> None:
        for running in stubborn:
            if not self._workload.give_up(running):
                continue
            events.processor_replaced(running, running.stop or "")
            self.record(self._runner.given_up(running))
        self.assign()

    def abandon(self) -> None:
        """The instance ends, and these jobs did not stop in time."""
        for running in self._workload.running():
            if self._workload.give_up(running):
                self.record(self._runner.cut_off(running))

    def cancel(self, asked: CancelAsked) -> None:
        """A job was asked to stop: here is where it happens, if it is here."""
        found = self._workload.find(asked.job, asked.token)
        if isinstance(found, RunningAttempt):
            self.stop_job(found, Stop.CANCELLED)
        elif found is not None:
            self.record(Cancelled(found, ON_REQUEST))

    def cancel_all(self, asked: Sequence[CancelAsked]) -> None:
        for one in asked:
            self.cancel(one)

    def on_hint(self, phase: str | None) -> None:
        if phase is None:
            self._upkeep_loop.ask("wake")
            if not self._heartbeat.is_looking and not self._workload.is_empty:
                self._heartbeat.look()
        if self._discovery.hint(phase):
            self._waker.wake()

    def on_nudge(self, phase: str) -> None:
        self._heartbeat.holder.nudge(phase)
        self.on_hint(phase)

    def on_listening(self, is_listening: bool) -> None:
        if is_listening and self._has_listened:
            self._stats.count("reconnects")
        self._has_listened = self._has_listened or is_listening
        self._discovery.heard(is_listening)
        self._waker.wake()

    def on_promoted(self, phase: str, count: int) -> None:
        self._stats.count("promoted", count)
        events.promoted(phase, count)
        self.on_hint(phase)

    def on_pressure(self, phase: str, is_held: bool) -> None:
        self._discovery.hold(phase, is_held)
        self._waker.wake()

    def on_fired(self, item: Fired) -> None:
        self._stats.count("ticks", len(item.ticks))
        self._stats.count("ticks_skipped", item.skipped)
        events.fired(item)
        if item.ticks:
            self.on_hint(item.phase)

    def on_crash(self) -> None:
        """A process died under a job, and the job is charged with it: a child of ours, or an instance whose job was recovered here."""
        self._stats.count("crashes")

    def on_recovered(self, item: Recovered) -> None:
        self._stats.count("recovered", label=item.verdict)
        events.recovered(item)
        self._recorder.recovered(item)

    def on_good(self, is_new: bool) -> None:
        if is_new or not self._watchdog.has_lease:
            self._watchdog.lease_is_good()
            self._discovery.hint()
            self._waker.wake()

    def on_lease_over(self) -> None:
        """The lease is about to end unrenewed: stop everything, and give it back if the database can still be told."""
        self._stats.count("self_stops")
        events.self_stopped(self._heartbeat.holder.id)
        self.give_back(self._workload.clear())
        for running in self._workload.running():
            self.stop_job(running, Stop.LEASE_LOST)

    def on_lost(self, why: str) -> None:
        """Others have our jobs now: what waits is dropped, what runs is stopped."""
        self._workload.clear()
        for running in self._workload.running():
            self.stop_job(running, Stop.LEASE_LOST)
