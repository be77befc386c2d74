"""The store as one instance sees it: claim, record, beat.

A holder remembers what the protocol needs between calls: the tokens it holds and which jobs are left under each, the
claim rows that the last commit emptied (they go one step later, never in the commit that emptied them), and the
low-water marks of the phases it claims from. The writes of a single held job are in held_job.py.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from windlass.errors import ConfigError, LeaseLost, StoreError
from windlass.model import (
    ASIDE,
    DEFAULT_MAX_ATTEMPTS,
    ON_REQUEST,
    Advanced,
    Cancelled,
    Completed,
    Failed,
    JobError,
    Lease,
    Outcome,
    PlainEnd,
    Released,
    Retried,
    Verdict,
    Want,
)
from windlass.observe.logger import get_logger
from windlass.store.database import BEATS, STEPS, Database, Row
from windlass.store.ids import is_id, new_id
from windlass.store.jobs.checked import check_correlation
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.held_job import LEASE, HeldJob
from windlass.store.jobs.holder_results import Beat, CancelRequest, Step
from windlass.store.jobs.low_water import LANES, LowWaterMarks, Scan, as_text
from windlass.store.jobs.outcome_rows import (
    make_all_storable,
    make_storable,
    rounds,
    split_pipelines,
    split_plain,
)
from windlass.store.jobs.phase_ends import PhaseEnds
from windlass.store.jobs.record import apply, release_row, resolve
from windlass.store.jobs.rows import LANE, READY_AT, array, by_phase, in_order, to_leases
from windlass.store.jobs.start import start

log = get_logger("windlass.store")

T = TypeVar("T")

UNKNOWN_GRACE = timedelta(seconds=5)
MAX_CLAIM = 10_000


class Holder(HeldJob):
    """One instance's hold on jobs. Safe to share between threads; every start of a process makes a new one."""

    def __init__(
        self,
        db: Database,
        enqueuer: Enqueuer,
        *,
        lease: timedelta = LEASE,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(db, enqueuer, lease)
        self.id = new_id()
        self._left: dict[int, set[str]] = {}
        self._emptied: list[int] = []
        self._marks: dict[str, LowWaterMarks] = {}
        self._lock = threading.Lock()
        db.run("join", instance=self.id, lease=lease.total_seconds(), info=json.dumps(dict(info or {})))

    # ------------------------------------------------------------------ claim and record

    def step(self, outcomes: Sequence[Outcome] = (), *wants: Want) -> Step:
        """Record outcomes and claim the next batch of each of these phases, together where that saves a round trip. Jobs that go on in one
        of the phases are claimed with the others."""
        for want in wants:
            if not 0 <= want.limit <= MAX_CLAIM:
                raise ConfigError("limit", want.limit, f"a whole number from 0 to {MAX_CLAIM}")
        return self._step(make_all_storable(outcomes), wants)

    def _step(self, outcomes: Sequence[Outcome], wants: Sequence[Want]) -> Step:
        if len({outcome.lease.id for outcome in outcomes}) != len(outcomes):
            return self._step_in_rounds(outcomes, wants)
        plain, aside = split_plain(outcomes)
        ends: PhaseEnds | None = None
        if aside:
            of_phases, aside = split_pipelines(aside)
            ends = PhaseEnds(self._db, self._enqueuer, self.id, of_phases, wants) if of_phases else None
        # Outcomes that take the long way go first: once jobs are claimed, nothing may fail before the caller has them.
        reasons: dict[str, str] = {}
        verdicts = self._long_way(aside, reasons) if aside else {}
        missing: Sequence[Outcome] = ()
        claimed: Sequence[Lease] = ()
        if plain or ends or wants or self._emptied:
            missing, claimed = self._short_way(plain, ends, wants)
            if missing:
                try:
                    verdicts |= self._resolve(missing, reasons)
                except BaseException:
                    self._give_up(claimed)
                    raise
        if ends is not None:
            verdicts |= ends.verdicts
            reasons |= ends.reasons
        self.forget(outcome.lease for outcome in outcomes)
        if not aside and not missing and ends is None:
            return Step([Verdict.RECORDED] * len(outcomes), claimed)
        unwritten = {outcome.lease.id for outcome in missing}
        verdicts |= {
            outcome.lease.id: Verdict.RECORDED for outcome in plain if outcome.lease.id not in unwritten
        }
        return Step([verdicts[outcome.lease.id] for outcome in outcomes], claimed, reasons)

    def _step_in_rounds(self, outcomes: Sequence[Outcome], wants: Sequence[Want]) -> Step:
        """Record a call that names a job twice: one outcome after the other, so that each gets its own verdict."""
        verdicts: dict[int, Verdict] = {}
        reasons: dict[str, str] = {}
        for group in rounds(outcomes):
            step = self._step(group, ())
            reasons |= step.reasons or {}
            for outcome, verdict in zip(group, step.verdicts, strict=True):
                verdicts[id(outcome)] = verdict
        claimed = self._step((), wants).claimed if wants else ()
        return Step([verdicts[id(outcome)] for outcome in outcomes], claimed, reasons)

    def _long_way(self, outcomes: Sequence[Outcome], reasons: dict[str, str]) -> dict[str, Verdict]:
        verdicts = self._db.transact(
            lambda tx: apply(self._db, self._enqueuer, tx, outcomes, reasons=reasons)
        )
        for outcome in outcomes:
            if isinstance(outcome, Released):
                self.nudge(outcome.lease.phase)
        return verdicts

    def _resolve(self, missing: Sequence[Outcome], reasons: dict[str, str]) -> dict[str, Verdict]:
        """Find out why the short way did not write these ends: recorded before, lost, or in need of the long way."""
        verdicts = self._db.transact(lambda tx: resolve(tx, [outcome.lease for outcome in missing]))
        left = [outcome for outcome in missing if outcome.lease.id not in verdicts]
        return verdicts | self._long_way(left, reasons) if left else verdicts

    def _give_up(self, claimed: Sequence[Lease]) -> None:
        """Forget jobs that the caller will never see, so that the next beat finds them unknown and gives them back."""
        with self._lock:
            for lease in claimed:
                self._left.pop(lease.token, None)

    def claim(
        self, phase: str, limit: int, *, starting: int | None = None, quiet: timedelta = timedelta(0)
    ) -> Sequence[Lease]:
        """Claim at most ``limit`` jobs of a phase, highest priority first, then oldest first."""
        return self.step((), Want(phase, limit, starting, quiet)).claimed

    def look(self, phases: Sequence[str]) -> set[str]:
        """Which of these phases have a job to claim now; one read for all of them, which takes no lock.

        It starts where the next claim of each phase would, so that claim finds the same jobs. A phase that is paused
        has nothing to claim.
        """
        names = sorted(set(phases))
        if not names:
            return set()
        if not self._db.low_water:
            return {row[0] for row in self._db.read("ready.phases", phases=names)}
        marks = {name: self._marks.setdefault(name, LowWaterMarks(LANES)) for name in names}
        plans = {name: marks[name].plan() for name in names}
        began = time.monotonic()
        rows = self._db.read(
            "ready.phases",
            phases=[name for name in names for _ in range(LANES)],
            lanes=list(range(LANES)) * len(names),
            marks=as_text([start for _, starts in plans.values() for start in starts]),
        )
        found = {row[0] for row in rows}
        # Only the claim learns from what was found: its scan has to begin at the same place.
        for name in set(names) - found:
            marks[name].learn(plans[name][0], began, (), is_short=True)
        return found

    def claim_one(self, job_id: str, correlation_id: str | None = None) -> Lease | None:
        """Claim this one job and mark it started; None if it is not queued, is held, or its phase is paused. A correlation id that is given
        becomes the job's."""
        check_correlation(correlation_id)
        if not is_id(job_id):
            return None
        rows = self._db.run("claim.one", id=job_id, instance=self.id, correlation=correlation_id)
        if not rows:
            return None
        (lease,) = to_leases(self._db, rows)
        self.adopt(lease)
        return lease

    def record(self, outcomes: Sequence[Outcome]) -> Sequence[Verdict]:
        """Record outcomes; a verdict for each, in order."""
        return self.step(outcomes).verdicts

    def complete(self, lease: Lease, result: Any = None) -> Verdict:
        """Record one completed job."""
        return self._one(Completed(lease, result))

    def fail(self, lease: Lease, error: JobError) -> Verdict:
        """Record one failed job: no further attempt."""
        return self._one(Failed(lease, error))

    def retry_later(self, lease: Lease, error: JobError, delay: timedelta) -> Verdict:
        """Record a failed attempt of a job that is to run again."""
        return self._one(Retried(lease, error, delay))

    def cancel(self, lease: Lease, reason: str = "cancelled") -> Verdict:
        """Record that a held job stopped for a cancel."""
        return self._one(Cancelled(lease, reason))

    def advance(
        self, lease: Lease, phase: str, output: Any = None, *, max_attempts: int = DEFAULT_MAX_ATTEMPTS
    ) -> Verdict:
        """Store the phase's output and move the job to the next phase's queue, in one commit."""
        return self._one(Advanced(lease, phase, output, max_attempts))

    def release(self, lease: Lease, *, counted: bool = False) -> Verdict:
        """Give a job back unrun."""
        return self._one(Released(lease, counted))

    def _one(self, outcome: Outcome) -> Verdict:
        verdict = self._step([make_storable(outcome, strict=True)], ()).verdicts[0]
        if verdict is Verdict.LOST:
            raise LeaseLost(f"job {outcome.lease.id}", job_id=outcome.lease.id, token=outcome.lease.token)
        return verdict

    def _short_way(
        self, plain: Sequence[PlainEnd], ends: PhaseEnds | None, wants: Sequence[Want]
    ) -> tuple[Sequence[Outcome], Sequence[Lease]]:
        """Record plain ends and claim, in one statement and one commit, which begins with the ends of phases, if there are any; returns the
        ends that were not written, and the claimed jobs."""
        with self._lock:
            emptied, self._emptied = self._emptied, []
        began = time.monotonic()
        scans: list[tuple[Want, LowWaterMarks, Scan]] = []
        starts: list[datetime | None] = []
        for want in wants if self._db.low_water else ():
            marks = self._marks.setdefault(want.phase, LowWaterMarks(LANES))
            scan, lanes = marks.plan()
            scans.append((want, marks, scan))
            starts += lanes
        try:
            finished, rows = self._db.step(
                instance=self.id,
                outcomes=plain,
                aside=int(ASIDE),
                emptied=emptied,
                wants=wants,
                marks=starts,
                ends=ends,
            )
        except BaseException:
            with self._lock:
                self._emptied += emptied
            raise
        rows.sort(key=in_order)
        claimed = to_leases(self._db, rows)
        found: Mapping[str, tuple[Sequence[Row], Sequence[Lease]]] = {}
        if claimed:
            found = {wants[0].phase: (rows, claimed)} if len(wants) == 1 else by_phase(rows, claimed)
        for want, marks, scan in scans:
            here = found.get(want.phase, ((), ()))[0]
            # The last of each lane, since they are in order.
            last = {row[LANE]: row[READY_AT] for row in here}
            moments = [(lane, self._db.moment(at)) for lane, at in last.items()]
            marks.learn(scan, began, moments, len(here) < want.limit)
        if found:
            with self._lock:
                for _, leases in found.values():
                    self._left[leases[0].token] = {lease.id for lease in leases}
        unwritten = list(ends.unwritten) if ends else []
        if finished is not None:
            written = set(finished)
            unwritten += [outcome for outcome in plain if outcome.lease.id not in written]
        return unwritten, claimed

    def forget(self, leases: Iterable[Lease]) -> None:
        """Forget these jobs: their ends are written, so they are no longer held here."""
        with self._lock:
            token, left = 0, None
            for lease in leases:
                if lease.token != token:  # most are of one claim
                    token, left = lease.token, self._left.get(lease.token)
                if left is None:
                    continue
                # By id, not by count: an outcome may be recorded twice, and must not release another job.
                left.discard(lease.id)
                if not left:
                    del self._left[token]
                    self._emptied.append(token)
                    left = None

    def adopt(self, lease: Lease) -> None:
        """Hold a job that recovery gave to this holder."""
        with self._lock:
            self._left[lease.token] = {lease.id}

    def nudge(self, phase: str) -> None:
        """Forget the low-water marks of a phase: jobs went back to an old place in its queue."""
        if marks := self._marks.get(phase):
            marks.forget()

    def stepping(self) -> AbstractContextManager[None]:
        """Reserve a connection for the thread that steps, until the block ends."""
        return self._db.reserved(STEPS)

    # ------------------------------------------------------------------ while a job runs

    def start(self, leases: Sequence[Lease]) -> set[str]:
        """Note durably that these jobs are running now, so that a crash counts against them and not against
        other claimed jobs; returns the ids still held. A job that a feature does not let begin has ended."""
        held = start(self._db, self._enqueuer, leases)
        self.forget(lease for lease in leases if lease.id not in held)
        return held

    def _ended(self, lease: Lease) -> None:
        self.forget([lease])

    # ------------------------------------------------------------------ staying alive

    def beat(self, *, unknown_grace: timedelta = UNKNOWN_GRACE) -> Beat:
        """Renew all leases. Raises ``LeaseLost`` when this instance was declared dead: it holds nothing any more.

        Claims whose reply never arrived are found here: the database has them under this instance, the holder does not
        know them, and their jobs go back to the queue with their attempt.
        """
        with self._lock:
            known = [*self._left, *self._emptied]
        with self._db.reserved(BEATS):
            rows = self._db.run("beat", instance=self.id, known=known, grace=unknown_grace.total_seconds())
            if not rows:
                raise LeaseLost(f"instance {self.id}")
            # The lease is renewed even if the rest fails: the next beat does it again.
            return Beat(_try(self.cancels) or [], _try(lambda: self._unknown(rows[0][1])) or 0)

    def _unknown(self, listed: str | None) -> int:
        """Give back the jobs of claims that the database has and this holder does not know; returns how many."""
        unknown = [int(token) for token in str(listed).split(",")] if listed else []
        with self._lock:  # a claim made while this beat was running is known by now
            unknown = [token for token in unknown if token not in self._left and token not in self._emptied]
        return self._release_unknown(unknown) if unknown else 0

    def cancels(self) -> Sequence[CancelRequest]:
        """The jobs held here that were asked to stop: one read."""
        with self._db.reserved(BEATS):
            return [CancelRequest(*row) for row in self._db.read("cancels", instance=self.id)]

    def leave(self) -> None:
        """Stop being an instance; jobs that are still held are left for recovery at once."""
        with self._lock:
            emptied, self._emptied = [*self._emptied, *self._left], []
        if emptied:
            self._db.run("unclaim", tokens=emptied, instance=self.id)
        self._db.run("leave", instance=self.id)

    def _release_unknown(self, tokens: Sequence[int]) -> int:
        def release(tx: Any) -> list[Lease]:
            rows = tx.run("recover.pick", tokens=list(tokens), limit=MAX_CLAIM)
            leases = to_leases(self._db, [row[:15] for row in rows])
            cancelled = [
                Cancelled(lease, ON_REQUEST) for lease, row in zip(leases, rows, strict=True) if row[15]
            ]
            if cancelled:
                apply(self._db, self._enqueuer, tx, cancelled)
            free = [lease for lease, row in zip(leases, rows, strict=True) if not row[15]]
            if free:
                tx.run("record.release", outcomes=array(release_row(Released(lease)) for lease in free))
                self._db.notify(tx, {lease.phase for lease in free}, nudge=True)
            tx.run("unclaim", tokens=list(tokens), instance=self.id)
            return leases

        leases = self._db.transact(release, waits=True)  # not forever: the next beat is due
        for lease in leases:
            self.nudge(lease.phase)
        return len(leases)


def _try(work: Callable[[], T]) -> T | None:
    try:
        return work()
    except StoreError as error:
        log.debug("the heartbeat was written, but the work after it failed: %s", error)
        return None
