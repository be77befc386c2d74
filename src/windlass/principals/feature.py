"""Principals as a feature of jobs: stored with a job, inherited from the jobs it comes from, needed for its retry."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from windlass.errors import ConfigError, PrincipalErasedError
from windlass.model import Flag, NewJob
from windlass.model.principal import Principal, Sealed
from windlass.principals.inheritance import Heir, inherit
from windlass.principals.store import principal_row, read_all
from windlass.store.database import Transaction
from windlass.store.feature import Feature, Insertion, RetriedJob, Retrying
from windlass.store.ids import is_id
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.rows import array


class PrincipalsFeature(Feature):
    """Stores the principals of jobs."""

    name = "principals"
    flag = Flag.PRINCIPAL

    def is_asked(self, job: NewJob) -> bool:
        return job.principal is not None or job.sealed is not None or bool(job.heir_of)

    def check(self, job: CheckedJob) -> CheckedJob:
        principal: object = job.job.principal
        if principal is not None and not isinstance(principal, Principal):
            raise ConfigError("principal", type(principal).__name__, "a Principal")
        sealed: object = job.job.sealed
        if sealed is not None and (not isinstance(sealed, Sealed) or job.job.id is None or principal is None):
            raise ConfigError(
                "sealed", "***", "a token that was sealed for the id given, beside its principal"
            )
        if isinstance(job.job.heir_of, str) or not all(is_id(parent) for parent in job.job.heir_of):
            raise ConfigError("heir_of", job.job.heir_of, "a list of job ids")
        if principal is None:
            return job
        principal.to_json()  # refuses a principal that cannot be stored
        return replace(job, flags=job.flags | int(Flag.PRINCIPAL))

    def before_insert(self, call: Insertion, jobs: list[CheckedJob]) -> list[CheckedJob]:
        """Before the jobs: a job that is in its queue should be committed at once."""
        if any(job.job.after or job.job.heir_of for job in jobs):
            parents = call.inserter.parents_of(call, jobs)
            jobs = _with_inherited(call.tx, jobs, {job for job, (_, has_one) in parents.items() if has_one})
        self._put(call, jobs)
        return jobs

    def on_replaced(self, call: Insertion, job: CheckedJob) -> None:
        call.tx.run("erase", ids=[job.id])  # the job has the rights of the principal that asked last, no more
        self._put(call, [job])

    def on_retried(self, call: Retrying, jobs: Sequence[RetriedJob]) -> None:
        for job in jobs:
            has_one = job.flags & Flag.PRINCIPAL and not job.is_waiting
            if has_one and not call.tx.run("principal.list", ids=[job.id]):
                raise PrincipalErasedError(job.id)

    def _put(self, call: Insertion, jobs: Sequence[CheckedJob]) -> None:
        rows = [
            principal_row(job.id, job.job.principal, job.job.principal.to_json(), job.job.sealed, call.stamp)
            for job in jobs
            if job.job.principal is not None
        ]
        if rows:
            call.tx.run("enqueue.principals", principals=array(rows))


def _with_inherited(tx: Transaction, jobs: list[CheckedJob], with_one: Collection[str]) -> list[CheckedJob]:
    """Jobs that brought no principal, with that of the jobs they come from."""
    if not with_one and all(job.job.principal is None for job in jobs):
        return jobs
    heirs = [
        Heir(job.id, [after.parent for after in job.job.after], job.job.heir_of, job.job.principal)
        for job in jobs
    ]
    found = inherit(heirs, read_all(tx, sorted(with_one)), with_one)
    return [
        job
        if job.job.principal is not None or job.id not in found
        else replace(
            job,
            job=replace(job.job, principal=found[job.id]),
            flags=job.flags | int(Flag.PRINCIPAL),
        )
        for job in jobs
    ]
