"""Builds the rows that end jobs: JSON by name for the long way; for the short way, where every field costs, lines of fixed
places on SQLite and columns on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache

from windlass.model import Advanced, Cancelled, Completed, Failed, JobError, PhaseEnd, PlainEnd, Route
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


_STATES = {Completed: "completed", Failed: "failed", Cancelled: "cancelled"}
