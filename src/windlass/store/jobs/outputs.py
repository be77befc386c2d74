"""Outputs of phases, stored once under (job, generation, phase, name) by the database."""

from __future__ import annotations

import json
from typing import Any

from windlass.errors import LeaseLost
from windlass.model import Lease, Output
from windlass.observe.logger import get_logger
from windlass.store.database import Database, Transaction
from windlass.store.ids import is_id
from windlass.store.jobs.rows import array, json_text

log = get_logger("windlass.store")


def output_row(
    lease: Lease,
    name: str,
    value: Any,
    *,
    next_phase: str | None = None,
    next_max_attempts: int | None = None,
) -> str:
    """The JSON row of one output; JSON null is a value like any other."""
    return (
        f'{{"id":"{lease.id}","token":{lease.token},"name":{json.dumps(name)},"value":{json_text(value, "output")},'
        f'"next_phase":{json.dumps(next_phase)},"next_max_attempts":{json.dumps(next_max_attempts)}}}'
    )


def put(tx: Transaction, lease: Lease, row: str) -> Output:
    """Store one output of a held job. A second write of the same name changes nothing and returns the stored one."""
    rows = tx.run("output.put", outputs=array([row]))
    if not rows:
        raise LeaseLost(f"output of job {lease.id}", job_id=lease.id, token=lease.token)
    _, phase, name, created, value = rows[0]
    if not created:
        log.warning(
            "duplicate prevented: output %r of phase %s is stored already",
            name,
            phase,
            extra={"job_id": lease.id, "phase": phase, "correlation_id": lease.correlation_id},
        )
    return Output(phase, name, json.loads(value), bool(created))


class Outputs:
    """Reads outputs of jobs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, job_id: str) -> list[Output]:
        """All outputs a live job has so far; those of an ended job are part of the job itself."""
        return [
            Output(phase, name, json.loads(value), created=True)
            for phase, name, value in (self._db.read("outputs", id=job_id) if is_id(job_id) else ())
        ]
