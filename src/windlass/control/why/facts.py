"""Reads what decides whether a job runs. Each read is a look-up by an index, and none is made before it is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from windlass.control.actor import Scope
from windlass.control.payload import Payload
from windlass.control.why.fleet import Fleet, read_fleet
from windlass.control.why.texts import CAP
from windlass.features import Store
from windlass.store.ids import is_id

SHOWN = 5
"""Ids of other jobs that a sentence shows."""
RATE_OVER = timedelta(minutes=5)
PAUSE_AUDITED = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One job: ``place`` is job (queued or held), later or done. ``at`` is when it became ready, is due, or ended."""

    id: str
    place: str
    kind: str
    phase: str
    lane: int
    generation: int
    attempt: int
    max_attempts: int
    flags: int
    created_at: datetime
    at: datetime
    claimed_at: datetime | None
    cancel_at: datetime | None
    cancel_reason: str | None
    instance: str | None
    reason: str | None
    pending: int
    gate: str | None
    error: Mapping[str, Any]
    now: datetime


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause of a phase. ``by`` is the person who paused it, if the audit trail has that."""

    since: datetime
    until: datetime | None
    reason: str
    by: str | None


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """The limit and the rate of a job in its phase. ``taken`` places of ``limit`` are in use; None if there is no limit any more."""

    key: str
    is_admitted: bool
    limit: int | None
    rate: float | None
    tokens: float
    taken: int

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.taken >= self.limit and not self.is_admitted


class Facts:
    """The facts about one job, for one actor."""

    def __init__(self, store: Store, scope: Scope, payload: Payload) -> None:
        self.store = store
        self.scope = scope
        self.payload = payload
        self._read = store.db.read
        self.job: JobFacts

    def find(self, job_id: str) -> bool:
        """Read the job; False if there is none."""
        rows = self._read("why.job", id=job_id) if is_id(job_id) else []
        if not rows:
            return False
        moment = self.store.db.moment
        (
            place, kind, phase, lane, generation, attempt, max_attempts, flags, created, at, claimed, cancel, cancel_reason, instance,
            reason, pending, gate, error, now,
        ) = rows[0]  # fmt: skip
        self.job = JobFacts(
            id=job_id,
            place=place,
            kind=kind,
            phase=phase,
            lane=lane,
            generation=generation,
            attempt=attempt,
            max_attempts=max_attempts,
            flags=flags,
            created_at=moment(created),
            at=moment(at),
            claimed_at=moment(claimed),
            cancel_at=moment(cancel),
            cancel_reason=cancel_reason,
            instance=None if instance is None else str(instance),
            reason=reason,
            pending=pending,
            gate=gate,
            error=(json.loads(error) if error else None) or {},
            now=moment(now),
        )
        return True

    @cached_property
    def fleet(self) -> Fleet:
        return read_fleet(self.store, self.job.now)

    @cached_property
    def pause(self) -> Pause | None:
        """The pause of the job's phase. Reason and person are for actors who see all jobs: both may name other people's jobs."""
        rows = self._read("why.pause", phase=self.job.phase)
        if not rows:
            return None
        begun, until = (self.store.db.moment(value) for value in rows[0][:2])
        return Pause(begun, until, rows[0][2], self._paused_by(begun) if self.scope.is_all else None)

    def _paused_by(self, begun: datetime) -> str | None:
        for record in self.store.audit.list(target="phase", name=self.job.phase, limit=5).records:
            if record.act == "phase.pause" and record.at is not None:
                return record.actor if abs(record.at - begun) < PAUSE_AUDITED else None
        return None

    @cached_property
    def limit(self) -> LimitFacts | None:
        rows = self._read("limits.in_phase", id=self.job.id, phase=self.job.phase)
        if not rows:
            return None
        key, admitted, limit, rate, burst, tokens, filled, taken = rows[0]
        held = 0.0
        if rate is not None:
            waited = (self.job.now - self.store.db.moment(filled)).total_seconds()
            held = min(float(burst), tokens + max(0.0, waited) * rate)
        return LimitFacts(key, bool(admitted), limit, rate, held, taken or 0)

    def holders(self, key: str) -> Sequence[str]:
        """Some of the jobs that have a place under a key, those that the actor may see."""
        rows = self._read(
            "limits.holders", phase=self.job.phase, key=key, limit=SHOWN, **self.scope.parameters()
        )
        return [str(row[0]) for row in rows]

    def before_at_gate(self) -> int:
        return self._before("limits.before", gate=self.job.gate)

    def before_by_rate(self) -> int:
        return self._before("limits.paced_before")

    def _before(self, verb: str, **more: object) -> int:
        job = self.job
        rows = self._read(verb, phase=job.phase, lane=job.lane, at=job.at, id=job.id, limit=CAP, **more)
        return int(rows[0][0])

    def parents(self) -> tuple[int, Sequence[tuple[str, str]]]:
        """How many jobs it has as parents, and some of those that it still waits for, with their states, as far as the actor may see them."""
        total = self.store.parents.count(self.job.id).total
        rows = self._read("parents.open", child=self.job.id, limit=SHOWN, **self.scope.parameters())
        ended = {str(row[0]): row[1] for row in rows}
        alive = {
            str(row[0]): row[2] for row in (self._read("parents.live", ids=list(ended)) if ended else ())
        }
        return total, [(parent, alive.get(parent) or state or "ended") for parent, state in ended.items()]

    def sees(self, job_id: object) -> bool:
        """Whether the actor may see another job."""
        if self.scope.is_all:
            return True
        if not isinstance(job_id, str) or not is_id(job_id):
            return False
        return bool(self._read("principal.sees", id=job_id, **self.scope.parameters()))

    def ahead(self) -> int:
        """How many jobs are claimed before this one, counted up to ``CAP``."""
        job = self.job
        rows = self._read("why.ahead", phase=job.phase, lane=job.lane, ready=job.at, id=job.id, limit=CAP)
        return min(CAP, int(rows[0][0]))

    def per_second(self) -> float:
        """How many attempts of the phase ended in a second, over the last minutes."""
        now = self.job.now
        rows = self.store.rollups.read(since=now - RATE_OVER, phase=self.job.phase)
        ended = sum(row.completed + row.failed + row.retried + row.cancelled for row in rows)
        if not ended:
            return 0.0
        return ended / max(1.0, (now - rows[0].minute).total_seconds())
