"""Random lives against a small model: submit, claim, beat, checkpoint, finish, fail, cancel, recover, requeue, prune.

Every rule acts on a real store and on the model; invariants compare all jobs, counts and
tokens after each step. The clock is moved by rules, so nothing sleeps.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.conformance.life import every_job
from tests.servers.postgres import PostgresServers
from tests.stateful.machine import StoreMachine, record, run_lives, sqlite_files
from tests.stateful.model import ModelHolder, ModelJob
from windlass.errors import IllegalTransitionError, LeaseLost
from windlass.model import (
    After,
    CancelResult,
    Counts,
    DependencyPolicy,
    NewJob,
    Retention,
    State,
    Verdict,
)
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.recovery import DEATH_CAP

LEASE = 30.0
KEEP = timedelta(hours=1)
DAY = timedelta(days=1)


class JobsMachine(StoreMachine):
    """One database, up to three instances, any number of jobs of one phase."""

    spacing: float  # how far apart the jobs of one call become ready while the clock stands still

    @initialize()
    def open(self) -> None:
        self.open_store()
        self.jobs: dict[str, ModelJob] = {}
        self.order: dict[str, int] = {}
        self.holders: list[tuple[Holder, ModelHolder]] = []
        self.tokens: set[int] = set()
        self.ended_at: dict[str, float] = {}
        self.children: dict[str, list[str]] = {}
        self.family: dict[str, list[str]] = {}

    # ------------------------------------------------------------------ rules

    @rule(priority=st.sampled_from([0, 5, 5, 9]), max_attempts=st.integers(1, 4), n=st.integers(1, 3))
    def submit(self, priority: int, max_attempts: int, n: int) -> None:
        answers = self.store.enqueue(
            [NewJob(kind="work", priority=priority, max_attempts=max_attempts) for _ in range(n)]
        )
        for offset, answer in enumerate(answers):
            self._add(
                ModelJob(
                    answer.id,
                    priority=priority,
                    max_attempts=max_attempts,
                    ready=self.now + offset * self.spacing,
                )
            )

    @rule(delay=st.sampled_from([1.0, 20.0, 100.0]))
    def submit_later(self, delay: float) -> None:
        answer = self.store.enqueue([NewJob(kind="work", delay=timedelta(seconds=delay))])[0]
        self._add(ModelJob(answer.id, state=State.SCHEDULED, run_at=self.now + delay))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), policy=st.sampled_from(DependencyPolicy))
    def submit_after(self, data: st.DataObject, policy: DependencyPolicy) -> None:
        parent = data.draw(st.sampled_from(sorted(self.jobs)), label="parent")
        answer = self.store.enqueue([NewJob(kind="work", after=[After(parent, policy)])])[0]
        child = ModelJob(answer.id, state=State.WAITING, run_at=self.now)
        self._add(child)
        self.family.setdefault(parent, []).append(f"{child.id} {policy}")
        while self.store.dependencies.link():
            pass
        if self.jobs[parent].state.is_final:
            self._settle_one(child, self.jobs[parent].state, policy)
            if child.state is State.WAITING:
                self.children.setdefault(parent, []).append(f"{child.id} {policy}")
        else:
            self.children.setdefault(parent, []).append(f"{child.id} {policy}")

    @precondition(lambda self: len(self.holders) < 3)
    @rule()
    def join(self) -> None:
        holder = self.store.join(lease=timedelta(seconds=LEASE))
        self.holders.append((holder, ModelHolder(len(self.holders), self.now, LEASE)))

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), limit=st.integers(1, 4), phase=st.sampled_from(["work", "work", "next"]))
    def claim(self, data: st.DataObject, limit: int, phase: str) -> None:
        holder, known = self._some_holder(data)
        leases = holder.claim(phase, limit)
        queued = sorted(
            (job for job in self.jobs.values() if job.state is State.QUEUED and job.phase == phase),
            key=lambda job: (-job.priority, job.ready, job.id),
        )
        expected = [] if known.is_dead else [job.id for job in queued[:limit]]
        assert [lease.id for lease in leases] == expected
        for lease in leases:
            job = self.jobs[lease.id]
            assert lease.token > max(job.tokens, default=0)
            job.tokens.append(lease.token)
            job.state, job.token, job.holder = State.PROCESSING, lease.token, known.number
            job.attempt += 1
            assert lease.attempt == job.attempt and lease.is_recovered is job.is_recovered
            assert lease.is_suspect is (job.deaths >= 2)
            job.started = not job.is_recovered
            self.leases.append((lease, known.number))
        new = {lease.token for lease in leases}
        assert len(new) <= 1 and not new & self.tokens
        self.tokens |= new

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        holder, known = self._some_holder(data)
        if known.is_dead:
            with pytest.raises(LeaseLost):
                holder.beat()
            return
        asked = {asked.job for asked in holder.beat(unknown_grace=DAY).cancelled}
        mine = [
            job for job in self.jobs.values() if job.holder == known.number and job.state is State.PROCESSING
        ]
        assert asked == {job.id for job in mine if job.cancel_asked}
        known.beat_at = self.now

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), how=st.sampled_from(["complete", "fail", "retry", "cancel", "release", "advance"]))
    def finish(self, data: st.DataObject, how: str) -> None:
        lease, number = data.draw(st.sampled_from(self.leases), label="lease")
        holder = self.holders[number][0]
        if how == "advance" and lease.phase == "next":
            how = "complete"  # each phase is visited once
        job = self.jobs.get(lease.id)
        is_mine = job is not None and job.token == lease.token
        verdict = record(holder, lease, how)
        if not is_mine or job is None:
            assert verdict in (Verdict.LOST, Verdict.ALREADY_RECORDED)
            return
        goes_on = how in ("retry", "release", "advance")
        if job.cancel_asked and goes_on:
            assert verdict is Verdict.CANCELLED
            self._end(job, State.CANCELLED)
            return
        assert verdict is Verdict.RECORDED
        match how:
            case "complete":
                self._end(job, State.COMPLETED)
            case "fail":
                self._end(job, State.FAILED)
            case "cancel":
                self._end(job, State.CANCELLED)
            case "release":
                job.give_back(returned=True)
            case "advance":
                job.give_back(returned=False)
                job.phase = "next"
                job.begin_anew()
                job.max_attempts, job.ready, job.done = 2, self.now, None
            case _:
                if job.attempt >= job.max_attempts:
                    self._end(job, State.FAILED)
                else:
                    job.retry_at(self.now + 10)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        lease, number = data.draw(st.sampled_from(self.leases), label="lease")
        job = self.jobs.get(lease.id)
        is_held = job is not None and job.token == lease.token
        assert self.holders[number][0].start([lease]) == ({lease.id} if is_held else set())
        if job is not None and is_held:
            job.started = True

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), done=st.integers(0, 5))
    def checkpoint(self, data: st.DataObject, done: int) -> None:
        lease, number = data.draw(st.sampled_from(self.leases), label="lease")
        job = self.jobs.get(lease.id)
        holder = self.holders[number][0]
        if job is None or job.token != lease.token:
            with pytest.raises(LeaseLost):
                holder.checkpoint(lease, done=done, total=5)
            return
        done = max(done, job.done or 0)
        assert holder.checkpoint(lease, done=done, total=5) is job.cancel_asked
        job.done = done

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)), label="job")]
        if job.state.is_final:
            with pytest.raises(IllegalTransitionError):
                self.store.jobs.cancel(job.id)
        elif job.state is State.PROCESSING:
            assert self.store.jobs.cancel(job.id) is CancelResult.REQUESTED
            job.cancel_asked = True
        else:
            assert self.store.jobs.cancel(job.id) is CancelResult.CANCELLED
            self._end(job, State.CANCELLED)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), dependents=st.booleans())
    def requeue(self, data: st.DataObject, dependents: bool) -> None:
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)), label="job")]
        if not job.state.is_final:
            with pytest.raises(IllegalTransitionError):
                self.store.jobs.retry(job.id)
            return
        self.store.jobs.retry(job.id, dependents=dependents)
        job.done = None if job.state is State.COMPLETED else job.saved
        job.state, job.ready = State.QUEUED, self.now
        job.begin_anew()
        job.generation += 1
        self.ended_at.pop(job.id)
        if dependents:
            self._revive(job)

    @rule(seconds=st.sampled_from([0.5, 5.0, 16.0, 31.0, 200.0]))
    def pass_time(self, seconds: float) -> None:
        self.move_clock(seconds)

    @rule()
    def promote(self) -> None:
        moved = self.store.upkeep.promote(limit=100)
        due = sorted(
            (job for job in self.jobs.values() if job.state is State.SCHEDULED and job.run_at <= self.now),
            key=lambda job: (job.run_at, job.id),
        )
        assert sum(moved.values()) == len(due)
        for offset, job in enumerate(due):
            job.state, job.ready = State.QUEUED, self.now + offset * 1e-6

    @rule()
    def recover(self) -> None:
        for _, known in self.holders:
            if not known.is_dead and known.beat_at + known.lease < self.now:
                known.is_dead = True
        dead = {known.number for _, known in self.holders if known.is_dead}
        lost = [job for job in self.jobs.values() if job.state is State.PROCESSING and job.holder in dead]
        recovered = {item.job_id: item.verdict for item in self.store.recovery.recover()}
        assert set(recovered) == {job.id for job in lost}
        for job in lost:
            deaths = job.deaths + 1
            if job.cancel_asked:
                assert recovered[job.id] == "cancelled"
                self._end(job, State.CANCELLED)
            elif not job.started:
                assert recovered[job.id] == "released"
                job.give_back(returned=True)
                job.is_recovered = True
            elif deaths >= DEATH_CAP or job.max_attempts == 1:
                assert recovered[job.id] == "failed"
                self._end(job, State.FAILED)
            elif deaths > 2:
                assert recovered[job.id] == "retried"
                job.attempt, job.deaths = job.attempt - 1, deaths
                run_at = self.store.jobs.get(job.id).run_at
                assert run_at is not None and run_at > self.clock.now(), (
                    "a wait that nobody can tell beforehand"
                )
                job.retry_at(self.now + (run_at - self.clock.now()).total_seconds())
            else:
                assert recovered[job.id] == "released"
                job.give_back(returned=True)
                job.deaths, job.is_recovered = deaths, True

    @rule()
    def prune(self) -> None:
        removed = self.store.upkeep.prune(Retention(completed=KEEP, failed=KEEP, cancelled=KEEP))
        old = [job_id for job_id, at in self.ended_at.items() if at < self.now - KEEP.total_seconds()]
        assert removed == len(old)
        for job_id in old:
            del self.jobs[job_id], self.ended_at[job_id]
            self.children.pop(job_id, None)

    @rule()
    def fold(self) -> None:
        self.store.upkeep.fold()

    # ------------------------------------------------------------------ invariants

    @invariant()
    def the_store_is_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        stored = {job.id: job for job in every_job(self.store)}
        assert set(stored) == set(self.jobs)
        for job_id, job in self.jobs.items():
            real = stored[job_id]
            assert real.phase == job.phase
            told = (real.state, real.attempt, real.crashes, real.generation, real.max_attempts)
            assert told == (job.state, job.attempt, job.crashes, job.generation, job.max_attempts), job
            assert (real.cancel_requested_at is not None) == job.cancel_asked
            assert real.attempt <= real.max_attempts
            if not job.state.is_final:
                progress = self.store.jobs.progress(job_id)
                assert (progress.done if progress else None) == job.done

    @invariant()
    def the_counts_are_true(self) -> None:
        if not hasattr(self, "store"):
            return
        counts = self.store.phases.counts()
        for phase in ("work", "next"):
            states = Counter(str(job.state) for job in self.jobs.values() if job.phase == phase)
            assert counts.get(phase, Counts()) == Counts(**states)

    # ------------------------------------------------------------------ what the rules share

    def _add(self, job: ModelJob) -> None:
        self.jobs[job.id] = job

    def _some_holder(self, data: st.DataObject) -> tuple[Holder, ModelHolder]:
        return data.draw(st.sampled_from(self.holders), label="holder")

    def _end(self, job: ModelJob, state: State) -> None:
        job.end(state)
        self.ended_at[job.id] = self.now
        stay = []
        for entry in self.children.pop(job.id, []):
            child_id, policy = entry.split()
            child = self.jobs.get(child_id)
            if child is not None and child.state is State.WAITING:
                self._settle_one(child, state, DependencyPolicy(policy))
                if child.state is State.WAITING:
                    stay.append(entry)
        if stay:
            self.children[job.id] = stay

    def _revive(self, parent: ModelJob) -> None:
        for entry in self.family.get(parent.id, []):
            child = self.jobs.get(entry.split()[0])
            if child is not None and child.state is State.CANCELLED and child.is_for_parent:
                child.state, child.done = State.WAITING, None
                child.begin_anew()
                child.generation += 1
                self.ended_at.pop(child.id)
                self.children.setdefault(parent.id, []).append(entry)
                self._revive(child)

    def _settle_one(self, child: ModelJob, state: State, policy: DependencyPolicy) -> None:
        if state is State.COMPLETED or policy is DependencyPolicy.RUN:
            child.state, child.ready = State.QUEUED, self.now
        elif policy is DependencyPolicy.CANCEL:
            self._end(child, State.CANCELLED)
            child.is_for_parent = True


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_random_lives_on_sqlite(request: pytest.FixtureRequest) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_lives(
            JobsMachine, *sqlite_files(Path(folder)), examples=_examples(request, 12), steps=40, spacing=1e-6
        )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_random_lives_on_postgres(pg_servers: PostgresServers, request: pytest.FixtureRequest) -> None:
    databases = pg_servers.get()
    run_lives(
        JobsMachine, databases.fresh, databases.drop, examples=_examples(request, 10), steps=40, spacing=0.0
    )


def _examples(request: pytest.FixtureRequest, usual: int) -> int:
    return int(request.config.getoption("--lives") or usual)
