"""The requests of the client: for each verb its address, its body, and what its response becomes. Sending is another matter (sending.py)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, NoReturn, TypedDict, TypeVar
from urllib.parse import quote

from windlass.arguments.encoding import encode
from windlass.arguments.limits import LARGEST
from windlass.audit.record import AuditPage
from windlass.client import records
from windlass.client.decoding import made
from windlass.client.records import each, one
from windlass.control.job_views import JobCount, JobEvent, JobPage
from windlass.control.system_views import InstanceView, Overview, PipelineView, Sample
from windlass.control.why.codes import Why
from windlass.errors import ConfigError, check_names
from windlass.job_logs.lines import AttemptLog
from windlass.model import (
    After,
    CancelResult,
    Counts,
    Debounce,
    Enqueued,
    Job,
    Output,
    PhasePause,
    Progress,
    Schedule,
    Span,
    Throttle,
    Tick,
)
from windlass.model.failures import Failures
from windlass.model.rule import FanIn, StoredRule
from windlass.operations.operation import Operation, OperationPage
from windlass.operations.request import InstanceRequest

T = TypeVar("T")
Seconds = float | timedelta
AnyFilter = str | None
"""A filter as a text; of a ``Filter`` it is ``str(filter)``."""


class RemoteOptions(TypedDict, total=False):
    """The options of a submit, as those of ``kind.options(...)``."""

    key: str | None
    priority: int
    delay: Seconds | None
    run_at: datetime | None
    expires: Seconds | datetime | None
    debounce: str | Debounce | None
    throttle: Throttle | None
    limit_key: str | None
    after: Iterable[Any]
    correlation_id: str | None
    headers: Mapping[str, str] | None
    max_attempts: int


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """A request, and how to read its response. ``may_repeat`` says that sending it twice has the effect of sending it once."""

    method: str
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    """Seconds that the server may wait before it responds."""

    @property
    def may_repeat(self) -> bool:
        return self.method == "GET" or "Idempotency-Key" in self.headers


def _no_stream(_: Any) -> NoReturn:
    raise ValueError("no stream of events")


class Stream(Generic[T]):
    """A stream of events: the request, the lines of its response, and where it continues after a cut (HTML, section 9.2)."""

    def __init__(self, path: str, read: Callable[[Any, int], T], *, last_id: str | None = None) -> None:
        self._path, self._read, self._last_id = path, read, last_id
        self._event: dict[str, str] = {}
        self._count = 0
        self.is_over = False

    def ask(self) -> Ask[NoReturn]:
        """The request for what is left."""
        self._event = {}
        headers = {"Accept": "text/event-stream"}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        return Ask("GET", self._path, _no_stream, headers=headers)

    def line(self, text: str) -> T | None:
        """The event that a line ends, if it does."""
        if text:
            name, _, value = text.partition(":")
            self._event[name] = value.removeprefix(" ")
            return None
        event, self._event = self._event, {}
        if "data" not in event or event.get("event") == "reset":
            return None
        self._last_id = event.get("id", self._last_id)
        self._count += 1
        record = json.loads(event["data"])
        self.is_over = bool(record.get("is_last"))
        return self._read(record, self._count)


def submit(
    kind: str, arguments: Mapping[str, Any], options: Mapping[str, Any], key: str | None
) -> Ask[Enqueued]:
    return _keyed("/v1/jobs", _order(kind, arguments, options), one(Enqueued), key)


def submit_many(
    kind: str, rows: Iterable[Mapping[str, Any]], options: Mapping[str, Any], key: str | None
) -> Ask[list[Enqueued]]:
    orders = [_order(kind, arguments, options) for arguments in rows]
    return _keyed("/v1/jobs/many", orders, each("jobs", one(Enqueued)), key)


def get(job_id: str) -> Ask[Job]:
    """One job, wherever it is in its life; ``JobNotFoundError`` if there is none."""
    return Ask("GET", _job(job_id), records.job_of)


def get_ended(job_id: str, wait: int) -> Ask[Job]:
    """One job, as it is at its end or after ``wait`` seconds."""
    headers = {"Prefer": f"wait={wait}"} if wait else {}
    return Ask("GET", _job(job_id), records.job_of, headers=headers, wait=wait)


def list_jobs(only: AnyFilter = None, *, cursor: str | None = None, limit: int = 50) -> Ask[JobPage]:
    """Jobs from newest to oldest, a page at a time: ``client.jobs.list("state:failed kind:report*")``."""
    return Ask("GET", "/v1/jobs", records.page_of, _given(q=_text(only), cursor=cursor, limit=limit))


def count(only: AnyFilter = None) -> Ask[JobCount]:
    """How many jobs a filter finds, counted up to 10,000."""
    return Ask("GET", "/v1/jobs/count", one(JobCount), _given(q=_text(only)))


def why(job_id: str) -> Ask[Why]:
    """Why a job is not running."""
    return Ask("GET", _job(job_id, "/why"), records.why_of)


def timeline(job_id: str) -> Ask[Sequence[Span]]:
    """All attempts of a job, oldest first."""
    return Ask("GET", _job(job_id, "/timeline"), each("attempts", records.span_of))


def logs(job_id: str) -> Ask[Sequence[AttemptLog]]:
    """The lines that the job's handlers logged, attempt by attempt, oldest first."""
    return Ask("GET", _job(job_id, "/logs"), each("attempts", records.log_of))


