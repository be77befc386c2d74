"""Makes the library's own records of the JSON of the API, where JSON has another form than they."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from windlass.client.decoding import Record, made
from windlass.control.job_views import JobPage
from windlass.control.system_views import HistoryPoint, Sample
from windlass.control.why.codes import Why, WhyCode
from windlass.job_logs.lines import AttemptLog, LogLine
from windlass.model import Job, Json, Output, Schedule, Span, State, Tick
from windlass.model.principal import Principal
from windlass.model.rule import Rule, StoredRule
from windlass.operations.operation import Operation, OperationPage

T = TypeVar("T")


def one(kind: type[T]) -> Callable[[Any], T]:
    """Reads a response that is a record."""
    return partial(made, kind)


def each(name: str, read: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    """Reads a response that has a list."""
    return lambda found: [read(record) for record in found[name]]


def job_of(record: Record) -> Job:
    """A job."""
    result = record.get("result")
    return made(
        Job,
        record,
        args_json=Json(json.dumps(record["arguments"])),
        result_json=None if result is None else Json(json.dumps(result)),
        outputs=tuple(map(output_of, record.get("outputs", ()))),
        state=State(record["state"]),
    )


def page_of(record: Record) -> JobPage:
    """A page of jobs."""
    return made(JobPage, record, jobs=[job_of(item) for item in record["jobs"]])


def span_of(record: Record) -> Span:
    """An attempt."""
    ran = record["ran_seconds"]
    return made(Span, record, ran=None if ran is None else timedelta(seconds=ran))


def output_of(record: Record) -> Output:
    """An output."""
    return made(Output, record, created=True)


def log_of(record: Record) -> AttemptLog:
    """The lines of an attempt."""
    lines = [
        LogLine(datetime.fromisoformat(line["at"]), line["level"], line["logger"], line["message"])
        for line in record["lines"]
    ]
    return made(AttemptLog, record, lines=lines)


def why_of(record: Record) -> Why:
    """Why a job is not running."""
    return Why(
        WhyCode(record["code"]),  # type: ignore[call-arg]
        record["sentence"],
        record["details"],
        tuple(map(why_of, record["also"])),
    )


def operation_of(record: Record) -> Operation:
    """An operation."""
    return made(Operation, record, id=record["id"] or "", scope={}, after="")


def operations_of(record: Record) -> OperationPage:
    """A page of operations."""
    return made(OperationPage, record, operations=[operation_of(item) for item in record["operations"]])


def schedule_of(record: Record) -> Schedule:
    """A schedule."""
    return made(
        Schedule,
        record,
        args_json=Json(json.dumps(record["arguments"])),
        principal=Principal(record["principal"]),
    )


def tick_of(schedule: str) -> Callable[[Record], Tick]:
    """Reads a due time of a schedule."""
    return lambda record: made(Tick, record, schedule=schedule)


def rule_of(record: Record) -> StoredRule:
    """A rule."""
    return made(StoredRule, record, rule=made(Rule, record))


def sample_of(record: Record, number: int) -> Sample:
    """The sample with this number of a stream."""
    return made(Sample, record, number=number)


def history_point_of(record: Record) -> HistoryPoint:
    """A point of the statistics."""
    return HistoryPoint(**{**record, "at": datetime.fromisoformat(record["at"])})


def changed(record: Record) -> Any:
    """Whether an act changed anything."""
    return bool(record["changed"])
