"""Random lives of limited jobs: whatever happens in whatever order, places are never more than the limit and never lost.

A second machine beside that of plain jobs: it keeps no model of each job's state, only of what must hold after every step. At the end everything
that can go on does, and every job ends.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, assert_counts_are_true, every_job
from tests.servers.postgres import PostgresServers
from tests.stateful.machine import StoreMachine, run_lives, sqlite_files
from windlass.limits import store as limits
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Debounce,
    Failed,
    Flow,
    JobLimit,
    Lease,
    NewJob,
    Outcome,
    Rate,
    Released,
    Retried,
)
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.record import apply

LEASE = timedelta(seconds=30)
PHASES = ("first", "second")
RATE = Rate(1, 2)


class LimitsMachine(StoreMachine):
    """One database, up to two instances, a pipeline of two limited phases, the second one with a rate."""

    @initialize()
    def open(self) -> None:
        self.open_store()
        self.holders: list[Holder] = []
        self.limit = dict.fromkeys(PHASES, 2)
        self.store.limits.define(
            [Flow(phase="first", limit=2, age=LEASE), Flow(phase="second", limit=2, rate=RATE)]
        )
        self.most: Counter[tuple[str, str]] = Counter()
        self.let_in_at: list[float] = []

    # ------------------------------------------------------------------ rules

    @rule(
        key=st.sampled_from("abc"),
        n=st.integers(1, 4),
        priority=st.integers(0, 9),
        delay=st.sampled_from([None, 5]),
    )
    def submit(self, key: str, n: int, priority: int, delay: int | None) -> None:
        self.store.enqueue([self._job(key, priority, delay) for _ in range(n)])

    @rule()
    def submit_one_of_each(self) -> None:
        self.store.enqueue([self._job(key, 5, None) for key in "abc"])

    @rule(key=st.sampled_from("abc"), other=st.sampled_from("abc"))
    def submit_debounced(self, key: str, other: str) -> None:
        limits = [JobLimit(phase="first", key=other, limit=2)]
        self.store.enqueue([NewJob(kind="pipe", phase="first", debounce=Debounce(key, 5), limits=limits)])

    def _job(self, key: str, priority: int, delay: int | None) -> NewJob:
        limits = [
            JobLimit(phase="first", key=key, limit=2),
            JobLimit(phase="second", key=key, limit=2, rate=RATE),
        ]
        wait = None if delay is None else timedelta(seconds=delay)
        return NewJob(
            kind="pipe", phase="first", priority=priority, delay=wait, limits=limits, max_attempts=3
        )

    @rule()
    def let_in(self) -> None:
        before = {row["id"] for row in rows(self.store, "job", "phase = 'second'")}
        self.store.limits.let_in()
        after = {row["id"] for row in rows(self.store, "job", "phase = 'second'")}
        self.let_in_at += [self.now] * len(after - before)

    @rule()
    def mend(self) -> None:
        assert self.store.limits.mend() == 0, "nothing was wrong"
        self.store.limits.age()

    @rule(limit=st.integers(1, 3), phase=st.sampled_from(PHASES))
    def change(self, limit: int, phase: str) -> None:
        rate = RATE if phase == "second" else None
        self.store.limits.define([Flow(phase=phase, limit=limit, rate=rate)])
        self.limit[phase] = limit
        for gate in self.store.limits.gates(phase):  # places that are given already stay
            self.most[gate.phase, gate.key] = max(gate.admitted, limit)

    @precondition(lambda self: len(self.holders) < 2)
    @rule()
    def join(self) -> None:
        self.holders.append(self.store.join(lease=LEASE))

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), phase=st.sampled_from(PHASES), n=st.integers(1, 4))
    def claim(self, data: st.DataObject, phase: str, n: int) -> None:
        number = data.draw(st.integers(0, len(self.holders) - 1), label="holder")
        self.leases += [(lease, number) for lease in self.holders[number].claim(phase, n)]

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), how=st.sampled_from(["complete", "fail", "retry", "cancel", "release", "advance"]))
    def finish(self, data: st.DataObject, how: str) -> None:
        """Also by those who lost their lease, and twice: then nothing may change."""
        lease, number = data.draw(st.sampled_from(self.leases), label="lease")
        self.holders[number].record([self._outcome(lease, how)])

    @rule(how=st.sampled_from(["complete", "advance", "advance"]), phase=st.sampled_from(PHASES))
    def finish_in_a_handlers_transaction(self, how: str, phase: str) -> None:
        """All that are to be had at once, by an instance of its own, since others may have lost their leases. Their places are freed by
        upkeep, later, when a job may have one in its next phase already."""
        for _ in range(2):
            self.let_in()
        self.holders.append(self.store.join(lease=LEASE))
        leases = self.holders[-1].claim(phase, 9)
        self.leases += [(lease, len(self.holders) - 1) for lease in leases]
        outcomes = [self._outcome(lease, how) for lease in leases]
        self.store.db.transact(
            lambda tx: apply(self.store.db, self.store.enqueuer, tx, outcomes, is_foreign=True)
        )

    def _outcome(self, lease: Lease, how: str) -> Outcome:
        match how:
            case "fail":
                return Failed(lease, BOOM)
            case "retry":
                return Retried(lease, BOOM, timedelta(seconds=5))
            case "cancel":
                return Cancelled(lease)
            case "release":
                return Released(lease)
            case "advance" if lease.phase == "first":
                return Advanced(lease, "second", 1)
        return Completed(lease)

    @rule(data=st.data())
    def cancel_or_retry(self, data: st.DataObject) -> None:
        jobs = every_job(self.store)
        if jobs:
            job = data.draw(st.sampled_from(sorted(jobs, key=lambda job: job.id)), label="job")
            if job.state.is_final:
                self.store.jobs.retry(job.id)
            else:
                self.store.jobs.cancel(job.id)

    @rule(seconds=st.sampled_from([0.5, 3.0, 16.0, 31.0]))
    def pass_time(self, seconds: float) -> None:
        self.move_clock(seconds)

    @rule()
    def promote(self) -> None:
        self.store.upkeep.promote()

    @rule()
    def recover(self) -> None:
        self.store.recovery.recover()

    # ------------------------------------------------------------------ what must hold

    @invariant()
    def places_are_counted_rightly_and_never_too_many(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.limits.check() == []
        for gate in self.store.limits.gates():
            self.most[gate.phase, gate.key] = max(
                self.limit[gate.phase], min(self.most[gate.phase, gate.key], gate.admitted)
            )
            assert gate.admitted <= self.most[gate.phase, gate.key], gate
        given = {(row["job"], row["phase"]) for row in rows(self.store, "job_limit", "admitted AND NOT gone")}
        live = {(row["id"], row["phase"]) for row in rows(self.store, "job")}
        paced = {(row["id"], row["phase"]) for row in rows(self.store, "job_later", "reason = 'paced'")}
        kept = {(row["job"], row["phase"]) for row in rows(self.store, "job_limit")}
        assert given == (live | paced) & kept, "who is let in has a place, and nobody else"

    @invariant()
    def the_rate_is_kept(self) -> None:
        if hasattr(self, "store"):
            for start in self.let_in_at:
                inside = sum(start <= at <= start + 3 for at in self.let_in_at)
                assert inside <= RATE.burst + RATE.per_second * 3

    @invariant()
    def counts_are_true(self) -> None:
        if hasattr(self, "store"):
            assert_counts_are_true(self.store)

    def finish_everything(self) -> None:
        """Nobody is forgotten: with one honest instance and time, all jobs end."""
        self.clock.advance(3600)
        self.store.recovery.recover()
        holder = self.store.join(lease=timedelta(days=9))
        left = every_job(self.store)
        for _ in range(400):
            self.clock.advance(5)
            self.store.upkeep.promote()
            self.store.limits.let_in()
            claimed = [lease for phase in PHASES for lease in holder.claim(phase, 50)]
            holder.record([Completed(lease) for lease in claimed])
            left = [job for job in every_job(self.store) if not job.state.is_final]
            if not left:
                break
        assert not left, left
        assert all(gate.admitted == gate.waiting == 0 for gate in self.store.limits.gates())
        assert rows(self.store, "job_limit") == []


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left over from one page to the next is common, not rare."""
    monkeypatch.setattr(limits, "PAGE", 2)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_random_lives_of_limited_jobs_on_sqlite(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    examples = int(request.config.getoption("--lives") or 5)
    run_lives(LimitsMachine, *sqlite_files(tmp_path), examples=examples, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_random_lives_of_limited_jobs_on_postgres(
    pg_servers: PostgresServers, request: pytest.FixtureRequest
) -> None:
    databases = pg_servers.get()
    examples = int(request.config.getoption("--lives") or 4)
    run_lives(LimitsMachine, databases.fresh, databases.drop, examples=examples, steps=30)
