"""Recovers the jobs of dead instances; any instance may do it, none is in charge.

A job whose phase has its output already is moved on as done. Any other goes back to its old place in its queue at once, with its attempt:
the job is hardly why the instance died. Only a job whose handler was entered is charged with the death:

* at the second death it met that way it becomes a *suspect*, whose next runs are isolated, because it may be the cause;
* from the third on it waits a little, each time longer, and not as long as the others that died with it;
* at the tenth (``death_cap``) it fails, so that nothing loops forever;
* a job that may be attempted once only fails at the first: it is not run twice.

Deaths are counted by the attempts that the job's timeline has of them. How an entered job is known, and why a death counts that little:
docs/decisions/0004-recovery.md.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from windlass.errors import StoreError
from windlass.model import (
    ON_REQUEST,
    Advanced,
    Cancelled,
    Completed,
    Failed,
    Flag,
    JobError,
    Json,
    Lease,
    Outcome,
    Recovered,
    Released,
    Retried,
    Verdict,
)
from windlass.observe.logger import get_logger
from windlass.store.database import Database, Transaction
from windlass.store.ids import SMALLEST
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.record import apply
from windlass.store.jobs.rows import to_lease

log = get_logger("windlass.store")

CRASH_CAP = 3
DEATH_CAP = 10
ISOLATED_FROM = 2
"""Deaths of its instance after which a job runs in a process of its own."""
LONGEST_WAIT = timedelta(seconds=60)


def crash_delay(crashes: int) -> timedelta:
    """How long a job waits after its n-th crash: not at all, then 1 s, 2 s, 4 s, … up to a minute."""
    if crashes <= 1:
        return timedelta(0)
    return min(LONGEST_WAIT, timedelta(seconds=2 ** min(crashes - 2, 10)))


def death_delay(deaths: int) -> timedelta:
    """How long a job waits after the n-th death of its instance: not at all twice, then as after crashes, give or take a half, so that a
    job that kills its instances does not run beside the same jobs every time."""
    return crash_delay(deaths - 1) * random.uniform(0.5, 1.5)


class Recovery:
    """Finds leases that ran out and decides the outcome of their jobs."""

    def __init__(self, db: Database, enqueuer: Enqueuer | None = None) -> None:
        self._db = db
        self._enqueuer = enqueuer or Enqueuer(db)
        self._orphans_after = SMALLEST

    def recover(
        self,
        *,
        limit: int = 500,
        death_cap: int = DEATH_CAP,
        holder: Holder | None = None,
        probed: Iterable[str] = (),
    ) -> list[Recovered]:
        """Declare instances dead whose lease ran out (never ``holder``'s own) and recover up to ``limit`` of their jobs.

        Jobs of phases in ``probed`` are not decided but handed to ``holder`` under a new token (verdict ``held``), so
        that the user's own "is my output there?" can be asked outside of any transaction. Call again while it returns
        as many as ``limit``. Jobs in an open effect transaction are left out; the next call finds them again.
        """
        own = holder.id if holder else None
        if not self._db.is_worth("recover", own=own):
            return []
        self._db.run("recover.declare_dead", own=own)
        decided = self._db.transact(
            lambda tx: self._recover(
                tx, limit, death_cap, holder, frozenset(probed) if holder else frozenset()
            )
        )
        if holder:
            for item in decided:
                if item.is_held:
                    holder.adopt(item.lease)
        try:
            self._db.run("recover.sweep")
        except StoreError:  # the outcomes must reach the caller; the next round sweeps
            log.warning("could not sweep the claims of dead instances; the next recovery will", exc_info=True)
        return decided

    def sweep_orphans(self, *, limit: int = 1000, death_cap: int = DEATH_CAP) -> list[Recovered]:
        """Recover one page of processing jobs that no claim row covers. Many calls go through the whole table, page by page."""

        def sweep(tx: Transaction) -> tuple[list[Recovered], str]:
            rows = tx.run("recover.orphans", after=self._orphans_after, limit=limit)
            outcomes: list[Outcome] = []
            for row in rows:
                if row[1] is not None:
                    lease = _bare_lease(self._db, row[:14])
                    outcomes.append(_decide(lease, row[14:], death_cap))
            last = rows[-1][0] if len(rows) == limit else SMALLEST
            return self._carry_out(tx, outcomes), last

        recovered, self._orphans_after = self._db.transact(sweep)
        return recovered

    def _recover(
        self, tx: Transaction, limit: int, death_cap: int, holder: Holder | None, probed: frozenset[str]
    ) -> list[Recovered]:
        held: list[Recovered] = []
        outcomes: list[Outcome] = []
        for row in tx.run("recover.pick", tokens=None, limit=limit):
            lease = to_lease(self._db, row[:15])
            cancel_asked, has_output, *_, deaths = row[15:]
            if holder and lease.phase in probed and not has_output and not cancel_asked:
                token, at = tx.run("recover.hold", id=lease.id, token=lease.token, instance=holder.id)[0]
                held.append(Recovered(_taken_over_lease(self._db, row, token, at), "held", deaths=deaths))
            else:
                outcomes.append(_decide(lease, row[15:], death_cap))
        return [*self._carry_out(tx, outcomes), *held]

    def _carry_out(self, tx: Transaction, outcomes: Sequence[Outcome]) -> list[Recovered]:
        if not outcomes:
            return []
        judged = frozenset(outcome.lease.id for outcome in outcomes)
        reasons: dict[str, str] = {}
        standing = apply(self._db, self._enqueuer, tx, outcomes, recovering=judged, reasons=reasons)
        return [
            _recovered(outcome, standing[outcome.lease.id], reasons.get(outcome.lease.id))
            for outcome in outcomes
        ]


def _decide(lease: Lease, found: Sequence[Any], death_cap: int) -> Outcome:
    cancel_asked, has_output, output, next_phase, next_max_attempts, deaths = found
    # The phase had stored its output before its instance died, so it counts as done. ``apply`` still honours a cancel: the job then ends
    # instead of advancing.
    if has_output:
        if next_phase is None or next_max_attempts is None:
            return Completed(lease, Json(output))
        return Advanced(lease, next_phase, Json(output), next_max_attempts)
    if cancel_asked:
        return Cancelled(lease, ON_REQUEST)
    return judge(lease, deaths, death_cap)


def judge(lease: Lease, deaths: int, death_cap: int) -> Outcome:
    """The outcome of a job whose instance died and whose output is not stored; ``deaths`` are those it was charged with before."""
    if not lease.flags & Flag.STARTED:
        return Released(replace(lease, flags=lease.flags | Flag.RECOVERED))
    deaths += 1
    error = JobError(
        type="InstanceDied",
        code="instance_died",
        message="the instance that ran this attempt stopped renewing its lease, and its output is not stored",
        details={"deaths": deaths},
    )
    if lease.max_attempts == 1:
        return Failed(lease, error)
    if deaths >= death_cap:
        return Failed(lease, _death_cap_error(error, deaths))
    if delay := death_delay(deaths):
        return Retried(lease, error, delay, counted=False)
    flags = Flag.RECOVERED | Flag.SUSPECT if deaths >= ISOLATED_FROM else Flag.RECOVERED
    return Released(replace(lease, flags=lease.flags | flags), error=error)


def _death_cap_error(error: JobError, deaths: int) -> JobError:
    """The error of a job that was running when its instance died once too often."""
    return replace(
        error,
        code="death_cap",
        message=(
            f"{deaths} instances died while they ran this job; check what it does to its process and to the parent process, "
            "then retry it: app.handle(id).retry()"
        ),
    )


_VERDICTS: dict[type, str] = {
    Completed: "completed",
    Advanced: "advanced",
    Cancelled: "cancelled",
    Failed: "failed",
    Retried: "retried",
    Released: "released",
}


def _recovered(outcome: Outcome, standing: Verdict, reason: str | None) -> Recovered:
    error = outcome.error if isinstance(outcome, Failed | Retried | Released) else None
    verdict = "cancelled" if standing is Verdict.CANCELLED else _VERDICTS[type(outcome)]
    is_back = verdict == "released"
    return Recovered(outcome.lease, verdict, None if is_back else outcome, standing, error, reason=reason)


def _taken_over_lease(db: Database, row: Sequence[Any], token: int, at: Any) -> Lease:
    columns = list(row[:15])
    columns[1], columns[14] = token, at
    return to_lease(db, tuple(columns))


def _bare_lease(db: Database, row: Sequence[Any]) -> Lease:
    """An orphan's lease without its arguments, which are not needed to judge it. It counts as started: no instance is left that could say otherwise."""
    (*known, flags, correlation, created, ready, claimed) = row
    return to_lease(db, (*known, flags | Flag.STARTED, "{}", correlation, created, ready, claimed))
