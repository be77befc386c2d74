"""Principals of jobs: stored with a job, inherited from it, erased after its end.

The flag on the job's row says that there is a principal, so that jobs without one cost no read; it stays when the principal is
erased, and then it says that the job's rights are not known any more. Such a job has no rights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from windlass.errors import ConfigError, PrincipalErasedError
from windlass.model import Captured, Flag, Lease, has_flag
from windlass.model.principal import Principal, Sealed
from windlass.store.database import Database, Transaction
from windlass.store.ids import is_id
from windlass.store.jobs.rows import array

PAGE = 500


def principal_row(
    job_id: str, principal: Principal, claims: str, sealed: Sealed | None, stamp: Callable[[datetime], Any]
) -> str:
    """The JSON row of one principal."""
    facts: dict[str, Any] = {"job": job_id}
    if principal.expires_at is not None:
        facts["expires_at"] = stamp(principal.expires_at)
    if sealed is not None:
        facts |= {"key_id": sealed.key_id, "token": sealed.text}
    return f'{json.dumps(facts)[:-1]},"claims":{claims}}}'


def read_all(tx: Transaction | Database, job_ids: Sequence[str]) -> dict[str, Principal]:
    """The principals of jobs; those that have none, or none any more, are not in the result."""
    if not job_ids:
        return {}
    return {job: Principal.from_json(claims) for job, claims in tx.run("principal.list", ids=sorted(job_ids))}


class Principals:
    """Reads and erases principals."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, job_id: str) -> Captured | None:
        """The principal that was captured with a job; None if there was none, or it is erased."""
        rows = self._db.read("principal.get", id=job_id) if is_id(job_id) else []
        if not rows:
            return None
        claims, is_expired, at, key_id, token = rows[0]
        return Captured(
            Principal.from_json(claims),
            is_expired=bool(is_expired),
            at=self._db.moment(at),
            sealed=None if token is None else Sealed(key_id, token),
        )

    def of(self, lease: Lease) -> Captured | None:
        """The principal that was captured with a held job; ``PrincipalErasedError`` if it is gone."""
        if not has_flag(lease.flags, Flag.PRINCIPAL):
            return None
        found = self.get(lease.id)
        if found is None:
            raise PrincipalErasedError(lease.id)
        return found

    def list(self, job_ids: Sequence[str]) -> Mapping[str, Principal]:
        """The principals of several jobs, those that have one."""
        return read_all(self._db, [job_id for job_id in job_ids if is_id(job_id)])

    def jobs_of_subject(
        self, subject: str, before: str, limit: int
    ) -> Sequence[tuple[str, str | None, str | None]]:
        """The newest jobs of a subject before a job: id, issuer and tenant of each."""
        return [
            (job, issuer, tenant)
            for job, issuer, tenant in self._db.read(
                "principal.of_subject", subject=subject, before=before, limit=limit
            )
        ]

    def jobs_of_tenant(self, tenant: str, before: str, limit: int) -> Sequence[str]:
        """The ids of the newest jobs of a tenant before a job."""
        return [
            row[0] for row in self._db.read("principal.of_tenant", tenant=tenant, before=before, limit=limit)
        ]

    def erase(self, after: timedelta, *, page: int = PAGE) -> int:
        """Remove the principals of jobs that ended longer ago than ``after``, kept tokens with them; returns how many were removed.

        Safe on every instance at once. A retry by hand keeps its job's principal if it comes first, and is refused if it comes second.
        """
        if after < timedelta(0):
            raise ConfigError("after", after, "a timedelta from zero")
        before, removed, goes_on = self._db.now() - after, 0, True
        while goes_on and self._db.is_worth("erase", before=before):
            n, goes_on = self._db.transact(partial(self._erase, before, page))
            removed += n
        return removed

    def _erase(self, before: datetime, page: int, tx: Transaction) -> tuple[int, bool]:
        picked = [row[0] for row in tx.run("erase.pick", before=before, limit=page)]
        if not picked:
            return 0, False
        ended = {row[0]: self._db.moment(row[1]) for row in tx.run("erase.ended", ids=picked)}
        recent = {job: at for job, at in ended.items() if at >= before}
        if recent:
            rows = array(
                json.dumps({"job": job, "ended_at": self._db.stamp(at)}) for job, at in recent.items()
            )
            tx.run("erase.note", ended=rows)
        gone = [job for job in ended if job not in recent]
        others = [job for job in picked if job not in ended]
        if others:
            living = {row[0] for row in tx.run("erase.living", ids=others)}
            lost = [job for job in others if job not in living]
            # In no table: pruned with its history. One that is being retried or pruned right now is there, and found again.
            there = {row[0] for row in tx.run("enqueue.present", ids=lost)} if lost else set()
            gone += [job for job in lost if job not in there]
            others = [job for job in lost if job in there]
        if gone:
            tx.run("erase", ids=gone)
        return len(gone), len(picked) == page and len(others) < page