def progress(job_id: str) -> Ask[Progress | None]:
    """How far a job is; None if it saved nothing yet."""
    return Ask("GET", _job(job_id), lambda found: records.job_of(found).progress)


def outputs(job_id: str) -> Ask[Sequence[Output]]:
    """The outputs of a job's phases in the order in which they were stored."""
    return Ask("GET", _job(job_id, "/outputs"), each("outputs", records.output_of))


def cancel(job_id: str, reason: str) -> Ask[CancelResult]:
    """Cancel a job: at once if it does not run, else its handler is asked to stop."""
    return _post(_job(job_id, "/cancel"), {"reason": reason}, lambda found: CancelResult(found["result"]))


def retry(job_id: str, reason: str | None = None, *, dependents: bool = False) -> Ask[Job]:
    """Run an ended job again, its history kept; with ``dependents`` also the jobs that were cancelled because of it."""
    return _post(_job(job_id, "/retry"), _given(reason=reason, dependents=dependents), records.job_of)


def run_now(job_id: str, reason: str | None = None) -> Ask[Job]:
    """Make a job due that is scheduled for later, or waits for its next attempt."""
    return _post(_job(job_id, "/run-now"), _given(reason=reason), records.job_of)


def delete(job_id: str, reason: str) -> Ask[None]:
    """Remove an ended job with everything that is kept of it."""
    return Ask("DELETE", _job(job_id), lambda found: None, {"reason": reason})


def edit(
    job_id: str,
    *,
    version: str,
    arguments: Mapping[str, Any] | None = None,
    priority: int | None = None,
    reason: str | None = None,
) -> Ask[Job]:
    """Change arguments or priority of a job that has not begun; ``EditConflictError`` if it has another version than ``job.version``."""
    if not version or '"' in version or not version.isascii() or not version.isprintable():
        raise ConfigError("version", version, "the version of the job that was read: job.version")
    body = _json(_given(arguments=arguments, priority=priority, reason=reason))
    return Ask("PATCH", _job(job_id), records.job_of, body=body, headers={"If-Match": f'"{version}"'})


def start(
    act: str,
    only: AnyFilter = None,
    reason: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    all: bool = False,
    dry_run: bool = False,
) -> Ask[Operation]:
    """Act on all jobs that a filter finds now."""
    facts = _given(act=act, filter=_text(only), reason=reason, all=all, dry_run=dry_run)
    return _post("/v1/operations", {**facts, **(options or {})}, records.operation_of)


def get_operation(operation_id: str) -> Ask[Operation]:
    """One operation with its progress; ``OperationNotFoundError`` if there is none."""
    return Ask("GET", f"/v1/operations/{_part(operation_id)}", records.operation_of)


def list_operations(
    *, state: str | None = None, cursor: str | None = None, limit: int = 50
) -> Ask[OperationPage]:
    """Operations from newest to oldest, a page at a time."""
    query = _given(state=state, cursor=cursor, limit=limit)
    return Ask("GET", "/v1/operations", records.operations_of, query)


def stop(operation_id: str, reason: str | None = None) -> Ask[bool]:
    """Stop a running operation; what was done stays done. False if it was over already."""
    path = f"/v1/operations/{_part(operation_id)}/stop"
    return _post(path, _given(reason=reason), records.changed)


