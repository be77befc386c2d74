"""The ends of jobs as JSON rows: by name where a verb reads a few of them, by place where every field that is looked up counts."""

from __future__ import annotations

import json

from windlass.model import Cancelled, Completed, Failed, PlainEnd
from windlass.store.rows import (
    MAX_MESSAGE,
    clean,
    error_json,
    json_text,
    run_json,
    run_numbers,
    traceback_json,
)


def finish_row(outcome: PlainEnd, *, recovered: bool = False) -> str:
    """The JSON object that ends a job."""
    lease = outcome.lease
    head = f'{{"id":"{lease.id}","token":{lease.token}{run_json(outcome.run)}'
    if recovered:
        head += ',"recovered":true'
    if isinstance(outcome, Completed):
        if outcome.result is None:
            return head + ',"state":"completed"}'
        return f'{head},"state":"completed","result":{json_text(outcome.result, "result")}}}'
    if isinstance(outcome, Failed):
        error, traceback = error_json(lease, outcome.error), traceback_json(outcome.error)
        return f'{head},"state":"failed","error":{error},"traceback":{traceback}}}'
    return f'{head},"state":"cancelled","error":{cancelled_error(outcome.reason)}}}'


def finish_places(outcome: PlainEnd) -> str:
    """The same as a JSON array: id, token, state, processor, waited, ran, then the result or the error, and the traceback."""
    lease = outcome.lease
    head = f'["{lease.id}",{lease.token},"{_STATES[outcome.__class__]}",{run_numbers(outcome.run)}'
    if isinstance(outcome, Completed):
        return head + "]" if outcome.result is None else f"{head},{json_text(outcome.result, 'result')}]"
    if isinstance(outcome, Failed):
        return f"{head},{error_json(lease, outcome.error)},{traceback_json(outcome.error)}]"
    return f"{head},{cancelled_error(outcome.reason)}]"


def cancelled_error(reason: str) -> str:
    """What a cancelled job keeps as its error."""
    return json.dumps({"type": "Cancelled", "code": "cancelled", "message": clean(reason, MAX_MESSAGE)})


_STATES = {Completed: "completed", Failed: "failed", Cancelled: "cancelled"}
