"""The step thread: records what ended, claims what is next, hands it over; one connection, one statement a turn.

Everything else waits for nobody: executors put outcomes in and go on, and this thread writes as many as there are. When the
database does not answer it keeps what it has, tries again with growing pauses, and claims nothing meanwhile.

There is one of it. A second one, with a connection of its own, made a single process a fifth faster at rates that nobody's handlers
reach, and two processes no faster; docs/decisions/0003-engine.md has the figures.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence

from windlass.engine.discovery import Discovery
from windlass.engine.executors.choice import Executors
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.instance import Instance
from windlass.engine.recorder import Recorder
from windlass.engine.running_attempt import RunningAttempt
from windlass.engine.single_writes import LONGEST_PAUSE, SHORTEST_PAUSE, SingleWrites
from windlass.engine.stats import Stats
from windlass.engine.workload import Workload, needs_start
from windlass.errors import FAULTS_OF_THE_STORE, StoreError, WindlassError
from windlass.model import Lease, Outcome, Released, Want
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.observe.logger import get_logger, thread
from windlass.settings import Settings
from windlass.store.jobs.holder import Step
from windlass.upkeep.troubles import Troubles

log = get_logger("windlass.engine")

REFUSED_PAUSE = 1.0
SETTLE_WAIT = 1.0
MOST_DELAYED = 20
"""Where more outcomes than this are given up it is no doing of theirs: nothing is claimed until some of them are written."""


class Stepper:
    """Owns the step thread: outcomes come in here, claimed jobs go out to the executors."""

    def __init__(
        self,
        instance: Instance,
        settings: Settings,
        stats: Stats,
        troubles: Troubles,
        workload: Workload,
        discovery: Discovery,
        recorder: Recorder,
        executors: Executors,
        heartbeat: Heartbeat,
    ) -> None:
        self._instance = instance
        self._workload = workload
        self._discovery = discovery
        self._recorder = recorder
        self._executors = executors
        self._heartbeat = heartbeat
        self._single = SingleWrites(instance, recorder, stats, lease=settings.lease)
        self._settings = settings
        self._stats = stats
        self._alarm = threading.Event()
        self._is_woken = False
        self._troubles = troubles
        self._refused_claims: set[str] = set()
        self._to_start: list[RunningAttempt] = []
        self._start_lock = threading.Lock()
        self._is_claiming = True
        self._is_over = False
        self._deadline = math.inf
        self._pause = self._rest_until = 0.0
        self._ending = threading.Event()
        self.is_reachable = True
        self.turned_at = time.monotonic()
        self._taking_in = threading.Lock()
        self._thread = thread(self._run, "windlass-step")

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        self.turned_at = time.monotonic()
        self._thread.start()

    def wake(self) -> None:
        """Wake the step thread, or keep it from falling asleep; costs nothing where that was done before."""
        if not self._is_woken:
            self._is_woken = True
            self._alarm.set()

    def record(self, outcomes: Iterable[Outcome]) -> None:
        """Have outcomes written."""
        self._recorder.put(outcomes)
        self.wake()

    def give_back(self, leases: Iterable[Lease]) -> None:
        """Have jobs given back unrun."""
        self.record([Released(lease) for lease in leases])

    def hint(self, phase: str | None = None) -> None:
        """There may be work in a phase (None: in any)."""
        if self._discovery.hint(phase):
            self.wake()

    def hear(self, is_listening: bool) -> None:
        """Whether notifications arrive."""
        self._discovery.heard(is_listening)
        self.wake()

    def hold(self, phase: str, is_held: bool) -> None:
        """Claim nothing from a phase for now, or again."""
        self._discovery.hold(phase, is_held)
        self.wake()

    def assign(self) -> None:
        """Give what waits in memory to idle processors. Claims and ends do so at once; this is the net under them."""
        if following := self._workload.assign():
            self.begin(following)
        if self._workload.has_news:
            self.wake()

    def begin(self, batch: Sequence[RunningAttempt]) -> None:
        """Give jobs to their executors; those whose start must be durable first pass through this thread."""
        careful = [running for running in batch if needs_start(running.lease)]
        if careful:
            batch = [running for running in batch if not needs_start(running.lease)]
            with self._start_lock:
                self._to_start += careful
            self.wake()
        if batch:
            events.started(batch)
            self._executors.dispatch(batch)

    def stop_claiming(self) -> None:
        """Take in nothing more: what a step under way still claims is given back."""
        self._is_claiming = False
        if self._taking_in.acquire(timeout=SETTLE_WAIT):  # what is being taken in at this moment has been
            self._taking_in.release()
        self.wake()

    def finish(self, deadline: float) -> bool:
        """Write what is left and end the thread; False when the database did not take it in time. Then it is left to recovery."""
        self._deadline = deadline
        self._is_over = True
        self._ending.set()
        self.wake()
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive() and not len(self._recorder)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        with self._instance.holder.stepping():
            self._turns()

    def _turns(self) -> None:
        while time.monotonic() < self._deadline:
            try:
                if self._turn():
                    continue
            except Exception:
                log.exception("the step thread met an error it did not expect; it goes on")
                self._stats.count("step_errors")
                self._sleep(LONGEST_PAUSE)
                continue
            if self._is_over and not len(self._recorder):
                self._last()
                return
            if self._to_start and not self._is_over:
                continue  # they could not be started; the pause that this asks for is over
            wait = self._discovery.wait() if self._is_claiming else 60.0
            self._sleep(min(wait, 60.0, self._single.next_try(is_over=self._is_over)))

    def _sleep(self, seconds: float) -> None:
        """Sleep until woken, at most so long. A wake from here on is not missed."""
        self._alarm.wait(max(0.0, seconds))
        self._alarm.clear()
        self._is_woken = False  # in this order: a wake in between finds it unset at worst once too often

    def _turn(self) -> bool:
        """One step, if there is anything to do; False when there is not."""
        self.turned_at = time.monotonic()
        self._start_careful()
        if self._workload.has_news:
            self._tend_suspects()
        if self._recorder.delayed:
            self._try_again()
        if elsewhere := self._recorder.count_elsewhere():
            self._discovery.finished(elsewhere)
        want = self._want()
        outcomes = self._recorder.take(self._settings.batch)
        if not outcomes and want is None:
            self._rest()
            return False
        began = time.monotonic()
        step: Step | Exception
        try:
            step = self._instance.holder.step(outcomes, want)
        except Exception as error:  # noqa: BLE001  told apart below
            step = error
        try:
            self._settle(outcomes, want, step, began)
        finally:
            self._recorder.settled(outcomes)
        self._rest()
        return True

    def _settle(
        self, outcomes: Sequence[Outcome], want: Want | None, step: Step | Exception, began: float
    ) -> None:
        """Take in what a step came to."""
        if isinstance(step, StoreError):
            self._failed(outcomes, want, step)
            return
        if isinstance(step, Exception):
            self._stats.count("step_errors")
            log.error(
                "a step failed in a way nobody expected; its outcomes are written one by one", exc_info=step
            )
            if want is not None:
                self._heartbeat.claim_failed()  # it may have been made before it failed
            self._slow_down()
            if outcomes:
                self._one_by_one(outcomes, step)
            return
        self._succeeded()
        try:
            if outcomes:
                self._discovery.finished(self._recorder.recorded(outcomes, step.verdicts, step.reasons))
        finally:  # last: from here on the jobs' own threads want the interpreter as well
            if want is not None:
                if self._refused_claims:
                    self._claimed_again(want.phase)
                self._discovery.learn(want, len(step.claimed), began)
                if step.claimed:
                    self._take_in(step.claimed)

    def _want(self) -> Want | None:
        if (
            not self._is_claiming
            or not self._heartbeat.has_lease
            or len(self._recorder.delayed) > MOST_DELAYED
        ):
            return None
        due: Sequence[str] = self._discovery.due()
        if not due:
            return None
        if len(due) > 1:  # by the clock, not by hints: one look for all of them
            due = self._look(due)
        if not due:
            return None
        return self._discovery.next(self._workload.room)

    def _look(self, due: Sequence[str]) -> Sequence[str]:
        if any(self._discovery.is_hot(phase) for phase in due):
            return due
        began = time.monotonic()
        try:
            found = self._instance.holder.look(due)
        except StoreError as error:
            self._failed((), None, error)
            return ()
        self._succeeded()
        self._discovery.nothing((phase for phase in due if phase not in found), began)
        return sorted(found)

    def _take_in(self, claimed: Sequence[Lease]) -> None:
        events.claimed(claimed)
        self._stats.claimed(claimed)
        with self._taking_in:
            if not self._is_claiming:
                self._recorder.put(Released(lease) for lease in claimed)
                return
            refused = self._workload.offer(claimed)
            for lease, reason in refused:
                emit(events.REFUSED, lease=lease, reason=str(reason))
                self._stats.count("refused", label=reason)
                self._discovery.postpone(lease.phase, REFUSED_PAUSE)
            self._recorder.put(Released(lease) for lease, _ in refused)
            self.begin(self._workload.assign())

    def _tend_suspects(self) -> None:
        """Give back the suspects that are too many here, and look for others once there are places for them again."""
        surplus, phases = self._workload.suspects()
        self._recorder.put(Released(lease) for lease in surplus)
        for phase in phases:
            self._instance.holder.nudge(phase)  # claims without them have gone past them
            self._discovery.hint(phase)

    def _start_careful(self) -> None:
        """Note durably that these jobs run now, then run those that are still ours."""
        if not self._to_start:
            return
        with self._start_lock:
            careful, self._to_start = self._to_start, []
        try:
            held = self._instance.holder.start([running.lease for running in careful])
        except StoreError as error:
            with self._start_lock:
                self._to_start = careful + self._to_start
            self._failed((), None, error)
            return
        except BaseException:
            with self._start_lock:
                self._to_start = careful + self._to_start
            raise
        now = time.monotonic()
        for running in careful:
            running.started = now
        gone = [running for running in careful if running.lease.id not in held]
        if gone:
            self._stats.count("lease_lost", len(gone))
            _, following = self._workload.end(gone)
            self.begin(following)
        begun = [running for running in careful if running.lease.id in held]
        events.started(begun)
        self._executors.dispatch(begun)

    def _last(self) -> None:
        """Remove the claim rows that the last records emptied."""
        try:
            self._instance.holder.step()
        except WindlassError:
            log.debug("could not tidy the last claims; recovery will", exc_info=True)

    # ------------------------------------------------------------------ when the database does not answer

    def _rest(self) -> None:
        """Sleep as long as a failed step asks for; less when the engine ends."""
        left = self._rest_until - time.monotonic()
        if left > 0 and self._ending.wait(left):
            time.sleep(min(left, SHORTEST_PAUSE))

    def _succeeded(self) -> None:
        if not self.is_reachable:
            self.is_reachable = True
            events.store_back()
        self._pause = self._rest_until = 0.0

    def _failed(self, outcomes: Sequence[Outcome], want: Want | None, error: StoreError) -> None:
        self._stats.count("step_errors")
        if want is not None:
            self._heartbeat.claim_failed()
        if isinstance(error, FAULTS_OF_THE_STORE):
            self._wait_for_the_store(outcomes, error)
        elif outcomes:
            self._one_by_one(outcomes, error)
        elif want is not None:
            self._claim_refused(want.phase, error)
        else:
            self._wait_for_the_store((), error)

    def _claim_refused(self, phase: str, error: StoreError) -> None:
        """The database refuses the claims of one phase: the others are served meanwhile."""
        self._refused_claims.add(phase)
        self._troubles.failed(f"claims of {phase}", error)
        self._discovery.postpone(phase, REFUSED_PAUSE)
        self._slow_down()

    def _claimed_again(self, phase: str) -> None:
        if phase in self._refused_claims:
            self._refused_claims.discard(phase)
            self._troubles.worked(f"claims of {phase}")

    def _wait_for_the_store(self, outcomes: Sequence[Outcome], error: StoreError) -> None:
        """No outcome is to blame: they wait in memory until the database takes them."""
        self._recorder.put_back(outcomes)
        self.is_reachable = False
        events.store_unreachable(error)
        self._slow_down()

    def _slow_down(self) -> None:
        now = time.monotonic()
        if now >= self._rest_until:  # what fails in one step is one failure
            self._pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, self._pause * 2))
            self._rest_until = now + self._pause

    def _one_by_one(self, outcomes: Sequence[Outcome], error: Exception) -> None:
        """The database refused a batch: find out which outcome it refuses, so that the others are not held up."""
        log.warning("a batch of %d outcomes was refused (%s); writing them one by one", len(outcomes), error)
        try:
            if not self._single.write(outcomes):
                self._slow_down()
        except FAULTS_OF_THE_STORE as fault:
            self._wait_for_the_store((), fault)

    def _try_again(self) -> None:
        try:
            self._single.try_again(is_over=self._is_over)
        except FAULTS_OF_THE_STORE as fault:
            self._wait_for_the_store((), fault)
