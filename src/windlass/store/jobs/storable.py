"""Makes outcomes storable, before any SQL: an outcome that cannot be stored must not fail the others of its batch.

A result or output that is no JSON becomes a failed job with a code (a job must not stay held because of what it returned); an
error whose details cannot be stored keeps its message; texts are cleaned, delays bounded. ``strict`` raises instead where the
caller recorded just this one outcome and can still do something about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from windlass.arguments.encoding import encode
from windlass.errors import ConfigError, PayloadError
from windlass.model import (
    ASIDE,
    BESIDE_OUTPUTS,
    ON_REQUEST,
    Advanced,
    Cancelled,
    Completed,
    Failed,
    JobError,
    Json,
    Outcome,
    PhaseEnd,
    PlainEnd,
    Retried,
    has_flag,
)
from windlass.ranges import is_whole
from windlass.store.jobs.rows import MAX_MESSAGE, clean, json_text
from windlass.store.validators import LONGEST_DELAY, MAX_ATTEMPTS, NAME_RULE, is_name

_ENDS = (Completed, Failed, Cancelled)


def make_storable(outcome: Outcome, *, strict: bool = False) -> Outcome:
    """The outcome as it can be written."""
    try:
        return _checked(outcome)
    except PayloadError as error:
        if strict:
            raise
        return _unstorable(outcome, "bad_result", error)
    except ConfigError as error:
        if strict:
            raise
        return _unstorable(outcome, "bad_outcome", error)


def make_all_storable(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Outcomes as they can be written; most are in order as they are, and are not checked twice."""
    return [
        outcome
        if outcome.__class__ is Completed and (outcome.result is None or outcome.result.__class__ is Json)
        else make_storable(outcome)
        for outcome in outcomes
    ]


def split_plain(outcomes: Iterable[Outcome]) -> tuple[list[PlainEnd], list[Outcome]]:
    """Split outcomes into ends that one statement can write, and outcomes that touch more than their job's row."""
    plain: list[PlainEnd] = []
    aside: list[Outcome] = []
    for outcome in outcomes:
        if (
            isinstance(outcome, _ENDS)
            and not has_flag(outcome.lease.flags, ASIDE)
            and not _needs_stored_state(outcome)
        ):
            plain.append(outcome)
        else:
            aside.append(outcome)
    return plain, aside


def split_pipelines(outcomes: Iterable[Outcome]) -> tuple[list[PhaseEnd], list[Outcome]]:
    """Split outcomes that are not plain into ends of phases that touch outputs only, and all others."""
    ends: list[PhaseEnd] = []
    others: list[Outcome] = []
    for outcome in outcomes:
        if (
            isinstance(outcome, (*_ENDS, Advanced))
            and not has_flag(outcome.lease.flags, BESIDE_OUTPUTS)
            and _has_plain_route(outcome)
        ):
            ends.append(outcome)
        else:
            others.append(outcome)
    return ends, others


def _has_plain_route(outcome: PhaseEnd) -> bool:
    """Whether an end of a phase needs nothing of what is stored but the phases that its job has been in."""
    if isinstance(outcome, Advanced):
        return not outcome.route or any(step[0] == outcome.phase for step in outcome.route)
    return outcome.__class__ is Completed or not _needs_stored_state(outcome)


def _needs_stored_state(outcome: PlainEnd) -> bool:
    """Whether an end depends on what is stored: on the reason of a cancel, on the number of crashes, or on where its job has been."""
    if outcome.__class__ is Completed:
        return bool(outcome.route)
    if outcome.__class__ is Failed:
        return outcome.crashed
    return outcome.__class__ is Cancelled and outcome.reason == ON_REQUEST


def rounds(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Split outcomes into groups that name each job once, so that a verdict belongs to exactly one outcome."""
    groups: list[list[Outcome]] = []
    seen: list[set[str]] = []
    for outcome in outcomes:
        place = next((n for n, ids in enumerate(seen) if outcome.lease.id not in ids), len(groups))
        if place == len(groups):
            groups.append([])
            seen.append(set())
        groups[place].append(outcome)
        seen[place].add(outcome.lease.id)
    return groups


def has_repeats(outcomes: Sequence[Outcome]) -> bool:
    return len({outcome.lease.id for outcome in outcomes}) != len(outcomes)


def _checked(outcome: Outcome) -> Outcome:
    match outcome:
        case Completed():
            if outcome.result is None or isinstance(outcome.result, Json):
                return outcome
            return replace(outcome, result=Json(json_text(outcome.result, "result")))
        case Failed():
            if not outcome.error.details:
                return outcome
            return replace(outcome, error=_storable_error(outcome.error))
        case Cancelled():
            return Cancelled(outcome.lease, clean(str(outcome.reason), MAX_MESSAGE), outcome.run)
        case Retried():
            delay = min(outcome.delay, LONGEST_DELAY)
            return replace(outcome, delay=delay, error=_storable_error(outcome.error))
        case Advanced():
            check_advance(outcome.phase, outcome.max_attempts)
            if outcome.phase == outcome.lease.phase:
                raise ConfigError(
                    "phase", outcome.phase, "another phase than the one the job is in: each is visited once"
                )
            if isinstance(outcome.output, Json):
                return outcome
            return replace(outcome, output=Json(json_text(outcome.output, "output")))
        case _:
            return outcome


def check_advance(phase: object, max_attempts: object) -> None:
    """Refuse a next phase that no queue can have."""
    if not is_name(phase):
        raise ConfigError("phase", phase, NAME_RULE)
    if not is_whole(max_attempts, 1, MAX_ATTEMPTS):
        raise ConfigError("max_attempts", max_attempts, f"a whole number from 1 to {MAX_ATTEMPTS}")


def _storable_error(error: JobError) -> JobError:
    if not error.details:
        return error
    try:
        encode(dict(error.details), what="details")
    except PayloadError as refused:
        return replace(error, details={"left out": clean(str(refused), 1000)})
    return error


def _unstorable(outcome: Outcome, code: str, error: Exception) -> Failed:
    failure = JobError(type=type(error).__name__, code=code, message=str(error))
    return Failed(outcome.lease, failure, outcome.run)
