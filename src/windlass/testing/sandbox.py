"""One application on a temporary database, driven step by step by the test."""

from __future__ import annotations

import asyncio
import contextvars
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from windlass.app.app import App
from windlass.arguments.asyncness import is_async
from windlass.arguments.encoding import decode, encode
from windlass.clock import ManualClock
from windlass.closing import Closing
from windlass.config import Config, load
from windlass.engine.attempt import AttemptRunner, Call
from windlass.engine.running_attempt import Processor, RunningAttempt
from windlass.engine.running_job_store import RunningJobStore
from windlass.errors import LeaseLost
from windlass.features import Store, open_store
from windlass.forking import Process
from windlass.model import Enqueued, Job, JobFilter, Lease, NewJob, Outcome, State
from windlass.store.jobs.copy import SameKindJobs
from windlass.store.jobs.holder import Holder
from windlass.submit.submitter import Submitter
from windlass.testing.faults import Faults, Killed

LEASE = timedelta(seconds=30)
MOST_RUNS = 10_000


class Sandbox(Closing):
    """Runs jobs in the caller's thread. ``app`` is the application on the sandbox's database: enqueue through it."""

    def __init__(self, app: App, *, url: str | None = None, start: datetime | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="windlass-test-") if url is None else None
        self.clock = ManualClock(start)
        self.url = url or f"sqlite:///{Path(self._folder.name if self._folder else '.') / 'jobs.db'}"
        self.store: Store = open_store(self.url, clock=self.clock)
        self.config: Config = load({"database.url": self.url}, environ={})
        self.app = app.bound(config=self.config, store=self.store)
        self._original = app
        self._runner = AttemptRunner(
            self._store_of,
            wrap=self.app.wrap,
            authority=self.app.authority,
            probe=self._reached,
        )
        self._holder: Holder | None = None
        self._lease: Lease | None = None
        self.faults = Faults(self._lose_lease)

    # ------------------------------------------------------------------ running

    def drain(self, *, advance: bool = False) -> int:
        """Run everything that is due until nothing is; returns how many attempts ran. With ``advance`` the clock is moved to jobs that are
        due later, too (retries, delays), until nothing is left at all."""
        runs = 0
        while runs < MOST_RUNS:
            self._upkeep()
            lease = self._next()
            if lease is not None:
                self._run(lease)
                runs += 1
                continue
            due = self.store.upkeep.agenda().due_in if advance else None
            if due is None:
                return runs
            self.clock.advance(max(due, 0.0) + 0.001)
        raise AssertionError(f"{MOST_RUNS} attempts ran, and there is still work; does a job enqueue itself?")

    def run_one(self, job: Enqueued | Job | str) -> Job:
        """Run one attempt of one job, which must be due; returns it as it is afterwards."""
        job_id = job if isinstance(job, str) else job.id
        self._upkeep()
        lease = self._held.claim_one(job_id)
        assert lease is not None, f"job {job_id} is {self.store.jobs.get(job_id).state} and cannot be run now"
        self._run(lease)
        return self.store.jobs.get(job_id)

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock."""
        self.clock.advance(seconds)

    @contextmanager
    def inline(self) -> Iterator[None]:
        """While the block runs, what the *original* app enqueues is stored here and run at once, before ``enqueue`` returns."""
        before = self._original._submitter
        self._original._submitter = _Inline(self)
        try:
            yield
        finally:
            self._original._submitter = before

    # ------------------------------------------------------------------ reading

    def jobs(self, kind: str | None = None, *, state: State | None = None) -> list[Job]:
        """All jobs (of a kind, in a state), oldest first."""
        found: list[Job] = []
        cursor = None
        while True:
            page = self.store.jobs.list(JobFilter(kind=kind, state=state), cursor=cursor, limit=500)
            found += page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return sorted(found, key=lambda job: job.id)

    def only(self, kind: str) -> Job:
        """The one job of a kind."""
        found = self.jobs(kind)
        assert len(found) == 1, f"{len(found)} jobs of kind {kind!r}, not one"
        return found[0]

    def assert_enqueued(self, kind: str, /, *, count: int | None = None, **arguments: Any) -> list[Job]:
        """Jobs of a kind whose arguments include these; at least one, or exactly ``count``."""
        matching = self._matching(kind, arguments)
        wrong = len(matching) != count if count is not None else not matching
        if wrong:
            there = "\n".join(f"  {job.kind} {job.args}" for job in self.jobs()) or "  none"
            wanted = "at least one" if count is None else str(count)
            raise AssertionError(
                f"{wanted} wanted of {kind} with {arguments}, {len(matching)} found; jobs:\n{there}"
            )
        return matching

    def refute_enqueued(self, kind: str, /, **arguments: Any) -> None:
        """No job of a kind has these arguments."""
        matching = self._matching(kind, arguments)
        assert not matching, (
            f"{len(matching)} jobs of {kind} with {arguments}; none wanted: {matching[0].args}"
        )

    def _matching(self, kind: str, arguments: dict[str, Any]) -> list[Job]:
        if self.app.registry.kind(kind) is None and not self.jobs(kind):
            raise self.app.unknown_kind(
                kind
            )  # a spelling mistake would be no job, and none is what a test may want
        missing = object()
        # As they are stored: a date is a text there, and would equal none.
        wanted = decode(encode(arguments, what="arguments"), what="arguments")
        return [
            job
            for job in self.jobs(kind)
            if all(job.args.get(name, missing) == value for name, value in wanted.items())
        ]

    # ------------------------------------------------------------------ how it is done

    @property
    def _held(self) -> Holder:
        if self._holder is None:
            self._holder = self.store.join(lease=LEASE)
        return self._holder

    def _upkeep(self) -> None:
        if self._holder is not None:
            try:
                self._holder.beat()
            except LeaseLost:
                self._holder = None
        rules = self.app.registry.rules
        if rules:
            self.store.rules.define(rules.resolved(self.app.registry), rules.modules)
            self.store.rules.catch_up()
        while sum(self.store.upkeep.promote().values()):
            pass
        self.store.dependencies.link()
        while self.store.dependencies.settle():
            pass
        self.store.limits.let_in()
        self.store.recovery.recover()

    def _next(self) -> Lease | None:
        phases = self.app.registry.phases
        return next((lease for phase in phases for lease in self._held.claim(phase, 1)), None)

    def _run(self, lease: Lease) -> None:
        self._lease = lease
        self._held.start([lease])
        now, phase = time.monotonic(), self.app.registry.phase(lease.phase)
        running = RunningAttempt(lease, phase, Processor(lease.phase, 1), now, now, False)
        try:
            outcome = self._attempt(running)
            self.faults.reached(lease.kind, "end", lease.attempt)
        except Killed:
            self._die()
            return
        if outcome is not None and self._holder is not None:
            self._holder.record([outcome])
            self._holder.step()

    def _attempt(self, running: RunningAttempt) -> Outcome | None:
        lease = running.lease
        self._runner.pid = Process.pid
        call = self._runner.prepare(running)
        if not isinstance(call, Call):
            return call
        self.faults.reached(lease.kind, "start", lease.attempt)
        try:
            # As in a worker, whose threads know nothing of the block (as_principal) around the enqueue.
            value = contextvars.Context().run(_called, call)
        except Killed:
            raise
        except LeaseLost:
            return None
        except BaseException as error:  # noqa: BLE001  as an executor: anything a handler raises is an outcome
            return self._runner.raised(running, error)
        return self._runner.returned(running, value)

    def _store_of(self, running: RunningAttempt) -> RunningJobStore:
        return RunningJobStore(_Access(self.store, self._held), running, self.faults.check_database)

    def _reached(self, point: str, number: int) -> None:
        """The job that runs passed a point."""
        assert self._lease is not None
        self.faults.reached(self._lease.kind, point, number)

    def _die(self) -> None:
        """The process is gone: its claim stays, and its lease runs out."""
        self._holder = None
        self.clock.advance(LEASE + timedelta(seconds=1))

    def _lose_lease(self) -> None:
        self.clock.advance(LEASE + timedelta(seconds=1))
        self.store.recovery.recover()
        self._holder = None

    def close(self) -> None:
        self.app.close()
        self.store.close()
        if self._folder is not None:
            self._folder.cleanup()


def _called(call: Call) -> Any:
    """Call a handler; a coroutine runs on an event loop of its own, also where the test has one."""
    if not is_async(call.handler):
        return call()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(call())
    with ThreadPoolExecutor(1, thread_name_prefix="windlass-sandbox") as thread:
        return thread.submit(lambda: asyncio.run(call())).result()


class _Access(NamedTuple):
    """The store and the holder of an attempt, which stays the same when a fault takes the lease away."""

    store: Store
    holder: Holder


class _Inline(Submitter):
    """Stores, then runs, before it returns."""

    def __init__(self, box: Sandbox) -> None:
        super().__init__(box.store)
        self._box = box

    def submit(self, job: NewJob) -> Enqueued:
        made = self._box.store.enqueue([job])[0]
        self._box.drain()
        return made

    async def submit_async(self, job: NewJob) -> Enqueued:
        return await asyncio.to_thread(self.submit, job)

    async def submit_many_async(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued]:
        return await asyncio.to_thread(
            self.submit_many, jobs.encoded() if isinstance(jobs, SameKindJobs) else jobs
        )

    def submit_many(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued]:
        made = super().submit_many(jobs)
        self._box.drain()
        return made
