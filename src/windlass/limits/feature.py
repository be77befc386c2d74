"""Limits as a feature of jobs: stored with new jobs, which are parked, and freed when jobs end or leave their phase.

Limits come last in the order of locks: freeing a place waits for the row of its gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from windlass.errors import ActRefusedError
from windlass.limits import store as limits
from windlass.limits.duty import LimitsDuty
from windlass.model import Flag, Flow, NewJob
from windlass.store.database import Database, Transaction
from windlass.store.feature import (
    Agenda,
    EditedJob,
    EndedJob,
    Feature,
    FeatureDuty,
    Insertion,
    MovedJob,
    Recording,
    RetriedJob,
    Retrying,
)
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.enqueue import Inserter
from windlass.store.jobs.rows import array

FLOWS_EVERY = 5.0
"""Seconds for which the limits of phases are remembered, for jobs that the store makes by itself."""


class LimitsFeature(Feature):
    """Jobs with a limit wait in `job_later` until there is a place."""

    name = "limits"
    flag = Flag.LIMIT

    def is_asked(self, job: NewJob) -> bool:
        return bool(job.limits)

    def check(self, job: CheckedJob) -> CheckedJob:
        limits.check_job(job.job.limits)
        return replace(job, flags=job.flags | int(Flag.LIMIT))

    def before_insert(self, call: Insertion, jobs: list[CheckedJob]) -> list[CheckedJob]:
        """Give jobs that the store makes by itself the limits that their phases are known to have."""
        flows = _known_flows(call) if call.is_ours else ()
        if not flows:
            return jobs
        return [_limited(job, flows) for job in jobs]

    def after_insert(self, call: Insertion, jobs: Sequence[CheckedJob]) -> None:
        rows = [row for job in jobs if job.job.limits for row in limits.job_rows(job.id, job.job.limits)]
        if rows:
            call.tx.run("enqueue.limits", limits=array(rows))

    def on_replaced(self, call: Insertion, job: CheckedJob) -> None:
        call.tx.run("limits.forget", ids=[job.id])
        self.after_insert(call, [job])

    def on_recorded(
        self, call: Recording, ended: Sequence[EndedJob], moved: Sequence[MovedJob]
    ) -> Sequence[EndedJob]:
        parked = [job.id for job in moved if job.is_advanced]
        if parked:
            limits.park(call.db, call.tx, parked)
        waited = [job.id for job in ended if job.has_waited]
        if waited:  # none of them has a place: they waited for their parents
            call.tx.run("limits.forget", ids=waited)
        over, left = [job.id for job in ended if not job.has_waited], [job.id for job in moved]
        if over or left:
            free = limits.free_later if call.is_foreign else limits.free
            free(call.tx, ended=over, moved=left)
        return ()

    def duties(self, db: Database, inserter: Inserter, every: float) -> Sequence[FeatureDuty]:
        return [FeatureDuty("limits", _always, LimitsDuty(limits.Limits(db), every=every).run)]

    def will_queue(self, agenda: Agenda, *, has_waiting: bool) -> bool:
        return has_waiting and (agenda.has("parked") or agenda.has("paced"))

    def on_edited(self, tx: Transaction, job: EditedJob) -> None:
        """Give a job the keys that its new arguments lead to. A job that stands at a gate, or has passed one, would have to leave that gate."""
        if not job.flags & Flag.LIMIT:
            return
        was = {limit.phase: limit.key for limit in job.limits_before}
        now = {limit.phase: limit.key for limit in job.limits}
        for phase, key in tx.run("limits.keys", id=job.id):
            if phase not in now or key != was.get(phase) or key == now[phase]:
                continue  # the key was given by the submitter, or stays the same
            if phase == job.phase and job.reason in (None, "limited", "paced"):
                why = (
                    f"its limit in phase {phase} counts it under the key {key!r}, and the new arguments lead to the key {now[phase]!r}, "
                    "but it waits for a place there or has one; cancel the job, and submit a new one"
                )
                raise ActRefusedError(job.id, "edit", job.state, why)
            tx.run("limits.rekey", id=job.id, phase=phase, key=now[phase])

    def on_retried(self, call: Retrying, jobs: Sequence[RetriedJob]) -> None:
        parked = [job.id for job in jobs if job.flags & Flag.LIMIT and not job.is_waiting]
        if parked:
            limits.park(call.db, call.tx, parked)


def _always(_: Agenda) -> bool:
    return True


def _known_flows(call: Insertion) -> Sequence[Flow]:
    now, memory = call.inserter.monotonic(), call.inserter.memory
    read_at, flows = cast("tuple[float, Sequence[Flow]]", memory.get("flows", (float("-inf"), ())))
    if now - read_at >= FLOWS_EVERY:
        flows = limits.read_flows(call.tx)
        memory["flows"] = now, flows
    return flows


def _limited(job: CheckedJob, flows: Sequence[Flow]) -> CheckedJob:
    known = limits.known_limits(flows, job.job.kind, job.phase, job.args)
    if not known:
        return job
    return replace(job, job=replace(job.job, limits=known), flags=job.flags | int(Flag.LIMIT))
