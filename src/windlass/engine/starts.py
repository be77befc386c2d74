"""Jobs that need a preparation by the step thread before they run: their start is stored, and their lock acquired where locks are required."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from windlass.engine.discovery import Discovery
from windlass.engine.instance import Instance
from windlass.engine.job_locks import JobLocks
from windlass.engine.lock_owners import LockOwners
from windlass.engine.recorder import Recorder
from windlass.engine.running_attempt import RunningAttempt
from windlass.engine.stats import Stats
from windlass.engine.workload import Workload, needs_start
from windlass.model import UNBEGUN, JobError, Lease, Released, has_flag

REFUSED_PAUSE = 1.0
MOST_REPORTED = 10_000


class Starts:
    """Jobs that are assigned to a processor and not given to their executor yet."""

    def __init__(
        self,
        instance: Instance,
        stats: Stats,
        workload: Workload,
        discovery: Discovery,
        recorder: Recorder,
        locks: JobLocks | None,
        begin: Callable[[Sequence[RunningAttempt]], None],
    ) -> None:
        self._instance = instance
        self._stats = stats
        self._workload = workload
        self._discovery = discovery
        self._recorder = recorder
        self._locks = locks
        self._begin = begin
        self._lock = threading.Lock()
        self.waiting: list[RunningAttempt] = []
        self._reported: OrderedDict[str, str] = (
            OrderedDict()
        )  # refused jobs, and why, as their timelines have it

    def add(self, jobs: Sequence[RunningAttempt]) -> None:
        """Have jobs prepared by the next step; from any thread."""
        with self._lock:
            self.waiting += jobs

    def prepare(self) -> list[RunningAttempt]:
        """Prepare the jobs that wait here; returns those that run now. If their start cannot be stored, they wait on and the error is raised."""
        with self._lock:
            jobs, self.waiting = self.waiting, []
        try:
            if self._locks is not None:
                jobs = self._locked(jobs, self._locks)
            durable = [running.lease for running in jobs if needs_start(running.lease)]
            held = self._instance.holder.start(durable) if durable else set()
        except BaseException:
            with self._lock:
                self.waiting = jobs + self.waiting
            raise
        now = time.monotonic()
        for running in jobs:
            running.started = now
        gone = [running for running in jobs if needs_start(running.lease) and running.lease.id not in held]
        if not gone:
            return jobs
        for running in gone:
            if has_flag(running.lease.flags, UNBEGUN):  # ended: it was not allowed to begin
                self._stats.ended_many(running.lease.phase, "cancelled", [None])
            else:
                self._stats.count("lease_lost")
        if self._locks is not None:
            self._locks.ended(running.lease for running in gone)
        _, following = self._workload.end(gone)
        self._begin(following)
        return [running for running in jobs if running not in gone]

    def _locked(self, jobs: Sequence[RunningAttempt], locks: JobLocks) -> list[RunningAttempt]:
        """The jobs whose lock was acquired. The others are put off, without an attempt. Without Redis, and at the end of the instance, they
        go back to their queues with all that wait behind them, and their phases pause."""
        owners = LockOwners(self._instance.store.instances.is_dead)
        locked: list[RunningAttempt] = []
        refused: list[RunningAttempt] = []
        reasons: list[str] = []
        for running in jobs:
            lease = running.lease
            why = locks.acquire(lease, self._instance.id, partial(owners.is_over, claim=lease.token))
            if why is None:
                locked.append(running)
                self._reported.pop(lease.id, None)
            else:
                refused.append(running)
                reasons.append(why)
        if not refused:
            return locked
        if locks.is_away or locks.is_closed:
            for phase in {running.lease.phase for running in refused}:
                self._discovery.postpone(phase, REFUSED_PAUSE)  # a claim would return the same jobs
            self._recorder.put(Released(lease) for lease in self._workload.reject(refused))
            return locked
        firsts, following = self._workload.end(refused)
        self._begin(following)
        self._recorder.put(
            self._put_off(running.lease, why)
            for running, why, first in zip(refused, reasons, firsts, strict=True)
            if first
        )
        return locked

    def _put_off(self, lease: Lease, why: str) -> Released:
        """The outcome of a job whose lock was refused. The same reason is stored once: the job may be refused every second for hours."""
        is_known = self._reported.get(lease.id) == why
        self._reported[lease.id] = why
        self._reported.move_to_end(lease.id)
        while len(self._reported) > MOST_REPORTED:
            self._reported.popitem(last=False)
        text = f"{why}; it is tried again every second"
        error = None if is_known else JobError(type="LockRefused", code="lock_refused", message=text)
        return Released(lease, error=error, delay=timedelta(seconds=REFUSED_PAUSE))
