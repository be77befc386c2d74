"""From outcomes to the rows that record them, before any SQL.

First each outcome is made storable: an outcome that cannot be stored must not fail the others of its batch. A result or output that is no
JSON becomes a failed job with a code (a job must not stay held because of what it returned); an error whose details cannot be stored keeps its
message; texts are cleaned, delays bounded. ``strict`` raises instead where the caller recorded just this one outcome and can still do something
about it.

Then outcomes are split by the way they are written, and become rows: JSON by name for the long way; for the short way, where every field
costs, lines of fixed places on SQLite and columns on PostgreSQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

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
    Route,
)
from windlass.ranges import is_whole
from windlass.store.jobs.rows import (
    MAX_MESSAGE,
    MAX_TRACEBACK,
    bounded,
    clean,
    error_json,
    json_text,
    run_json,
    traceback_json,
)
from windlass.store.validators import LONGEST_DELAY, MAX_ATTEMPTS, NAME_RULE, is_name

_ENDS = (Completed, Failed, Cancelled)
_STATES = {Completed: "completed", Failed: "failed", Cancelled: "cancelled"}
_ASIDE, _BESIDE_OUTPUTS = int(ASIDE), int(BESIDE_OUTPUTS)
and_ = int.__and__  # the operator of a Flag takes a microsecond

# ------------------------------------------------------------------ storable


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


# ------------------------------------------------------------------ the ways


def split_plain(outcomes: Iterable[Outcome]) -> tuple[list[PlainEnd], list[Outcome]]:
    """Split outcomes into ends that one statement can write, and outcomes that touch more than their job's row."""
    plain: list[PlainEnd] = []
    aside: list[Outcome] = []
    for outcome in outcomes:
        if (
            isinstance(outcome, _ENDS)
            and not and_(outcome.lease.flags, _ASIDE)
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
            and not and_(outcome.lease.flags, _BESIDE_OUTPUTS)
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


# ------------------------------------------------------------------ rows


def finish_row(outcome: PlainEnd, *, recovered: bool = False) -> str:
    """The JSON object that ends a job."""
    lease = outcome.lease
    head = f'{{"id":"{lease.id}","token":{lease.token}{run_json(outcome.run)}'
    if recovered:
        head += ',"recovered":true'
    if isinstance(outcome, Completed):
        result = _result(outcome)
        return (
            f'{head},"state":"completed"}}'
            if result is None
            else f'{head},"state":"completed","result":{result}}}'
        )
    if isinstance(outcome, Failed):
        error, traceback = error_json(lease, outcome.error), traceback_json(outcome.error)
        if outcome.crashed:
            head += ',"crashed":1'
        return f'{head},"state":"failed","error":{error},"traceback":{traceback}}}'
    return f'{head},"state":"cancelled","error":{error_json(lease, cancelled(outcome.reason))}}}'


def finish_lines(outcomes: Iterable[PlainEnd]) -> str:
    """Ends as one JSON object, a line for each id. A line has its fields at fixed places, as `record.plain` of SQLite reads them: to read
    a place of a JSON array takes it three times as long."""
    return f"{{{','.join([_line(outcome) for outcome in outcomes])}}}"


def _line(outcome: PlainEnd) -> str:
    """Token (19), processor (5), waited (10), ran (10), a letter; then the result, or error and traceback, as JSON."""
    lease = outcome.lease
    run = (-1, -1, -1) if outcome.run is None else bounded(outcome.run)
    head = '"%s":"%019d%05d%010d%010d' % (lease.id, lease.token, *run)  # noqa: UP031  an f-string takes half as long again
    if isinstance(outcome, Completed):
        result = _result(outcome)
        return f'{head}c"' if result is None else f"{head}r{_rest_of_string(result)}"
    if isinstance(outcome, Failed):
        details = f"[{error_json(lease, outcome.error)},{traceback_json(outcome.error)}]"
        return f"{head}f{_rest_of_string(details)}"
    return f"{head}x{_rest_of_string(f'[{error_json(lease, cancelled(outcome.reason))}]')}"


def _rest_of_string(text: str) -> str:
    """The rest of a JSON string, with its closing quote."""
    return json.dumps(text, ensure_ascii=False)[1:]


NOTHING_SAID = dict.fromkeys(("states", "results", "errors", "tracebacks"), "{}")


def finish_columns(outcomes: Sequence[PhaseEnd]) -> dict[str, str]:
    """Ends as columns in PostgreSQL's text form; most are of completed jobs without a result, and need five of the nine."""
    leases = [outcome.lease for outcome in outcomes]
    runs = [(None, None, None) if outcome.run is None else bounded(outcome.run) for outcome in outcomes]
    columns = {
        "ids": column([lease.id for lease in leases]),
        "tokens": _numbers([lease.token for lease in leases]),
        "processors": _numbers([run[0] for run in runs]),
        "waited": _numbers([run[1] for run in runs]),
        "ran": _numbers([run[2] for run in runs]),
    }
    if all(outcome.__class__ is Completed and outcome.result is None for outcome in outcomes):
        return columns | NOTHING_SAID
    said = [_result_and_error(outcome) for outcome in outcomes]
    return columns | {
        "states": column([_STATES.get(outcome.__class__, "NULL") for outcome in outcomes]),
        "results": column([quoted(result) for result, _, _ in said]),
        "errors": column([quoted(error) for _, error, _ in said]),
        "tracebacks": column([quoted(traceback) for _, _, traceback in said]),
    }


def pipeline_columns(outcomes: Sequence[PhaseEnd]) -> dict[str, str]:
    """Ends of phases as columns: those of ends, and where each job goes on. An output is in the column of results."""
    nexts = [outcome if isinstance(outcome, Advanced) else None for outcome in outcomes]
    return finish_columns(outcomes) | {
        "nexts": column(["NULL" if to is None else quoted(to.phase) for to in nexts]),
        "budgets": _numbers([None if to is None else to.max_attempts for to in nexts]),
        "passed": column([quoted(_passed(outcome)) for outcome in outcomes]),
    }


def _passed(outcome: PhaseEnd) -> str:
    """The phases that a job must have been in before, for this outcome to be the right one; as an array in PostgreSQL's text form."""
    route = outcome.route if isinstance(outcome, Advanced | Completed) else ()
    return _passed_text(route, outcome.lease.phase, outcome.phase if isinstance(outcome, Advanced) else None)


@lru_cache(maxsize=1024)
def _passed_text(route: Route, here: str, following: str | None) -> str:
    names = [name for name, _ in route]
    before = names[: names.index(following)] if following in names else names
    return column([quoted(name) for name in before if name != here])


def _result(outcome: Completed) -> str | None:
    """The result as JSON; none where it is null, so that all ways store the same."""
    text = None if outcome.result is None else json_text(outcome.result, "result")
    return None if text == "null" else text


def _result_and_error(outcome: PhaseEnd) -> tuple[str | None, str | None, str | None]:
    """Result, error and traceback of an end."""
    if isinstance(outcome, Completed):
        return _result(outcome), None, None
    if isinstance(outcome, Advanced):
        return json_text(outcome.output, "output"), None, None
    if isinstance(outcome, Failed):
        traceback = outcome.error.traceback
        cleaned = None if traceback is None else clean(traceback, MAX_TRACEBACK)
        return None, error_json(outcome.lease, outcome.error), cleaned
    return None, error_json(outcome.lease, cancelled(outcome.reason)), None


def column(items: Iterable[str]) -> str:
    """An array in PostgreSQL's text form, of texts in that form."""
    return f"{{{','.join(items)}}}"


def _numbers(numbers: Sequence[int | None]) -> str:
    """Numbers as an array; a list of Python's own writes itself as one, but for its brackets, and for None."""
    text = f"{{{str(numbers)[1:-1]}}}"
    return text.replace("None", "NULL") if None in numbers else text


def quoted(text: str | None) -> str:
    """An element of such an array."""
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def cancelled(reason: str) -> JobError:
    """The error of a job that was cancelled for this reason."""
    return JobError(type="Cancelled", code="cancelled", message=reason)


def cancelled_error(reason: str) -> str:
    """The same as JSON for a job that no instance holds: `cancel.queued` and `cancel.later` add what they know of it."""
    return json.dumps({"type": "Cancelled", "code": "cancelled", "message": clean(reason, MAX_MESSAGE)})