def names() -> Ask[Sequence[str]]:
    """All phases that are known."""
    return _phases(lambda phase: phase["name"], list)


def counts() -> Ask[Mapping[str, Counts]]:
    """Jobs per state of every phase."""
    return _phases(lambda phase: (phase["name"], made(Counts, phase["counts"])), dict)


def oldest() -> Ask[Mapping[str, float]]:
    """Seconds that the oldest queued job of every phase has been ready; 0.0 where none is queued."""
    return _phases(lambda phase: (phase["name"], phase["oldest"]), dict)


def paused() -> Ask[Sequence[PhasePause]]:
    """The phases that are paused now."""
    return _phases(
        lambda phase: phase,
        lambda found: [
            made(PhasePause, item["pause"], phase=item["name"]) for item in found if item["pause"]
        ],
    )


def pause(phase: str, reason: str, *, lasts: Seconds | None = None) -> Ask[None]:
    """Stop claims of a phase on every instance; running jobs continue. Without ``lasts`` until it is resumed."""
    body = _given(reason=reason, lasts=_seconds(lasts))
    return _post(f"/v1/phases/{_name(phase)}/pause", body, lambda found: None)


def resume(phase: str, reason: str | None = None) -> Ask[bool]:
    """Serve a phase again; False if it was not paused."""
    path = f"/v1/phases/{_name(phase)}/resume"
    return _post(path, _given(reason=reason), records.changed)


def overview() -> Ask[Overview]:
    """All phases, the instances, and what is wrong."""
    return Ask("GET", "/v1/overview", one(Overview))


def list_failures(*, kind: str | None = None, phase: str | None = None) -> Ask[Failures]:
    """Failed jobs by kind, phase, type and place of the error, the latest group first."""
    return Ask("GET", "/v1/failures", one(Failures), _given(kind=kind, phase=phase))


def list_pipelines() -> Ask[Sequence[PipelineView]]:
    """All kinds by name; a plain job is a pipeline of one phase."""
    return Ask("GET", "/v1/pipelines", each("pipelines", one(PipelineView)))


def get_pipeline(name: str) -> Ask[PipelineView]:
    """One kind; ``ConfigError`` if the application of the server defines none of this name."""
    return Ask("GET", f"/v1/pipelines/{_name(name)}", one(PipelineView))


def list_schedules() -> Ask[Sequence[Schedule]]:
    """All schedules by name."""
    return Ask("GET", "/v1/schedules", each("schedules", records.schedule_of))


def get_schedule(name: str) -> Ask[Schedule]:
    """One schedule; ``ScheduleNotFoundError`` if there is none of this name."""
    return Ask("GET", _schedule(name), records.schedule_of)


def ticks(name: str, limit: int = 10) -> Ask[Sequence[Tick]]:
    """The last due times that made jobs, newest first."""
    return Ask("GET", _schedule(name, "/ticks"), each("ticks", records.tick_of(name)), {"limit": limit})


def next_times(name: str, count: int = 10) -> Ask[Sequence[datetime]]:
    """The next due times; empty while the schedule does not fire."""
    return Ask("GET", _schedule(name, "/next"), each("times", datetime.fromisoformat), {"count": count})


def pause_schedule(name: str, reason: str) -> Ask[Schedule]:
    """Stop a schedule; jobs that it made continue."""
    return _post(_schedule(name, "/pause"), {"reason": reason}, records.schedule_of)


def resume_schedule(name: str, reason: str | None = None) -> Ask[bool]:
    """Let a paused schedule fire again; False if it was not paused."""
    return _post(_schedule(name, "/resume"), _given(reason=reason), records.changed)


def run_schedule(name: str, reason: str | None = None) -> Ask[Enqueued]:
    """Make one job of a schedule now, paused or not."""
    return _post(_schedule(name, "/run"), _given(reason=reason), one(Enqueued))


def remove_schedule(name: str, reason: str | None = None) -> Ask[None]:
    """Remove a schedule; jobs that it made stay."""
    return Ask("DELETE", _schedule(name), lambda found: None, _given(reason=reason))


def list_rules() -> Ask[Sequence[StoredRule]]:
    """All rules by name."""
    return Ask("GET", "/v1/rules", each("rules", records.rule_of))


def get_rule(name: str) -> Ask[StoredRule]:
    """One rule; ``RuleNotFoundError`` if there is none of this name."""
    return Ask("GET", f"/v1/rules/{_name(name)}", records.rule_of)


