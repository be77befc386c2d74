"""Writes outcomes: one verdict per attempt, decided under the row's lock.

``apply`` is the long way, inside a transaction the caller opened: it is used for outcomes that touch more than the
job's row, by effect transactions and by recovery. The short way, one statement for plain ends and the next claim, is in
holder.py. Both name (id, token) in every write, so a holder whose lease ended changes nothing.

What a cancel that came first does to an outcome (read from the locked row):

    completed, failed   stay what they are: the work is done, or its error is worth keeping
    cancelled           cancelled
    advanced            the phase's output is kept, the job ends cancelled
    retried, released   the job ends cancelled

A job that ends cancelled on request keeps the reason that was given with the request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from windlass.model import (
    ON_REQUEST,
    SIDE_ROWS,
    UNBEGUN,
    Advanced,
    Cancelled,
    Completed,
    Failed,
    Flag,
    Lease,
    Outcome,
    Released,
    Retried,
    State,
    Verdict,
)
from windlass.store.database import Database, Transaction
from windlass.store.feature import EndedJob, MovedJob, Recording, carry
from windlass.store.jobs.enqueue import Inserter
from windlass.store.jobs.outcome_rows import finish_row
from windlass.store.jobs.outputs import output_row
from windlass.store.jobs.routes import correct_routes
from windlass.store.jobs.rows import array, error_json, leases_json, run_json, traceback_json

KEPT = int(Flag.SUSPECT | Flag.RECOVERED)


@dataclass(slots=True)
class _Writes:
    """The rows each verb is given, and the jobs that end by them."""

    outputs: list[str] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    advances: list[str] = field(default_factory=list)
    releases: list[str] = field(default_factory=list)
    finishes: list[str] = field(default_factory=list)
    ended: list[EndedJob] = field(default_factory=list)
    moved: list[MovedJob] = field(default_factory=list)
    notified: set[str] = field(default_factory=set)
    nudged: set[str] = field(default_factory=set)
    is_later: bool = False


def apply(
    db: Database,
    inserter: Inserter,
    tx: Transaction,
    outcomes: Sequence[Outcome],
    *,
    recovering: frozenset[str] = frozenset(),
    is_foreign: bool = False,
    reasons: dict[str, str] | None = None,
) -> dict[str, Verdict]:
    """Record outcomes in ``tx``; returns a verdict for every job id. Ids in ``recovering`` are judged for a dead holder.
    ``is_foreign`` says that the caller commits, perhaps much later. The reason of each requested cancel is added to
    ``reasons``."""
    locked = {
        row[0]: (Flag(row[2]), bool(row[3]), row[4] or ON_REQUEST)
        for row in tx.run("record.lock", leases=leases_json(outcome.lease for outcome in outcomes))
    }
    verdicts: dict[str, Verdict] = {}
    writes = _Writes()
    missing: list[Lease] = []
    for given, outcome in zip(outcomes, correct_routes(tx, outcomes), strict=True):
        if outcome.lease.id not in locked:
            missing.append(outcome.lease)
            continue
        flags, cancel_asked, reason = locked[outcome.lease.id]
        if cancel_asked and reasons is not None:
            reasons[outcome.lease.id] = reason
        if isinstance(outcome, Cancelled) and outcome.reason == ON_REQUEST:
            outcome = replace(outcome, reason=reason)
        verdict = _add(
            writes, outcome, flags, reason if cancel_asked else None, outcome.lease.id in recovering
        )
        is_elsewhere = given is not outcome and not isinstance(outcome, Cancelled)
        verdicts[outcome.lease.id] = (
            Verdict.REROUTED if is_elsewhere and verdict is Verdict.RECORDED else verdict
        )
    _write(db, inserter, tx, writes, is_foreign)
    if missing:
        verdicts.update(resolve(tx, missing))
    return verdicts


def resolve(tx: Transaction, leases: Iterable[Lease]) -> dict[str, Verdict]:
    """Why attempts could not be written: recorded before, or lost. One that is held after all is not in the result."""
    standing = {"already": Verdict.ALREADY_RECORDED, "lost": Verdict.LOST}
    rows = tx.run("record.resolve", leases=leases_json(leases))
    return {row[0]: standing[row[2]] for row in rows if row[2] in standing}


def _add(writes: _Writes, outcome: Outcome, flags: Flag, cancel: str | None, recovered: bool) -> Verdict:
    """Add an outcome to the rows of its verb; returns its verdict. ``cancel`` is the reason of the cancel that came first, or None."""
    lease = outcome.lease
    cancel_asked = cancel is not None
    match outcome:
        case Completed() | Failed() | Cancelled():
            return _end(writes, outcome, flags, recovered)
        case Advanced():
            writes.outputs.append(
                output_row(
                    lease,
                    "",
                    outcome.output,
                    next_phase=outcome.phase,
                    next_max_attempts=outcome.max_attempts,
                )
            )
            if not cancel_asked:
                writes.advances.append(
                    f'{{"id":"{lease.id}","token":{lease.token},"phase":{json.dumps(outcome.phase)},'
                    f'"max_attempts":{outcome.max_attempts},"outcome":"{"recovered" if recovered else "advanced"}"'
                    f"{run_json(outcome.run)}}}"
                )
                writes.notified.add(outcome.phase)
                writes.moved.append(MovedJob(lease.id, flags, is_advanced=True))
                return Verdict.RECORDED
            flags |= Flag.OUTPUT
        case Retried():
            if outcome.counted and lease.attempt >= lease.max_attempts and not cancel_asked:
                failed = Failed(lease, outcome.error, outcome.run, outcome.crashed)
                return _end(writes, failed, flags, recovered)
            if not cancel_asked:
                delay = max(0.0, outcome.delay.total_seconds())
                writes.retries.append(
                    f'{{"id":"{lease.id}","token":{lease.token},"delay":{delay!r},'
                    f'"crashed":{int(outcome.crashed)},"returned":{int(not outcome.counted)},"begun":1,'
                    f'"outcome":"{"recovered" if recovered else "retried"}",'
                    f'"error":{error_json(lease, outcome.error)},"traceback":{traceback_json(outcome.error)}'
                    f"{run_json(outcome.run)}}}"
                )
                writes.is_later = True
                writes.moved.append(MovedJob(lease.id, flags, is_advanced=False))
                return Verdict.RECORDED
        case Released():
            if outcome.delay and not cancel_asked:
                writes.retries.append(_put_off_row(outcome))
                writes.is_later = True
                # The job has not begun: a feature that such jobs alone have (expiry) keeps its rows.
                writes.moved.append(MovedJob(lease.id, flags & ~UNBEGUN, is_advanced=False))
                return Verdict.RECORDED
            if not cancel_asked:
                writes.releases.append(release_row(outcome))
                writes.nudged.add(lease.phase)
                return Verdict.RECORDED
    _end(writes, Cancelled(lease, cancel or ON_REQUEST, outcome.run), flags, recovered)
    return Verdict.CANCELLED


def _put_off_row(outcome: Released) -> str:
    """The JSON row that moves a job, which has not begun, to a later run."""
    lease = outcome.lease
    error = "null" if outcome.error is None else error_json(lease, outcome.error)
    return (
        f'{{"id":"{lease.id}","token":{lease.token},"delay":{outcome.delay.total_seconds()!r},"crashed":0,"returned":1,"begun":0,'
        f'"outcome":"recovered","error":{error},"traceback":null}}'
    )


def release_row(outcome: Released) -> str:
    """The JSON row that gives a job back to its queue; what its lease says of recovery is noted on the job."""
    lease = outcome.lease
    error = "null" if outcome.error is None else error_json(lease, outcome.error)
    return (
        f'{{"id":"{lease.id}","token":{lease.token},"returned":{int(not outcome.counted)},'
        f'"marks":{int.__and__(lease.flags, KEPT)},"outcome":"recovered","error":{error}{run_json(outcome.run)}}}'
    )


def _end(writes: _Writes, outcome: Completed | Failed | Cancelled, flags: Flag, recovered: bool) -> Verdict:
    state = {Completed: State.COMPLETED, Failed: State.FAILED, Cancelled: State.CANCELLED}[type(outcome)]
    writes.finishes.append(finish_row(outcome, recovered=recovered))
    writes.ended.append(EndedJob(outcome.lease.id, flags, state))
    return Verdict.RECORDED


def _write(db: Database, inserter: Inserter, tx: Transaction, writes: _Writes, is_foreign: bool) -> None:
    # Every row is locked already, in id order; from here on the order of verbs is free.
    if writes.outputs:
        tx.run("output.put", outputs=array(writes.outputs))
    if writes.retries:
        tx.run("record.retry", outcomes=array(writes.retries))
    if writes.advances:
        tx.run("record.advance", outcomes=array(writes.advances))
    if writes.releases:
        tx.run("record.release", outcomes=array(writes.releases))
    if writes.finishes:
        tx.run("record.finish", outcomes=array(writes.finishes))
    after_end(Recording(tx, inserter, db, is_foreign), writes.ended, writes.moved)
    if writes.notified or writes.is_later:
        db.notify(tx, writes.notified | ({"@later"} if writes.is_later else set()))
    if writes.nudged:
        db.notify(tx, writes.nudged, nudge=True)


def after_end(call: Recording, ended: Sequence[EndedJob], moved: Sequence[MovedJob] = ()) -> None:
    """Update other tables after ends and moves: remove side rows, then call the features in the order of their locks."""
    tidy = [job.id for job in ended if job.flags & SIDE_ROWS]
    if tidy:
        call.tx.run("record.tidy", ids=tidy)
    carry(call, ended, moved)
