"""One application on a temporary database, driven step by step by the test."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from windlass.app.app import App
from windlass.clock import ManualClock
from windlass.closing import Closing
from windlass.config import Config
from windlass.engine.around import MiddlewareRunner
from windlass.engine.attempt import Call
from windlass.engine.running_attempt import Processor, RunningAttempt
from windlass.engine.running_job_store import RunningJobStore
from windlass.errors import LeaseLost, SandboxError
from windlass.features import Store, open_store
from windlass.forking import Process
from windlass.handlers.chunk_defaults import ChunkDefaults
from windlass.handlers.registry import Registry
from windlass.model import Enqueued, Job, JobFilter, Lease, NewJob, Outcome, State
from windlass.store.jobs.holder import Holder
from windlass.submit.handle import JobHandle
from windlass.testing import isolation
from windlass.testing.assertions import Assertions
from windlass.testing.calling import Access, call_handler
from windlass.testing.capture import Capture
from windlass.testing.checks import check_sandbox, checked_step, id_of
from windlass.testing.faults import Faults, Killed
from windlass.testing.submitting import SandboxSubmitter, SandboxTransactions
from windlass.urls import shown_url

LEASE = timedelta(seconds=30)
MOST_RUNS = 10_000
T = TypeVar("T")


class Sandbox(Assertions[Job], Closing):
    """Runs jobs in the caller's thread, on a database of its own.

    From its creation to ``close``, everything that the application submits is stored here, and opening any other database is refused. ``app``
    is the application on the sandbox's database, for test doubles (``box.app.provide``) and for jobs by name.
    """

    def __init__(self, app: App, *, url: str | None = None, start: datetime | None = None) -> None:
        check_sandbox(app, url, start)
        self._original, self._home = app, app.parts.home
        find = self._home.test_host
        self._host = find() if url is None and find is not None else None
        is_own = url is None and self._host is None
        self._folder = tempfile.TemporaryDirectory(prefix="windlass-test-") if is_own else None
        if self._host is not None:
            start = start or datetime.now(UTC)  # jobs of the framework's test may be there
        self.clock = ManualClock(start)
        self.url = self._url(url)
        isolation.allow_only(self.url)
        self._is_open = True
        try:
            self.store: Store = (
                open_store(self.url, clock=self.clock)
                if self._host is None
                else self._host.open_store(self.clock)
            )
            self.config: Config = self._home.own.code_config(self.url)
        except BaseException:
            isolation.forget(self.url)
            raise
        self.app = App.of(self._home.bound(config=self.config, store=self.store, url=self.url))
        self.app.parts.use_submitter(
            SandboxSubmitter(self, self._host.call if self._host is not None else asyncio.to_thread),
            SandboxTransactions(self, is_hosted=self._host is not None),
        )
        self._home.use_instead(self.app.parts)
        self._runner = MiddlewareRunner(
            self._store_of,
            self._home.registry.middleware,
            deadly=(Killed,),
            wrap=self.app.parts.wrap,
            authority=self.app.parts.authority,
            probe=self._reached,
            chunk_defaults=ChunkDefaults.of(self.app.settings),
        )
        self._holder: Holder | None = None
        self._lease: Lease | None = None
        self._prepared_day: date | None = None
        self._inlined = 0
        self._is_running = False
        self._captures: list[Capture] = []
        self.faults = Faults(self._lose_lease)

    def _url(self, given: str | None) -> str:
        if given is not None:
            return given
        if self._folder is None:
            assert self._host is not None
            return self._host.url
        return f"sqlite:///{Path(self._folder.name) / 'jobs.db'}"

    # ------------------------------------------------------------------ running

    def drain(self, *, advance: bool = False) -> int:
        """Run everything that is due until nothing is; returns how many attempts ran. With ``advance`` the clock is moved to jobs that are
        due later, too (retries, delays), until nothing is left at all."""
        was, self._is_running = self._is_running, True
        try:
            return self.beside_loop(lambda: self._drain(advance))
        finally:
            self._is_running = was

    def _drain(self, advance: bool) -> int:
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

    def run_one(self, job: JobHandle[Any] | Enqueued | Job | str) -> Job:
        """Run one attempt of one job, which must be due; returns it as it is afterwards."""
        job_id = id_of(job)
        return self.beside_loop(lambda: self._run_one(job_id))

    def _run_one(self, job_id: str) -> Job:
        self._upkeep()
        lease = self._held.claim_one(job_id)
        assert lease is not None, f"job {job_id} is {self.store.jobs.get(job_id).state} and cannot be run now"
        self._run(lease)
        return self.store.jobs.get(job_id)

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock."""
        self.clock.advance(checked_step(seconds))

    @contextmanager
    def inline(self) -> Iterator[None]:
        """While the block runs, jobs are run at once, before ``enqueue`` returns. Jobs of ``enqueue_in`` are run when the transaction is
        committed, where the sandbox knows of that (Django); else with the next ``enqueue``, or at the end of the block."""
        self._inlined += 1
        try:
            with nullcontext() if self._host is None else self._host.after_blocks(self.run_inline):
                yield
            self.run_inline()
        finally:
            self._inlined -= 1

    @contextmanager
    def capture(self) -> Iterator[Capture]:
        """Collect what is submitted while the block runs: a sequence of ``CapturedJob`` with ``kind``, ``args`` and ``options``, and with
        ``assert_enqueued`` and ``refute_enqueued``. Nothing runs in the block, also in an ``inline`` block; ``drain`` runs the jobs later."""
        captured = Capture(
            self.app.parts.registry,
            lambda ids: self.beside_loop(lambda: list(self.store.ends.present(ids))),
        )
        self._captures.append(captured)
        try:
            yield captured
        finally:
            self._captures.remove(captured)

    # ------------------------------------------------------------------ reading

    def jobs(self, kind: str | None = None, *, state: State | None = None) -> list[Job]:
        """All jobs (of a kind, in a state), oldest first."""
        return self.beside_loop(lambda: self._jobs(kind, state))

    def _jobs(self, kind: str | None, state: State | None) -> list[Job]:
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

    def _listed(self) -> list[Job]:
        return self.jobs()

    @property
    def _registry(self) -> Registry:
        return self.app.parts.registry

    # ------------------------------------------------------------------ for the submitters

    def note(self, jobs: Sequence[NewJob], made: Sequence[Enqueued]) -> None:
        """Remember what was submitted."""
        for captured in self._captures:
            for job, result in zip(jobs, made, strict=True):
                captured.add(job, result.id)

    def run_inline(self) -> None:
        """Run what is due, if jobs are to be run at once; a job that runs already is followed by those it submits."""
        if self._inlined and not self._captures and not self._is_running:
            self.drain()

    def run_waited_for(self) -> None:
        """Run what is due, because a caller waits for a result."""
        if not self._captures:
            self.drain()

    def beside_loop(self, work: Callable[[], T]) -> T:
        """Use the database; an async test of a framework calls this on its event loop, where the connection is not to be used."""
        return work() if self._host is None else self._host.beside_loop(work)

    # ------------------------------------------------------------------ how it is done

    @property
    def _held(self) -> Holder:
        if self._holder is None:
            self._holder = self.store.join(lease=LEASE)
        return self._holder

    def _upkeep(self) -> None:
        today = self.clock.now().date()
        if today != self._prepared_day:  # PostgreSQL needs a partition for each day that jobs end on
            self.store.db.upkeep()
            self._prepared_day = today
        if self._holder is not None:
            try:
                self._holder.beat()
            except LeaseLost:
                self._holder = None
        rules = self.app.parts.registry.rules
        if rules:
            self.store.rules.define(rules.resolved(self.app.parts.registry), rules.modules)
            self.store.rules.catch_up()
        while sum(self.store.upkeep.promote().values()):
            pass
        self.store.dependencies.link()
        while self.store.dependencies.settle():
            pass
        self.store.expiries.cancel_due()
        self.store.limits.let_in()
        self.store.recovery.recover()

    def _next(self) -> Lease | None:
        phases = self.app.parts.registry.phases
        return next((lease for phase in phases for lease in self._held.claim(phase, 1)), None)

    def _run(self, lease: Lease) -> None:
        was, self._lease = self._lease, lease
        try:
            self._run_held(lease)
        finally:
            self._lease = was

    def _run_held(self, lease: Lease) -> None:
        if not self._held.start([lease]):
            return  # it expired
        now, phase = time.monotonic(), self.app.parts.registry.phase(lease.phase)
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
            value = call_handler(running, call, self._host)
        except Killed:
            raise
        except LeaseLost as lost:
            return self._lost(running, lost)
        except BaseException as error:  # noqa: BLE001  as an executor: anything a handler raises is an outcome
            return self._runner.raised(running, error)
        return self._runner.returned(running, value)

    def _lost(self, running: RunningAttempt, lost: LeaseLost) -> Outcome | None:
        """The outcome of a handler that lost its job: none if a fault took the job away."""
        if self._holder is None or self.store.jobs.get(running.lease.id).state is not State.PROCESSING:
            return None
        wrong = SandboxError(
            f"the job is held, but not in the database of this handler's transaction: the job is in that of the sandbox, {shown_url(self.url)}. "
            "Give the sandbox the database of the transaction: Sandbox(app, url=...)"
        )
        wrong.__cause__ = lost
        return self._runner.raised(running, wrong)

    def _store_of(self, running: RunningAttempt) -> RunningJobStore:
        return RunningJobStore(Access(self.store, self._held), running, self.faults.check_database)

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
        if not self._is_open:
            return
        self._is_open = False
        self._home.use_no_longer(self.app.parts)
        isolation.forget(self.url)
        self.app.close()
        self.store.close()
        if self._folder is not None:
            self._folder.cleanup()