def open_fan_ins(rule: str | None = None, *, limit: int = 1000) -> Ask[Sequence[FanIn]]:
    """Children that are not made yet: which parents have ended, which are missing."""
    return Ask("GET", "/v1/fan-ins", each("fan_ins", one(FanIn)), _given(rule=rule, limit=limit))


def list_instances() -> Ask[Sequence[InstanceView]]:
    """All instances that the database knows, newest first."""
    return Ask("GET", "/v1/instances", each("instances", one(InstanceView)))


def drain(instance: str, reason: str | None = None, *, grace: float | None = None) -> Ask[InstanceRequest]:
    """Have an instance claim nothing more, finish its running jobs, and stop."""
    body = _given(reason=reason, grace=grace)
    return _post(f"/v1/instances/{_part(instance)}/drain", body, one(InstanceRequest))


def set_processors(instance: str, phase: str, count: int, reason: str | None = None) -> Ask[InstanceRequest]:
    """Give a phase of an instance so many processors, until the instance starts again."""
    path = f"/v1/instances/{_part(instance)}/processors/{_name(phase)}"
    return Ask("PUT", path, one(InstanceRequest), body=_json(_given(count=count, reason=reason)))


def get_request(request_id: str) -> Ask[InstanceRequest]:
    """What an instance was asked to do, and what became of it."""
    return Ask("GET", f"/v1/instance-requests/{_part(request_id)}", one(InstanceRequest))


def list_audit(
    *,
    target: str | None = None,
    name: str | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Ask[AuditPage]:
    """Records of the audit trail from newest to oldest, a page at a time."""
    begin = None if since is None else since.isoformat()
    query = _given(target=target, name=name, actor=actor, since=begin, cursor=cursor, limit=limit)
    return Ask("GET", "/v1/audit", one(AuditPage), query)


def job_events(job_id: str, after: str | None) -> Stream[JobEvent]:
    """The events and the progress of a job; ends with the job."""
    return Stream(_job(job_id, "/events"), lambda record, _: made(JobEvent, record), last_id=after)


def samples() -> Stream[Sample]:
    """Samples of everything, one a second."""
    return Stream("/v1/events?topics=overview", records.sample_of)


def _phases(read: Callable[[Any], Any], gather: Callable[[Iterable[Any]], T]) -> Ask[T]:
    return Ask("GET", "/v1/phases", lambda found: gather(map(read, found["phases"])))


def _order(kind: str, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """A job of a request."""
    check_names("option", options, RemoteOptions.__annotations__)
    made: dict[str, Any] = {"kind": kind, "arguments": arguments}
    for name, value in options.items():
        if value is not None:
            made[name] = _option(name, value)
    return made


def _option(name: str, value: Any) -> Any:
    match value:
        case timedelta():
            return value.total_seconds()
        case Debounce():
            return _given(key=value.key, wait=_seconds(value.wait))
        case Throttle():
            return {"key": value.key, "period": _seconds(value.period)}
    if name == "debounce" and isinstance(value, str):
        return {"key": value}
    if name == "after":
        return [
            {"job": one.parent, "policy": one.policy} if isinstance(one, After) else getattr(one, "id", one)
            for one in value
        ]
    return value


def _seconds(value: Seconds | None) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _keyed(path: str, body: Any, read: Callable[[Any], T], key: str | None) -> Ask[T]:
    return Ask("POST", path, read, body=_json(body), headers={"Idempotency-Key": key or uuid.uuid4().hex})


def _post(path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> Ask[T]:
    return Ask("POST", path, read, body=_json(body))


def _json(body: Any) -> str:
    """The JSON of a body: dates, UUIDs and models as the library writes them; ``PayloadError`` for what JSON cannot hold."""
    return encode(body, what="request", limits=LARGEST)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _text(only: AnyFilter) -> str:
    return "" if only is None else str(only)


def _schedule(name: str, rest: str = "") -> str:
    return f"/v1/schedules/{_name(name)}{rest}"


def _name(name: str) -> str:
    """A name that may have slashes, as the end of a path."""
    return quote(name, safe="/") or "-"


def _job(job_id: str, rest: str = "") -> str:
    return f"/v1/jobs/{_part(job_id)}{rest}"


def _part(name: str) -> str:
    """A name as one part of a path."""
    return quote(str(name), safe="") if name not in ("", ".", "..") else "-"
