"""The step thread: records ended jobs, claims new ones and starts them; one connection, one statement a step.

No other thread waits for it: executors add outcomes and continue, and this thread writes all that are there. When the database does not
answer, it keeps the outcomes, tries again with growing pauses, and claims nothing meanwhile.

An instance has one step thread (docs/decisions/0003-engine.md has the figures of a second one).
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from windlass.engine.discovery import MOST_PHASES, Discovery
from windlass.engine.executors.choice import Executors
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.instance import Instance
from windlass.engine.job_locks import JobLocks
from windlass.engine.recorder import Recorder
from windlass.engine.running_attempt import RunningAttempt
from windlass.engine.single_writes import LONGEST_PAUSE, SHORTEST_PAUSE, SingleWrites
from windlass.engine.starts import REFUSED_PAUSE, Starts
from windlass.engine.stats import Stats
from windlass.engine.workload import Workload, needs_start
from windlass.errors import FAULTS_OF_THE_STORE, StoreError, WindlassError
from windlass.model import Advanced, Lease, Outcome, Released, Want
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.observe.logger import get_logger, thread
from windlass.settings import Settings
from windlass.store.jobs.holder_results import Step
from windlass.upkeep.troubles import Troubles

log = get_logger("windlass.engine")

ACCEPT_WAIT = 1.0
ALONE = 5.0  # for how long phases are claimed from one by one after a step with several was refused: which one is to blame?
MOST_DELAYED = 20
"""If the writes of more outcomes than this were aborted, the outcomes are not the cause: nothing is claimed until some are written."""


class Stepper:
    """Owns the step thread, which writes outcomes and gives claimed jobs to the executors."""

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
        locks: JobLocks | None = None,
    ) -> None:
        self._instance = instance
        self.locks = locks
        self._starts = Starts(instance, stats, workload, discovery, recorder, locks, self.begin)
        self._workload = workload
        self._discovery = discovery
        self._recorder = recorder
        self._executors = executors
        self._heartbeat = heartbeat
        self._single = SingleWrites(instance, recorder, stats, lease=settings.lease)
        self._settings = settings
        self._stats = stats
        self._alarm, self._ending = threading.Event(), threading.Event()
        self._is_woken = False
        self._troubles = troubles
        self._refused_claims: set[str] = set()
        self._is_claiming, self._is_over = True, False
        self._deadline = math.inf
        self._pause = self._pause_until = self._one_by_one_until = 0.0
        self.is_reachable = True
        self.stepped_at = time.monotonic()
        self._accept_lock = threading.Lock()
        self._thread = thread(self._run, "windlass-step")

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        if self.locks is not None:
            self.locks.open(self._instance.id)
        self.stepped_at = time.monotonic()
        self._thread.start()

    def wake(self) -> None:
        """Wake the step thread, or keep it from sleeping; costs nothing if it was woken before."""
        if not self._is_woken:
            self._is_woken = True
            self._alarm.set()

    def record(self, outcomes: Iterable[Outcome]) -> None:
        """Queue outcomes to be written."""
        self._recorder.put(outcomes)
        self.wake()

    def give_back(self, leases: Iterable[Lease]) -> None:
        """Give jobs back without running them."""
        self.record([Released(lease) for lease in leases])

    def hint(self, phase: str | None = None) -> None:
        """Note that a phase (None: any) may have work."""
        if self._discovery.hint(phase):
            self.wake()

    def set_listening(self, is_listening: bool) -> None:
        """Note whether notifications arrive."""
        self._discovery.set_listening(is_listening)
        self.wake()

    def hold(self, phase: str, is_held: bool) -> None:
        """Claim nothing from a phase (``is_held``), or claim from it again."""
        self._discovery.hold(phase, is_held)
        self.wake()

    def assign(self) -> None:
        """Give jobs that wait in memory to idle processors. Claims and ends do so at once; this call is the safety net."""
        if following := self._workload.assign():
            self.begin(following)
        if self._workload.suspects_changed:
            self.wake()

    def begin(self, batch: Sequence[RunningAttempt]) -> None:
        """Give jobs to their executors; the step thread first prepares jobs that need that, which are all where locks are required."""
        if self.locks is not None:
            prepared, batch = batch, ()
        elif prepared := [running for running in batch if needs_start(running.lease)]:
            batch = [running for running in batch if not needs_start(running.lease)]
        if prepared:
            self._starts.add(prepared)
            self.wake()
        if batch:
            events.started(batch)
            self._executors.dispatch(batch)

    def stop_claiming(self) -> None:
        """Accept no more jobs: jobs that a running step still claims are given back."""
        self._is_claiming = False
        if self._accept_lock.acquire(timeout=ACCEPT_WAIT):  # wait for jobs that are being accepted now
            self._accept_lock.release()
        self.wake()

    def finish(self, deadline: float) -> bool:
        """Write the last outcomes and end the thread; False if they could not be written in time. Recovery then handles their jobs."""
        self._deadline = deadline
        self._is_over = True
        self._ending.set()
        self.wake()
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self.locks is not None:
            self.locks.close()
        return not self._thread.is_alive() and not len(self._recorder)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        with self._instance.holder.stepping():
            self._step_until_finished()

    def _step_until_finished(self) -> None:
        while time.monotonic() < self._deadline:
            try:
                is_idle = not self._step()
                if self._pause_until:
                    self._sleep_after_failure()
                if not is_idle:
                    continue
            except Exception:
                log.exception("unexpected error in the step thread; it continues")
                self._stats.count("step_errors")
                self._sleep(LONGEST_PAUSE)
                continue
            if self._is_over and not len(self._recorder):
                self._remove_empty_claims()
                return
            if self._starts.waiting and not self._is_over:
                continue  # their start could not be stored; the pause after that is over
            wait = self._discovery.wait() if self._is_claiming else 60.0
            if self.locks is not None and self.locks.is_away:
                wait = min(wait, REFUSED_PAUSE)
            retry = self._single.next_try(is_over=self._is_over) if self._recorder.delayed else wait
            self._sleep(min(wait, retry, 60.0))

    def _sleep(self, seconds: float) -> None:
        """Sleep until woken, at most ``seconds``. A wake from here on is not missed."""
        self._alarm.wait(max(0.0, seconds))
        self._alarm.clear()
        self._is_woken = False  # in this order: a wake in between causes at most one step too many

    def _step(self) -> bool:
        """Make one step; False if there was nothing to do."""
        self.stepped_at = time.monotonic()
        if self._starts.waiting:
            self._start_prepared()
        if self._workload.suspects_changed:
            self._balance_suspects()
        if self._recorder.delayed:
            self._try_again()
        if elsewhere := self._recorder.count_elsewhere():
            self._discovery.finished(Counter(lease.phase for lease in elsewhere))
            if self.locks is not None:
                self.locks.ended(elsewhere)
        outcomes = self._recorder.take(self._settings.page)
        try:
            wants = self._wants(outcomes)
        except BaseException:
            self._recorder.put_back(outcomes)
            self._recorder.settled(outcomes)
            raise
        if self.locks is not None:
            self.locks.ended(outcome.lease for outcome in outcomes)
            self.locks.release()  # before they are recorded: the instance that claims the next phase needs the lock
        if not outcomes and not wants:
            return False
        began = time.monotonic()
        step: Step | Exception
        try:
            step = self._instance.holder.step(outcomes, *wants)
        except Exception as error:  # noqa: BLE001  handled by its type below
            step = error
        try:
            self._apply(outcomes, wants, step, began)
        finally:
            self._recorder.settled(outcomes)
        return True

    def _apply(
        self, outcomes: Sequence[Outcome], wants: Sequence[Want], step: Step | Exception, began: float
    ) -> None:
        """Apply the result of a step: count outcomes, accept claimed jobs, or handle its error."""
        if isinstance(step, StoreError):
            self._failed(outcomes, wants, step)
            return
        if isinstance(step, Exception):
            self._stats.count("step_errors")
            log.error("unexpected error in a step; its outcomes are written one by one", exc_info=step)
            if wants:
                self._heartbeat.claim_failed()  # the claim may have been made before the error
            self._slow_down()
            if outcomes:
                self._one_by_one(outcomes, step)
            return
        if self._pause:
            self._succeeded()
        try:
            if outcomes:
                self._discovery.finished(self._recorder.recorded(outcomes, step.verdicts, step.reasons))
        finally:  # last: from here on the threads of jobs compete for the interpreter
            if self._refused_claims:
                self._claimed_again(wants)
            self._discovery.claimed_all(wants, step.claimed, began)
            if step.claimed:
                self._accept(step.claimed)

    def _wants(self, outcomes: Sequence[Outcome]) -> Sequence[Want]:
        """What to claim in the step that records these outcomes."""
        if (
            not self._is_claiming
            or not self._heartbeat.has_lease
            or len(self._recorder.delayed) > MOST_DELAYED
            or (self.locks is not None and self.locks.is_away)
        ):
            return ()
        if goes_on := {outcome.phase for outcome in outcomes if outcome.__class__ is Advanced}:
            self._discovery.goes_on(goes_on)
        due: Sequence[str] = self._discovery.due()
        if len(due) > 1:  # by the clock, not by hints: one scan for all of them
            due = self._scan(due)
        if not due:
            return ()
        is_single = self._refused_claims or time.monotonic() < self._one_by_one_until
        return self._discovery.wants(self._workload.room, 1 if is_single else MOST_PHASES)

    def _scan(self, due: Sequence[str]) -> Sequence[str]:
        if any(self._discovery.is_hot(phase) for phase in due):
            return due
        began = time.monotonic()
        try:
            found = self._instance.holder.look(due)
        except StoreError as error:
            self._failed((), (), error)
            return ()
        self._succeeded()
        self._discovery.found_empty((phase for phase in due if phase not in found), began)
        return sorted(found)

    def _accept(self, claimed: Sequence[Lease]) -> None:
        events.claimed(claimed)
        self._stats.claimed(claimed)
        with self._accept_lock:
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

    def _balance_suspects(self) -> None:
        """Give back the suspects that have no place here, and claim suspects again once there are places."""
        surplus, phases = self._workload.take_surplus()
        self._recorder.put(Released(lease) for lease in surplus)
        for phase in phases:
            self._instance.holder.nudge(phase)  # claims without suspects have skipped them
            self._discovery.hint(phase)

    def _start_prepared(self) -> None:
        """Start the jobs that need a preparation, as far as they are still held here."""
        try:
            begun = self._starts.prepare()
        except StoreError as error:
            self._failed((), (), error)
            return
        events.started(begun)
        self._executors.dispatch(begun)

    def _remove_empty_claims(self) -> None:
        """Remove the claim rows that the last records emptied."""
        try:
            self._instance.holder.step()
        except WindlassError:
            log.debug("could not remove the last empty claims; recovery will", exc_info=True)

    # ------------------------------------------------------------------ when the database does not answer

    def _sleep_after_failure(self) -> None:
        """Sleep for the pause after a failed step; shorter when the engine ends."""
        left = self._pause_until - time.monotonic()
        if left > 0 and self._ending.wait(left):
            time.sleep(min(left, SHORTEST_PAUSE))

    def _succeeded(self) -> None:
        if not self.is_reachable:
            self.is_reachable = True
            events.store_back()
        self._pause = self._pause_until = 0.0

    def _failed(self, outcomes: Sequence[Outcome], wants: Sequence[Want], error: StoreError) -> None:
        self._stats.count("step_errors")
        if wants:
            self._heartbeat.claim_failed()
        if len(wants) > 1:
            self._one_by_one_until = time.monotonic() + ALONE
        if isinstance(error, FAULTS_OF_THE_STORE) or not (outcomes or wants):
            self._wait_for_the_store(outcomes, error)
        elif outcomes:
            self._one_by_one(outcomes, error)
        elif len(wants) == 1:
            self._claim_refused(wants[0].phase, error)
        else:
            self._slow_down()

    def _claim_refused(self, phase: str, error: StoreError) -> None:
        """Pause the claims of a phase that the database refuses; other phases are still served."""
        self._refused_claims.add(phase)
        self._troubles.failed(f"claims of {phase}", error)
        self._discovery.postpone(phase, REFUSED_PAUSE)
        self._slow_down()

    def _claimed_again(self, wants: Sequence[Want]) -> None:
        for phase in self._refused_claims.intersection(want.phase for want in wants):
            self._refused_claims.discard(phase)
            self._troubles.worked(f"claims of {phase}")

    def _wait_for_the_store(self, outcomes: Sequence[Outcome], error: StoreError) -> None:
        """Keep outcomes in memory until the database accepts writes again: the outcomes are not the cause."""
        self._recorder.put_back(outcomes)
        self.is_reachable = False
        events.store_unreachable(error)
        self._slow_down()

    def _slow_down(self) -> None:
        now = time.monotonic()
        if now >= self._pause_until:  # several failures in one step count once
            self._pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, self._pause * 2))
            self._pause_until = now + self._pause

    def _one_by_one(self, outcomes: Sequence[Outcome], error: Exception) -> None:
        """Write the outcomes of a refused page one by one, so that only the refused one is delayed."""
        log.warning("a page of %d outcomes was refused (%s); writing them one by one", len(outcomes), error)
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
