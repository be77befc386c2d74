"""Rows to values and values to JSON parameters.

JSON travels as text in both directions: what the store only carries is never parsed, and rows for one parameter are
joined as text instead of being serialised again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from windlass.arguments.encoding import encode
from windlass.arguments.limits import DEFAULT_LIMITS, RESULT_LIMITS
from windlass.model import (
    HIGHEST_PRIORITY,
    Attempt,
    Enqueued,
    Flag,
    Job,
    JobError,
    Json,
    Lease,
    Output,
    Progress,
    Run,
    Span,
    State,
    version_of,
)
from windlass.store.database import Database, Row
from windlass.store.jobs.error_place import place_of
from windlass.store.schema.statements import columns

MAX_MESSAGE = 8_000
MAX_TRACEBACK = 64_000
MAX_PROCESSOR = 2**15 - 1
LONGEST_MS = 2**31 - 1


def json_text(value: Any, what: str) -> str:
    """A value as JSON text, checked; text that was checked before passes as it is."""
    if isinstance(value, Json):
        return value
    return encode(value, what=what, limits=DEFAULT_LIMITS if what == "args" else RESULT_LIMITS)


def array(items: Iterable[str]) -> str:
    """A JSON array of JSON texts."""
    return f"[{','.join(items)}]"


def leases_json(leases: Iterable[Lease]) -> str:
    """The (id, token) pairs every write of a holder names."""
    return array(f'{{"id":"{lease.id}","token":{lease.token}}}' for lease in leases)


def clean(text: str, limit: int) -> str:
    """Text from an exception, made storable: no NUL, no lone surrogates, not longer than ``limit``."""
    text = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def error_json(lease: Lease, error: JobError) -> str:
    """An error as it is stored: what happened, in which phase and attempt, under which correlation id."""
    facts: dict[str, Any] = {
        "type": clean(error.type, 200),
        "code": clean(error.code, 200),
        "message": clean(error.message, MAX_MESSAGE),
        "phase": lease.phase,
        "attempt": lease.attempt,
        "correlation_id": lease.correlation_id,
    }
    if (place := place_of(error.traceback)) is not None:
        facts["place"] = place
    if error.details:
        facts["details"] = dict(error.details)
    return encode(facts, what="error")


def traceback_json(error: JobError) -> str:
    """The traceback as a JSON string or null."""
    return "null" if error.traceback is None else json.dumps(clean(error.traceback, MAX_TRACEBACK))


def run_json(run: Run | None) -> str:
    """Where an attempt ran, as a part of a JSON row; empty if it is not known."""
    if run is None:
        return ""
    processor, waited, ran = bounded(run)
    return f',"p":{processor},"w":{waited},"r":{ran}'


def bounded(run: Run) -> tuple[int, int, int]:
    """Numbers that the columns cannot hold become the nearest that they can: a clock went back, a job hung for a month."""
    processor, waited, ran = run
    if 0 <= processor <= MAX_PROCESSOR and 0 <= waited <= LONGEST_MS and 0 <= ran <= LONGEST_MS:
        return run
    waited, ran = (min(max(value, 0), LONGEST_MS) for value in (waited, ran))
    return min(max(processor, 0), MAX_PROCESSOR), waited, ran


class _Flags(dict[int, Flag]):
    """Flags by number. To make one takes microseconds, and few of the combinations ever occur."""

    def __missing__(self, number: int) -> Flag:
        flags = self[number] = Flag(number)
        return flags


_FLAGS = _Flags()
PHASE, LANE, READY_AT = 3, 4, 13
in_order = itemgetter(PHASE, LANE, READY_AT, 0)
"""The order of service of the claimed rows of each phase: highest priority first, then oldest first."""


def by_phase(rows: Sequence[Row], leases: Sequence[Lease]) -> dict[str, tuple[list[Row], list[Lease]]]:
    """Claimed rows and their leases by phase, each in its order."""
    found: dict[str, tuple[list[Row], list[Lease]]] = {}
    for row, lease in zip(rows, leases, strict=True):
        here = found.get(lease.phase)
        if here is None:
            here = found[lease.phase] = ([], [])
        here[0].append(row)
        here[1].append(lease)
    return found


class _UnfrozenLease:
    """A lease that is not frozen yet. A frozen dataclass sets each field by a call, 15 of them for every claimed job (1.7 µs);
    here they are plain assignments, and then the draft becomes a Lease, whose slots it has (0.3 µs)."""

    __slots__ = Lease.__slots__


def to_lease(db: Database, row: Row) -> Lease:
    """A claimed row; columns as `step` and `claim` return them."""
    return to_leases(db, [row])[0]


def to_leases(db: Database, rows: Sequence[Row]) -> list[Lease]:
    """Claimed rows; columns as `step` and `claim` return them."""
    moment = db.moment if rows and not isinstance(rows[0][-1], datetime) else None
    leases: list[Lease] = []
    last: Any = None
    for (
        job_id, token, kind, phase, lane, generation, attempt, max_attempts, crashes, flags, args, correlation, created, ready, at,
    ) in rows:  # fmt: skip
        lease: Any = _UnfrozenLease()
        lease.id = job_id
        lease.token = token
        lease.kind = kind
        lease.phase = phase
        lease.priority = HIGHEST_PRIORITY - lane
        lease.generation = generation
        lease.attempt = attempt
        lease.max_attempts = max_attempts
        lease.crashes = crashes
        lease.flags = _FLAGS[flags]
        lease.args_json = Json(args)
        lease.correlation_id = correlation or job_id
        if moment is None:
            lease.created_at = created
            lease.ready_at = ready
            lease.claimed_at = at
        else:
            lease.created_at = moment(created)
            lease.ready_at = lease.created_at if ready == created else moment(ready)
            lease.claimed_at = leases[-1].claimed_at if leases and at == last else moment(at)
            last = at
        lease.__class__ = Lease
        leases.append(lease)
    return leases


def to_job(db: Database, row: Row) -> Job:
    """A job row; columns as `get` and the lists return them; `get` alone adds those of the slot `view`."""
    (
        job_id, kind, phase, state, lane, generation, attempt, crashes, max_attempts, args, correlation, created, updated,
        run_at, started, claimed, finished, cancel, reason, pending, result, error, traceback, outputs, progress, error_at, saved_at,
        *view,
    ) = row  # fmt: skip
    moment = db.moment
    return Job(
        id=job_id,
        kind=kind,
        phase=phase,
        state=State(state),
        priority=HIGHEST_PRIORITY - lane,
        generation=generation,
        attempt=attempt,
        crashes=crashes,
        max_attempts=max_attempts,
        args_json=Json(args),
        correlation_id=correlation or job_id,
        created_at=moment(created),
        updated_at=moment(updated),
        run_at=moment(run_at),
        started_at=moment(started),
        claimed_at=moment(claimed),
        finished_at=moment(finished),
        cancel_requested_at=moment(cancel),
        reason=reason,
        pending=pending,
        result_json=None if result is None else Json(result),
        error=to_error(error, moment(error_at)),
        traceback=traceback,
        progress=None if progress is None else _progress(json.loads(progress), moment(saved_at)),
        outputs=() if outputs is None else tuple(_output(item) for item in json.loads(outputs)),
        parents=_view(db, view).get("parents") if view.count(None) < len(view) else None,
        version=version_of(args, generation, HIGHEST_PRIORITY - lane),
    )


def _view(db: Database, values: Sequence[Any]) -> dict[str, Any]:
    """What features add to a job that is read by itself."""
    return dict(zip(columns(db.dialect, "view"), values, strict=True))


def to_attempt(db: Database, row: Row) -> Attempt:
    job_id, generation, phase, attempt, outcome, started, ended, error, traceback, instance, processor = row
    ended_at = db.moment(ended)
    return Attempt(
        job_id,
        generation,
        phase,
        attempt,
        outcome,
        db.moment(started),
        ended_at,
        to_error(error, ended_at),
        traceback,
        instance,
        _processor(phase, processor),
    )


def to_span(db: Database, row: Row) -> Span:
    """One attempt of a timeline."""
    phase, generation, attempt, instance, processor, waited_ms, ran_ms, claimed, ended, outcome, error = row
    claimed_at, ended_at = db.moment(claimed), db.moment(ended)
    return Span(
        phase=phase,
        generation=generation,
        attempt=attempt,
        instance=instance,
        processor=_processor(phase, processor),
        claimed_at=claimed_at,
        started_at=claimed_at + timedelta(milliseconds=waited_ms or 0),
        ended_at=ended_at,
        outcome=outcome,
        error=to_error(error, ended_at),
        ran=None if ran_ms is None else timedelta(milliseconds=ran_ms),
    )


def to_error(text: str | None, at: datetime | None) -> dict[str, Any] | None:
    """A stored error with the time its attempt ended, which is stored beside it."""
    known = None if text is None else json.loads(text)  # SQLite has "null" where an attempt went without
    return None if known is None else {**known, "at": None if at is None else at.isoformat()}


def _processor(phase: str, number: int | None) -> str | None:
    """The name of a processor, as people read it."""
    return None if number is None else f"{phase}-processor-{number}"


def _progress(facts: Mapping[str, Any], at: datetime | None) -> Progress:
    return Progress.stored(facts["done"], facts["total"], facts["position"], at)


def _output(facts: Mapping[str, Any]) -> Output:
    return Output(facts["phase"], facts["name"], facts["value"], created=True)


class _EnqueuedDraft:
    """A result that is not frozen yet, as above."""

    __slots__ = Enqueued.__slots__


def created_results(ids: Sequence[str]) -> list[Enqueued]:
    """The results of an enqueue that made all its jobs."""
    results: list[Enqueued] = []
    for job in ids:
        result: Any = _EnqueuedDraft()
        result.id = job
        result.created = True
        result.replaced = False
        result.__class__ = Enqueued
        results.append(result)
    return results
