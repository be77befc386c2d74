"""Log lines about what the store does to jobs that no instance runs: at DEBUG but for jobs that expired, with the fields that every line about a
job has.

While that level is off, a call costs one check of the level, for any number of jobs. Lines about a transaction that the caller
commits are written before its commit, and say so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from windlass.model import Job
from windlass.observe.logger import get_logger
from windlass.store.database import Row, Transaction

log = get_logger("windlass.store")

LEVELS = dict.fromkeys(
    (
        "job.enqueued",
        "job.cancelled_unheld",
        "job.let_go",
        "job.retried_by_hand",
        "rule.fired",
        "phase.paused",
        "phase.resumed",
    ),
    logging.DEBUG,
) | {"job.expired": logging.INFO}
"""Every event of the store and its level; docs/guides/logs-and-metrics.md has their fields."""

DEBUG = logging.DEBUG
"""``log.isEnabledFor(DEBUG)`` says whether these lines are written. A function for it would be one more call for each plain enqueue."""


def enqueued(entries: Iterable[Any], *, inbox: bool = False) -> None:
    """Jobs were inserted (``CheckedJob``); ``inbox`` where the caller's transaction has to commit first."""
    message = "enqueued, once its transaction commits" if inbox else "enqueued"
    for entry in entries:
        job = entry.job
        delay = None if job.delay is None else job.delay.total_seconds()
        run_at = None if job.run_at is None else job.run_at.isoformat()
        _log("job.enqueued", message, delay_seconds=delay, run_at=run_at, **_fields(entry))


def streamed(like: Any, ids: Iterable[str]) -> None:
    """Jobs that differ in nothing but their arguments were inserted."""
    if log.isEnabledFor(DEBUG):
        for job_id in ids:
            fields = {**_fields(like), "job_id": job_id}
            _log(
                "job.enqueued", "enqueued", **{**fields, "correlation_id": like.job.correlation_id or job_id}
            )


def rule_fired(rule: str, entry: Any, parents: Sequence[str]) -> None:
    """A rule made a child."""
    if log.isEnabledFor(DEBUG):
        message = f"made by rule {rule}, once the end of its parents commits"
        _log("rule.fired", message, rule=rule, parents=list(parents), **_fields(entry))


def cancelled(row: Row, reason: str) -> None:
    """A job that no instance held was cancelled (a row of the verb ``get``)."""
    if log.isEnabledFor(DEBUG):
        _log("job.cancelled_unheld", reason, reason=reason, **_row_fields(row))


def cancelled_with_parents(tx: Transaction, ids: Sequence[str]) -> None:
    """Children were cancelled, because a parent did not complete."""
    if not ids or not log.isEnabledFor(DEBUG):
        return
    for job_id in ids:
        for row in tx.run("get", id=job_id):
            cancelled(row, "a parent did not complete")


def expired(job: Any, reason: str, expires_at: datetime) -> None:
    """A job was cancelled, because it had not begun by its time (``Expired``)."""
    _log("job.expired", reason, expires_at=expires_at.isoformat(), **_job_fields(job))


def let_go(tx: Transaction, ids: Sequence[str]) -> None:
    """Children wait for no other job any more."""
    if log.isEnabledFor(DEBUG):
        for job_id in ids:
            for row in tx.run("get", id=job_id):
                _log("job.let_go", "all jobs that it waited for have ended", **_row_fields(row))


def retried(job: Job) -> None:
    """An ended job was brought back by hand."""
    if log.isEnabledFor(DEBUG):
        message = f"brought back by hand: generation {job.generation}"
        _log("job.retried_by_hand", message, generation=job.generation, **_job_fields(job))


def paused(phase: str, reason: str, seconds: float | None) -> None:
    if log.isEnabledFor(DEBUG):
        ends = "until it is resumed" if seconds is None else f"for {seconds:g} s"
        _log("phase.paused", f"paused {ends}: {reason}", phase=phase, reason=reason, pause_seconds=seconds)


def resumed(phase: str) -> None:
    if log.isEnabledFor(DEBUG):
        _log("phase.resumed", "served again", phase=phase)


def _log(event: str, message: str, **fields: Any) -> None:
    known = {name: value for name, value in fields.items() if value is not None}
    log.log(LEVELS[event], "%s", message, extra={"event": event, **known})


def _fields(entry: Any) -> dict[str, Any]:
    job = entry.job
    return {
        "job_id": entry.id,
        "kind": job.kind,
        "phase": entry.phase,
        "attempt": 0,
        "max_attempts": job.max_attempts,
        "correlation_id": job.correlation_id or entry.id,
    }


def _job_fields(job: Any) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "kind": job.kind,
        "phase": job.phase,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "correlation_id": job.correlation_id,
    }


def _row_fields(row: Row) -> dict[str, Any]:
    """The fields of a row of the verb ``get``."""
    return {
        "job_id": row[0],
        "kind": row[1],
        "phase": row[2],
        "attempt": row[6],
        "max_attempts": row[8],
        "correlation_id": row[10] or row[0],
    }
