"""The events: every transition of a job and of an instance is one structured log record with a stable name.

Programs use the names (``job.retried``), people read the texts. Records go to the logger ``windlass.engine``; the fields of each
event are in docs/guides/logs-and-metrics.md. In a text ``{0}`` is a word that only the text has, ``{phase}`` a field of the record.

Callers write most events with ``emit(events.LEASE_LOST, …)``. The functions below write events whose text or fields have to be computed.
Ordinary ends are DEBUG: they cost nothing while that level is off; ``Summary`` (summary.py) counts them every ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any

from windlass.arguments.json_checks import explain
from windlass.errors import StoreUnreachableError
from windlass.model import (
    ON_REQUEST,
    Advanced,
    Cancelled,
    Defined,
    Failed,
    Fired,
    JobError,
    Lease,
    Outcome,
    Recovered,
    Released,
    Retried,
    Run,
)
from windlass.observe.current_job import CurrentJob
from windlass.observe.emit import Event, emit, log
from windlass.observe.logger import Quiet

# One event a line.
# fmt: off

# ---------------------------------------------------------------------- jobs

PROMOTED = Event("job.promoted", DEBUG, "{0} queued: due now")
CLAIMED = Event("job.claimed", DEBUG, "claimed")
STARTED = Event("job.started", DEBUG, "started")
COMPLETED = Event("job.completed", DEBUG, "completed")
ADVANCED = Event("job.advanced", DEBUG, "continues in its next phase")
ADVANCED_TO = ADVANCED._replace(text="continues in {next_phase}")
RETRIED = Event("job.retried", WARNING, "retried")
RETRIED_AFTER = RETRIED._replace(text="{0}; again in {delay_seconds:.3g} s")
FAILED = Event("job.failed", ERROR, "failed")
FAILED_WITH = FAILED._replace(text="{0}; no further attempt")
CANCELLED = Event("job.cancelled", INFO, "cancelled")
CANCELLED_FOR = CANCELLED._replace(text="{reason}")
RELEASED = Event("job.released", INFO, "given back to its queue")
PUT_OFF = RELEASED._replace(text="put off for {delay_seconds:.3g} s, without an attempt")
LOST = Event("job.lost", WARNING, "its lease was lost; what this attempt did was not recorded")
RECOVERED = Event("job.recovered", WARNING, "its instance died; {0}")
REFUSED = Event("job.refused", WARNING, "refused: {reason}")
OVERDUE = Event("job.overdue", WARNING, "exceeded its time limit of {limit_seconds:g} s; {0}")
OVERDUE_IN_ALL = OVERDUE._replace(text="exceeded its total time limit of {limit_seconds:g} s; {0}")
RAISED_AFTER_END = Event("job.raised_after_end", WARNING, "{0}; raised after its transaction had ended the job, which does not change")
ENQUEUED_IN_ATOMIC = Event("enqueue.in_atomic", WARNING, "a job of kind {kind} is enqueued inside transaction.atomic() of the database {database!r}: {reason}")
RESULT_DROPPED = Event("job.result_dropped", WARNING,
    "returned a value after its transaction had ended the job; the value is not stored. "
    "Give it to tx.complete(value) or ctx.complete_in(where, value), or open the transaction with ends=False")
SUMMARY = Event("job.summary", INFO, "{0}")
CHUNK_RETRIED = Event("chunk.retried", WARNING, "chunk {chunk}: {reason}; try {0} of {1}, again in {delay_seconds:g} s")
CALL_RETRIED = Event("call.retried", INFO, "{call}: {reason}; try {0} of {1}, again in {delay_seconds:.3g} s")
DUPLICATE_PREVENTED = Event("duplicate.prevented", INFO, "duplicate prevented: {0} of {phase} is stored already")
REQUEST_UNKNOWN = Event("request.unknown", INFO, "there is no job with this id; nothing was done. It may have ended and been pruned")
MIDDLEWARE_FAILED = Event("middleware.failed", WARNING,
    "middleware {middleware} raised after the attempt was {0}, which does not change: {reason}")
MIDDLEWARE_MISSING = Event("middleware.missing", WARNING,
    "the process of this job has no middleware {middleware}; register it at the top level of a module that the handler's module imports")
REPORTER_FAILED = Event("reporter.failed", ERROR, "{reporter} raised while it reported an error of a job, and is not logged again: {reason}")
POLICY_BROKEN = Event("policy.broken", WARNING, "the retry policy of {phase} gave no delay ({reason}); the default policy is used")

# ---------------------------------------------------------------------- phases, schedules, rules, locks

HELD_BACK = Event("phase.held_back", INFO, "held back: {next_phase} has {queued:,} jobs queued, its limit is {0:,}")
NO_LONGER_HELD_BACK = HELD_BACK._replace(text="claimed from again: {next_phase} has only {queued:,} jobs queued")
UNSERVED = Event("phase.unserved", WARNING,
    "{0} in {phase}, and no instance serves it; start a worker that serves it, or deploy its handler again")
DRAIN_HELD_UP = Event("drain.held_up", WARNING, "the drain waits for {queued:,} queued jobs of {phase}, which is paused {0}: {reason}")
SCHEDULES_DEFINED = Event("schedule.defined", INFO, "schedules: {0}")
RULES_DEFINED = Event("rule.defined", INFO, "rules: {0}")
FIRED = Event("schedule.fired", DEBUG, "{schedule} was due at {due_at}")
MISSED = Event("schedule.missed", WARNING, "{schedule}: {skipped} due times got no job of their own, {0}")
SCHEDULE_REFUSED = Event("schedule.refused", ERROR, "{schedule} was paused: {reason}")
SCHEDULE_LEFT = Event("schedule.left", WARNING, "{schedule} is left to other instances: {reason}")
LOCK_HELD = Event("lock.held", INFO, "its lock is held by another process; skipped")
LOCK_TAKEN_OVER = Event("lock.taken_over", INFO, "the lock that {holder} left behind was taken over: the database says that {holder} has ended")
LOCK_LOST = Event("lock.lost", WARNING,
    "its lock ended before the work did; another process may begin the work, and the database lets one of them finish")
LOCK_DEGRADED = Event("lock.degraded", WARNING, "requests are locked inside this process only: {reason}")
LOCK_REQUIRED = LOCK_DEGRADED._replace(text="requests are refused: {reason}")
LOCK_RESTORED = Event("lock.restored", INFO, "Redis answers again; locks are shared again")

# ---------------------------------------------------------------------- the instance

INSTANCE_STARTED = Event("instance.started", INFO, "serves {0}")
INSTANCE_STOPPING = Event("instance.stopping", INFO, "stopping: {running:,} jobs running, grace period {grace_seconds:g} s")
REQUESTED = Event("instance.requested", INFO, "{act}, requested by {actor}: {0}")
INSTANCE_STOPPED = Event("instance.stopped", INFO, "stopped")
LEFT_BEHIND = Event("instance.left_behind", WARNING, "the process ends without waiting any longer for {0}")
SELF_STOPPED = Event("instance.self_stopped", ERROR,
    "the lease could not be renewed in time; all jobs were asked to stop, and nothing is claimed until it is renewed")
HEALTH = Event("instance.health", INFO, "{status}: {0}")
LEVEL_UNUSED = Event("logging.level_unused", WARNING, "--level {wanted} has no effect: the application configures logging, and its levels decide; --log console or --log json is the worker's own log")
METRICS_LISTENING = Event("metrics.listening", INFO, "metrics and health on {url}")
PROCESS_ENDED = Event("process.ended", WARNING,
    "worker process {place} {reason} after {seconds:.1f} s; starting another in {pause_seconds:g} s")
PROCESSOR_REPLACED = Event("processor.replaced", WARNING,
    "the job of {processor} did not stop ({reason}); another processor replaces it")
EXECUTOR_FAILED = Event("executor.failed", ERROR, "the executor for {0} cannot start jobs: {reason}{1}")
RETENTION = Event("history.retention", INFO, "{0}")
PRUNED = Event("history.pruned", INFO, "{removed:,} ended jobs were pruned in {seconds:.1f} s{0}")
LEASE_LOST = Event("lease.lost", ERROR, "all leases of this instance are lost: {reason}")
LOOP_BLOCKED = Event("loop.blocked", WARNING,
    "{0} blocks the event loop for {blocked_seconds:.1f} s; use `await`, or make its handler a sync function")
DUTY_FAILING = Event("duty.failing", WARNING,
    "the duty {duty!r} failed {times} times in a row and is tried again; until it succeeds, its work may be left undone: {error[message]}")
DUTY_WORKS = Event("duty.works", INFO, "the duty {duty!r} works again")
STORE_CHOSEN = Event("store.chosen", INFO, "jobs are in {database} ({origin})")
STORE_UNREACHABLE = Event("store.unreachable", WARNING,
    "the database {0}; outcomes wait in memory, and nothing is claimed: {error[message]}")
STORE_BACK = Event("store.back", INFO, "the database answers again")
STORE_AWAITED = Event("store.awaited", WARNING, "waiting for the database, for {0:.0f} s more at most: {error[message]}")

# fmt: on

ENDS = {
    event.name.removeprefix("job."): event
    for event in (COMPLETED, ADVANCED, RETRIED, FAILED, CANCELLED, RELEASED, LOST)
}
"""The ends of an attempt, by the name of the recorded outcome."""

# ---------------------------------------------------------------------- computed events

_emit = partial(emit, stacklevel=3)  # the record has the location of the caller of the function


def promoted(phase: str, count: int) -> None:
    """Jobs that became due were put into their queue."""
    if log.isEnabledFor(DEBUG):
        jobs = "1 job was" if count == 1 else f"{count:,} jobs were"
        _emit(PROMOTED, jobs, phase=phase, count=count)


def claimed(leases: Iterable[Lease]) -> None:
    """Jobs were claimed by this instance."""
    if log.isEnabledFor(DEBUG):
        for lease in leases:
            _emit(CLAIMED, lease=lease)


def started(jobs: Iterable[CurrentJob]) -> None:
    """Jobs were given to their processors."""
    if log.isEnabledFor(DEBUG):
        for job in jobs:
            _emit(STARTED, lease=job.lease, processor=job.processor.name)


def ended(outcome: Outcome, name: str, asked: str | None = None) -> None:
    """An attempt ended. ``name`` is the recorded outcome (completed, failed, retried, …, lost), ``asked`` the reason of a requested
    cancel."""
    event = ENDS[name]
    if not log.isEnabledFor(event.level):
        return
    fields: dict[str, Any] = {}
    what = ""
    match outcome:
        case Retried() if name == "retried":
            event, what = RETRIED_AFTER, _what(outcome.error)
            fields = {"delay_seconds": outcome.delay.total_seconds(), **_failure(outcome.error)}
        case Failed() | Retried() if name == "failed":
            event, what = FAILED_WITH, _what(outcome.error)
            fields = _failure(outcome.error)
            if (retry := outcome.error.details.get("retry")) is not None:
                what, fields["retry"] = f"{what}; {retry}", retry
        case Released() if name == "released" and outcome.delay:
            event, fields = PUT_OFF, {"delay_seconds": outcome.delay.total_seconds()}
        case Advanced() if name == "advanced":
            event, fields = ADVANCED_TO, {"next_phase": outcome.phase}
        case _ if name == "cancelled":
            reason = outcome.reason if isinstance(outcome, Cancelled) else ON_REQUEST
            event, fields = (
                CANCELLED_FOR,
                {"reason": asked if asked is not None and reason == ON_REQUEST else reason},
            )
    _emit(event, what, lease=outcome.lease, **fields, **_ran(outcome.lease, outcome.run))


def ended_elsewhere(lease: Lease, name: str, run: Run | None = None) -> None:
    """An attempt ended in its own transaction, or without an outcome because its lease is lost."""
    if log.isEnabledFor(ENDS[name].level):
        _emit(ENDS[name], lease=lease, **_ran(lease, run))


def raised_after_end(lease: Lease, error: JobError) -> None:
    """A handler raised after its own transaction had ended the job, which does not change."""
    _emit(RAISED_AFTER_END, _what(error), lease=lease, **_failure(error))


def recovered(item: Recovered) -> None:
    """A job of a dead instance was taken over."""
    what = _VERDICTS.get(item.verdict, item.verdict)
    reason = item.reason if item.verdict == "cancelled" else None
    error = None if item.error is None else _error(item.error)
    text = what if reason is None else f"{what}: {reason}"
    _emit(RECOVERED, text, lease=item.lease, verdict=item.verdict, reason=reason, error=error)


def duplicate_prevented(lease: Lease, name: str = "") -> None:
    """An output was stored before; the first value is kept."""
    _emit(DUPLICATE_PREVENTED, f"output {name!r}" if name else "the output", lease=lease, output=name)


def instance_started(instance: str, phases: Sequence[str], middleware: Sequence[str]) -> None:
    """An instance begins to serve."""
    named = list(middleware) or None
    _emit(
        INSTANCE_STARTED,
        ", ".join(phases) or "no phase",
        instance=instance,
        phases=list(phases),
        middleware=named,
    )


def overdue(job: CurrentJob, limit: float, where: str, *, is_total: bool = False) -> None:
    """A job exceeded one of its time limits, and is stopped as far as its executor can."""
    _emit(
        OVERDUE_IN_ALL if is_total else OVERDUE,
        _STOPPED_BY[where],
        lease=job.lease,
        limit_seconds=limit,
        is_total=is_total,
        processor=job.processor.name,
    )


def executor_failed(executor: str, reason: str, jobs: Sequence[CurrentJob]) -> None:
    """An executor could not start jobs; their attempts are not counted."""
    given = f"; {len(jobs)} jobs go back to their queue, the first is {jobs[0].lease.id}" if jobs else ""
    _emit(EXECUTOR_FAILED, _EXECUTORS[executor], given, executor=executor, reason=reason, jobs=len(jobs))


def loop_blocked(lease: Lease | None, seconds: float, stack: str) -> None:
    """A coroutine blocks the event loop."""
    who = f"job {lease.id} of {lease.phase}" if lease else "code outside of jobs"
    _emit(LOOP_BLOCKED, who, lease=lease, blocked_seconds=round(seconds, 3), stack=stack)


def defined(schedules: Defined, rules: Defined) -> None:
    """The schedules and rules of the code were stored. A rule that is gone from the code fires until it is removed."""
    for event, what, gone in (
        (SCHEDULES_DEFINED, schedules, "gone"),
        (RULES_DEFINED, rules, "gone from the code and still firing until removed:"),
    ):
        named = (("added", what.added), ("changed", what.changed), (gone, what.gone))
        if changes := "; ".join(f"{word} {', '.join(names)}" for word, names in named if names):
            level = WARNING if event is RULES_DEFINED and what.gone else None
            lists: dict[str, Any] = {
                "added": list(what.added),
                "changed": list(what.changed),
                "gone": list(what.gone),
            }
            _emit(event, changes, level=level, **lists)


def fired(item: Fired) -> None:
    """A schedule was due."""
    name, jobs = item.schedule, len(item.ticks)
    for tick in item.ticks if log.isEnabledFor(DEBUG) else ():
        _emit(FIRED, schedule=name, due_at=tick.at.isoformat(), job_id=tick.job_id, covers=tick.covers)
    if item.skipped:
        made = "no job was made" if not jobs else "1 job was made" if jobs == 1 else f"{jobs} jobs were made"
        made += "; more were missed than its cap" if item.is_capped else ""
        _emit(MISSED, made, schedule=name, skipped=item.skipped, jobs=jobs, is_capped=item.is_capped)
    if item.refused is not None:
        _emit(SCHEDULE_REFUSED, schedule=name, reason=item.refused)
    if item.left is not None:
        _emit(SCHEDULE_LEFT, schedule=name, reason=item.left)


def left_behind(threads: Sequence[str], processes: Sequence[str]) -> None:
    """The process ends while threads or processes that handlers started still run."""
    counted = [
        f"{len(names)} {word}{'' if len(names) == 1 else end} ({', '.join(names)})"
        for word, end, names in (("thread", "s", threads), ("process", "es", processes))
        if names
    ]
    who = " and ".join(counted) or "its exit handlers"
    _emit(LEFT_BEHIND, who, threads=list(threads), processes=list(processes))


def health(
    status: str,
    parts: Mapping[str, str],
    *,
    busy: int = 0,
    idle: int = 0,
    in_error: Sequence[str] = (),
    waiting: int = 0,
) -> None:
    """The result of a health check; ``parts`` has the parts with a fault."""
    found = [f"{name}: {text}" for name, text in parts.items()]
    found.append(f"{busy:,} processors busy, {idle:,} idle, {jobs_wait(waiting)} in memory")
    numbers: dict[str, Any] = {"busy": busy, "idle": idle, "in_error": list(in_error), "waiting": waiting}
    level = INFO if status == "ok" else WARNING
    _emit(HEALTH, "; ".join(found), level=level, status=status, parts=dict(parts), **numbers)


_unreachable, _back = Quiet(), Quiet()  # once a second at most


def store_unreachable(error: BaseException, *, quiet: Quiet = _unreachable) -> None:
    """The database does not answer or refuses writes; outcomes wait in memory."""
    if log.isEnabledFor(WARNING) and (skipped := quiet.skipped()) is not None:
        what = "is unreachable" if isinstance(error, StoreUnreachableError) else "refuses writes"
        _emit(STORE_UNREACHABLE, what, error=problem(error), skipped=skipped or None)


def store_back(*, quiet: Quiet = _back) -> None:
    """The database answers again."""
    if log.isEnabledFor(INFO) and quiet.skipped() is not None:
        _emit(STORE_BACK)


# ---------------------------------------------------------------------- words

_VERDICTS = {
    "released": "given back to its queue",
    "retried": "tried again after a pause",
    "failed": "no further attempt",
    "completed": "its output was stored, so it is completed",
    "advanced": "its output was stored, so it continues in its next phase",
    "cancelled": "a cancel was requested",
    "held": "held here while its probe runs",
}
_STOPPED_BY = {
    "loop": "it is cancelled at its next await",
    "thread": "ctx.should_stop is set; it can be killed only with executor='process'",
    "process": "it is killed",
}
_EXECUTORS = {
    "loop": "async handlers (the event loop)",
    "threads": "sync handlers (threads)",
    "processes": "handlers in child processes",
}


def jobs_wait(count: int) -> str:
    """``1 job waits``, ``7 jobs wait``."""
    return "1 job waits" if count == 1 else f"{count:,} jobs wait"


def problem(error: BaseException) -> dict[str, Any]:
    """The field ``error`` of an event about an error that is not a job's."""
    return {"type": type(error).__name__, "code": getattr(error, "code", None), "message": explain(error)}


class DescribedError(Exception):
    """Stands for an exception of which only the text is known: it was raised in another process, or contained a secret."""


def _what(error: JobError) -> str:
    return error.message if error.message.startswith(error.type) else f"{error.type}: {error.message}"


def _failure(error: JobError) -> dict[str, Any]:
    """The error as a field, and as the ``exc_info`` of the record for handlers that show or report exceptions."""
    exception = error.exception
    if exception is None and error.traceback is not None:
        exception = DescribedError(_what(error))
        exception.__cause__ = DescribedError(f"\n{error.traceback}")
    return {"error": _error(error), "exc_info": exception}


def _error(error: JobError) -> dict[str, Any]:
    return {"type": error.type, "code": error.code, "message": error.message, "traceback": error.traceback}


def _ran(lease: Lease, run: Run | None) -> dict[str, Any]:
    if run is None:
        return {}
    processor = f"{lease.phase}-processor-{run.processor}"
    return {"processor": processor, "waited_ms": run.waited_ms, "ran_ms": run.ran_ms}
