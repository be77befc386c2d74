"""Every transition of a job and of an instance as one structured log record with a stable name.

The names are the interface: programs search for ``job.retried``, people read the message. Records go to the logger
``windlass.engine``; what a name carries is in docs/guides/logs-and-metrics.md. Plain ends are DEBUG: they cost nothing while that
level is off, and ``Summary`` (summary.py) says every ten seconds how many there were.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
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
    PhasePause,
    Recovered,
    Retried,
    Run,
)
from windlass.observe.current_job import CurrentJob, lease_fields
from windlass.observe.emit import LEVELS, emit, log
from windlass.observe.logger import Quiet

# ---------------------------------------------------------------------- jobs


def promoted(phase: str, count: int) -> None:
    """Jobs whose time had come were put into their queue."""
    if log.isEnabledFor(logging.DEBUG):
        told = "1 job was" if count == 1 else f"{count:,} jobs were"
        emit("job.promoted", f"{told} put into the queue: their time had come", phase=phase, count=count)


def claimed(leases: Iterable[Lease]) -> None:
    """Jobs were claimed by this instance."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    for lease in leases:
        emit("job.claimed", "claimed", **lease_fields(lease))


def started(jobs: Iterable[CurrentJob]) -> None:
    """Jobs were given to their processors."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    for job in jobs:
        emit("job.started", "started", processor=job.processor.name, **lease_fields(job.lease))


def ended(outcome: Outcome, name: str, asked: str | None = None) -> None:
    """An attempt came to its end; ``name`` is what the database made of the outcome (completed, failed, retried, …, lost), ``asked`` the
    reason of a cancel that was asked for."""
    event = f"job.{name}"
    if not log.isEnabledFor(LEVELS[event]):
        return
    lease, run = outcome.lease, outcome.run
    fields = {**lease_fields(lease), **_ran(lease, run)}
    match name:
        case "failed" | "retried" if isinstance(outcome, Failed | Retried):
            delay = (
                outcome.delay.total_seconds() if name == "retried" and isinstance(outcome, Retried) else None
            )
            emit(
                event,
                _failure(outcome.error, delay),
                error=_error(outcome.error),
                exc_info=_exception(outcome.error),
                delay_seconds=delay,
                **fields,
            )
        case "cancelled":
            reason = outcome.reason if isinstance(outcome, Cancelled) else ON_REQUEST
            if reason == ON_REQUEST and asked is not None:
                reason = asked
            emit(event, reason, reason=reason, **fields)
        case "advanced" if isinstance(outcome, Advanced):
            emit(event, f"goes on in {outcome.phase}", next_phase=outcome.phase, **fields)
        case _:
            emit(event, _PLAIN.get(name, name), **fields)


def ended_elsewhere(lease: Lease, name: str, run: Run | None = None) -> None:
    """The same for an attempt that its own transaction ended, or that has no outcome because its lease is lost."""
    if log.isEnabledFor(LEVELS[f"job.{name}"]):
        emit(f"job.{name}", _PLAIN.get(name, name), **lease_fields(lease), **_ran(lease, run))


def raised_after_end(lease: Lease, error: JobError) -> None:
    """A handler raised although a transaction of its own had ended the job; the end stands."""
    message = f"{_what(error)}; raised after its transaction had ended the job, whose end stands"
    emit(
        "job.raised_after_end",
        message,
        error=_error(error),
        exc_info=_exception(error),
        **lease_fields(lease),
    )


def result_dropped(lease: Lease) -> None:
    """A handler returned a value although a transaction of its own had ended the job with another result."""
    message = (
        "returned a value after its transaction had ended the job; the value is not stored. Give it to tx.complete(value) or "
        "ctx.complete_in(where, value), or open the transaction with ends=False"
    )
    emit("job.result_dropped", message, **lease_fields(lease))


def chunk_retried(
    lease: Lease, number: int, tried: int, attempts: int, error: BaseException, delay: float
) -> None:
    """A chunk raised, was rolled back, and comes again."""
    why = explain(error)
    message = f"chunk {number}: {why}; try {tried} of {attempts}, again in {delay:g} s"
    emit(
        "chunk.retried",
        message,
        chunk=number,
        reason=why,
        delay_seconds=delay,
        exc_info=error,
        **lease_fields(lease),
    )


def recovered(item: Recovered) -> None:
    """A job of a dead instance was taken over."""
    message = f"its instance died; {_VERDICTS.get(item.verdict, item.verdict)}"
    reason = item.reason if item.verdict == "cancelled" else None
    if reason is not None:
        message += f": {reason}"
    error = None if item.error is None else _error(item.error)
    emit(
        "job.recovered", message, verdict=item.verdict, reason=reason, error=error, **lease_fields(item.lease)
    )


def refused(lease: Lease, reason: str) -> None:
    """The queue did not take a claimed job; its claim is given back."""
    emit("job.refused", f"not taken: {reason}", reason=str(reason), **lease_fields(lease))


def duplicate_prevented(lease: Lease, name: str = "") -> None:
    """An output was there already; the first value stands."""
    what = f"output {name!r}" if name else "the output"
    message = f"duplicate prevented: {what} of {lease.phase} is there"
    emit("duplicate.prevented", message, output=name, **lease_fields(lease))


def held_back(phase: str, following: str, queued: int, most: int, *, is_full: bool) -> None:
    """A phase is (or is no longer) held back, because the one after it has enough to do."""
    message = (
        f"held back: {following} has {queued:,} jobs queued, and wants at most {most:,}"
        if is_full
        else f"goes on: {following} has only {queued:,} jobs queued"
    )
    emit("phase.held_back", message, phase=phase, next_phase=following, queued=queued, is_held=is_full)


def jobs_wait(count: int) -> str:
    """``1 job waits``, ``7 jobs wait``."""
    return "1 job waits" if count == 1 else f"{count:,} jobs wait"


def unserved(phase: str, count: int) -> None:
    """Jobs wait in a phase that no living instance serves."""
    message = f"{jobs_wait(count)} in {phase}, and no instance serves it; start a worker that has it, or bring its handler back"
    emit("phase.unserved", message, phase=phase, queued=count)


def drain_held_up(pause: PhasePause, count: int) -> None:
    """A drain waits for jobs that nobody may claim."""
    ends = f"until {pause.until:%Y-%m-%d %H:%M:%S} UTC" if pause.until else "until it is resumed"
    message = (
        f"the drain waits for {count:,} queued jobs of {pause.phase}, which is paused {ends}: {pause.reason}"
    )
    emit("drain.held_up", message, phase=pause.phase, queued=count, reason=pause.reason)


def request_unknown(job_id: str, correlation_id: str | None = None) -> None:
    """``process_request`` was asked for a job that does not exist."""
    message = "there is no job with this id; nothing was done. It may have ended and been pruned"
    emit("request.unknown", message, job_id=job_id, correlation_id=correlation_id)


def lock_held(job_id: str, holder: str | None = None, about: Mapping[str, Any] | None = None) -> None:
    """Somebody else has a request's lock; the job was not touched. ``about`` is what else is known of the job."""
    emit(
        "lock.held",
        "its lock is held by another; skipped",
        holder=holder,
        **{"job_id": job_id, **(about or {})},
    )


def lock_lost(job_id: str, about: Mapping[str, Any] | None = None) -> None:
    """A request's lock ended while the work went on."""
    message = (
        "its lock ended before the work did; another may begin it, and the database lets one of them finish"
    )
    emit("lock.lost", message, **{"job_id": job_id, **(about or {})})


def lock_degraded(problem: str, *, is_required: bool = False, skipped: int = 0) -> None:
    """Redis does not answer; whoever calls it sees to it that this is not said too often."""
    effect = "no request is begun" if is_required else "requests are locked inside this process only"
    emit("lock.degraded", f"{effect}: {problem}", reason=problem, skipped=skipped or None)


def lock_restored(since: datetime) -> None:
    """Redis is back."""
    emit("lock.restored", "Redis answers again; locks are shared again", since=since.isoformat())


def processor_replaced(job: CurrentJob, reason: str) -> None:
    """A job did not stop when told: its processor is in error, and another one took its place."""
    message = f"{job.processor.name} did not let go of its job ({reason}); another processor took its place"
    emit(
        "processor.replaced",
        message,
        reason=str(reason),
        processor=job.processor.name,
        **lease_fields(job.lease),
    )


_STOPPED_BY = {
    "loop": "it is cancelled at its next await",
    "thread": "it hears so from ctx.should_stop; only with executor='process' could it be killed",
    "process": "it is killed",
}


def overdue(job: CurrentJob, limit: float, where: str) -> None:
    """A job outran its time limit, and is stopped as far as its executor can."""
    message = f"outran its time limit of {limit:g} s; {_STOPPED_BY[where]}"
    emit("job.overdue", message, limit_seconds=limit, processor=job.processor.name, **lease_fields(job.lease))


def policy_broken(lease: Lease, error: BaseException) -> None:
    """A retry policy raised, or answered what is no delay; the default one stands in for it."""
    why = explain(error)
    message = f"the retry policy of {lease.phase} cannot say how long to wait ({why}); the default one does"
    emit("policy.broken", message, reason=why, **lease_fields(lease))


_EXECUTORS = {
    "loop": "async handlers (the event loop)",
    "threads": "plain handlers (threads)",
    "processes": "handlers in processes of their own",
}


def executor_failed(executor: str, reason: str, jobs: Sequence[CurrentJob]) -> None:
    """An executor could not start jobs; nothing is counted against them."""
    given = f"; {len(jobs)} jobs go back to their queue, the first is {jobs[0].lease.id}" if jobs else ""
    message = f"the executor for {_EXECUTORS[executor]} cannot start jobs: {reason}{given}"
    emit("executor.failed", message, executor=executor, reason=reason, jobs=len(jobs))


# ---------------------------------------------------------------------- schedules


def schedules_defined(defined: Defined) -> None:
    """The database says now what the code says."""
    told = [
        f"{word} {', '.join(names)}"
        for word, names in (("added", defined.added), ("changed", defined.changed), ("gone", defined.gone))
        if names
    ]
    if told:
        emit(
            "schedule.defined",
            f"schedules: {'; '.join(told)}",
            added=list(defined.added),
            changed=list(defined.changed),
            gone=list(defined.gone),
        )


def rules_defined(defined: Defined) -> None:
    """The database says now what the code says; what is gone from the code fires until somebody removes it."""
    told = [
        f"{word} {', '.join(names)}"
        for word, names in (
            ("added", defined.added),
            ("changed", defined.changed),
            ("gone from the code and still firing until removed:", defined.gone),
        )
        if names
    ]
    if told:
        emit(
            "rule.defined",
            f"rules: {'; '.join(told)}",
            level=logging.WARNING if defined.gone else None,
            added=list(defined.added),
            changed=list(defined.changed),
            gone=list(defined.gone),
        )


def fired(item: Fired) -> None:
    """A schedule was due."""
    for tick in item.ticks if log.isEnabledFor(logging.DEBUG) else ():
        due_at = tick.at.isoformat()
        emit(
            "schedule.fired",
            f"{item.schedule} was due at {due_at}",
            schedule=item.schedule,
            due_at=due_at,
            job_id=tick.job_id,
            covers=tick.covers,
        )
    if item.skipped:
        made = f"{len(item.ticks)} jobs were made" if item.ticks else "no job was made"
        why = "; more were missed than its cap" if item.is_capped else ""
        emit(
            "schedule.missed",
            f"{item.schedule}: {item.skipped} due times got no job of their own, {made}{why}",
            schedule=item.schedule,
            skipped=item.skipped,
            jobs=len(item.ticks),
            is_capped=item.is_capped,
        )
    if item.refused is not None:
        message = f"{item.schedule} was paused: {item.refused}"
        emit("schedule.refused", message, schedule=item.schedule, reason=item.refused)
    if item.left is not None:
        message = f"{item.schedule} is left to other instances: {item.left}"
        emit("schedule.left", message, schedule=item.schedule, reason=item.left)


# ---------------------------------------------------------------------- the instance


def instance_started(instance: str, phases: Sequence[str]) -> None:
    emit(
        "instance.started",
        f"serves {', '.join(phases) or 'no phase'}",
        instance=instance,
        phases=list(phases),
    )


def instance_stopping(instance: str, running: int, grace: float) -> None:
    message = f"stopping: {running:,} jobs running, grace period {grace:g} s"
    emit("instance.stopping", message, instance=instance, running=running, grace_seconds=grace)


def instance_stopped(instance: str) -> None:
    emit("instance.stopped", "stopped", instance=instance)


def left_behind(threads: Sequence[str], processes: Sequence[str]) -> None:
    """The process ends while something that handlers started goes on."""
    told = [
        f"{len(names)} {word}{'' if len(names) == 1 else end} ({', '.join(names)})"
        for word, end, names in (("thread", "s", threads), ("process", "es", processes))
        if names
    ]
    who = " and ".join(told) or "what runs at its exit"
    message = f"the process ends without waiting any longer for {who}"
    emit("instance.left_behind", message, threads=list(threads), processes=list(processes))


def self_stopped(instance: str) -> None:
    """The lease is about to end and could not be renewed."""
    message = "the lease could not be renewed in time; all jobs were told to stop, and nothing is claimed until it is"
    emit("instance.self_stopped", message, instance=instance)


def metrics_listening(url: str) -> None:
    """Metrics and health are answered."""
    emit("metrics.listening", f"metrics and health on {url}", url=url)


def process_ended(number: int, how: str, lived: float, pause: float) -> None:
    """One of several worker processes died, and its place is filled again."""
    message = f"worker process {number} {how} after {lived:.1f} s; starting another in {pause:g} s"
    emit("process.ended", message, place=number, reason=how, seconds=round(lived, 1), pause_seconds=pause)


def lease_lost(instance: str, why: str) -> None:
    """Others have this instance's jobs now."""
    emit("lease.lost", f"all leases of this instance are lost: {why}", instance=instance, reason=why)


def loop_blocked(lease: Lease | None, seconds: float, stack: str) -> None:
    """A coroutine keeps the event loop from running others."""
    who = f"job {lease.id} of {lease.phase}" if lease else "something that is no job"
    message = (
        f"{who} blocks the event loop for {seconds:.1f} s; use `await`, or make its handler a plain function"
    )
    fields = lease_fields(lease) if lease else {}
    emit("loop.blocked", message, blocked_seconds=round(seconds, 3), stack=stack, **fields)


def health(
    status: str,
    parts: Mapping[str, str],
    *,
    busy: int = 0,
    idle: int = 0,
    in_error: Sequence[str] = (),
    waiting: int = 0,
) -> None:
    """What the health check found; ``parts`` are the ones that are not well."""
    level = logging.INFO if status == "ok" else logging.WARNING
    told = "; ".join(f"{name}: {text}" for name, text in parts.items())
    queue = f"{busy:,} processors busy, {idle:,} idle, {jobs_wait(waiting)} in memory"
    emit(
        "instance.health",
        f"{status}: {told}; {queue}" if told else f"{status}: {queue}",
        level=level,
        status=status,
        parts=dict(parts),
        busy=busy,
        idle=idle,
        in_error=list(in_error),
        waiting=waiting,
    )


def duty_failing(name: str, times: int, error: BaseException) -> None:
    """A duty of upkeep fails each time; said once, until it works again."""
    told = {"type": type(error).__name__, "code": getattr(error, "code", None), "message": explain(error)}
    message = (
        f"the duty {name!r} failed {times} times running and is tried on; until it works, nobody may be doing it. "
        f"Look at the cause: {told['message']}"
    )
    emit("duty.failing", message, duty=name, times=times, error=told)


def duty_works(name: str) -> None:
    """A duty that had kept failing was done."""
    emit("duty.works", f"the duty {name!r} works again", duty=name)


# ---------------------------------------------------------------------- the database, once a second at most


_unreachable, _back = Quiet(), Quiet()


def store_unreachable(error: BaseException, *, quiet: Quiet = _unreachable) -> None:
    """The database does not answer, or takes nothing; outcomes wait in memory."""
    if log.isEnabledFor(logging.WARNING) and (skipped := quiet.skipped()) is not None:
        told = {"type": type(error).__name__, "code": getattr(error, "code", None), "message": explain(error)}
        what = "does not answer" if isinstance(error, StoreUnreachableError) else "takes nothing"
        message = f"the database {what}; outcomes wait in memory, and nothing is claimed: {told['message']}"
        emit("store.unreachable", message, error=told, skipped=skipped or None)


def store_back(*, quiet: Quiet = _back) -> None:
    """It answers again."""
    if log.isEnabledFor(logging.INFO) and quiet.skipped() is not None:
        emit("store.back", "the database answers again")


def store_awaited(error: BaseException, seconds: float) -> None:
    """A worker that starts waits for its database."""
    told = {"type": type(error).__name__, "code": getattr(error, "code", None), "message": explain(error)}
    message = f"waiting for the database, for {seconds:.0f} s more at most: {told['message']}"
    emit("store.awaited", message, seconds_left=round(seconds, 1), error=told)


# ---------------------------------------------------------------------- words

_PLAIN = {
    "completed": "completed",
    "advanced": "goes on in its next phase",
    "released": "given back to its queue",
    "lost": "its lease was lost; what this attempt did was not recorded",
    "failed": "failed",
    "retried": "is tried again",
}
_VERDICTS = {
    "released": "given back to its queue",
    "retried": "tried again after a pause",
    "failed": "no further attempt",
    "completed": "its output was there, so it is completed",
    "advanced": "its output was there, so it goes on in its next phase",
    "cancelled": "a cancel had been asked for",
    "held": "held here while its probe is asked",
}


def _failure(error: JobError, delay: float | None) -> str:
    told = _what(error)
    if delay is None:
        return f"{told}; no further attempt"
    return f"{told}; again in {delay:.3g} s"


def _what(error: JobError) -> str:
    return error.message if error.message.startswith(error.type) else f"{error.type}: {error.message}"


class ToldError(Exception):
    """An exception of which only the text is known here: it was raised in another process, or held what may not be shown."""


def _exception(error: JobError) -> BaseException | None:
    """What a record has as its ``exc_info``, for handlers that show or report exceptions."""
    if error.exception is not None or error.traceback is None:
        return error.exception
    made = ToldError(_what(error))
    made.__cause__ = ToldError(f"\n{error.traceback}")
    return made


def _error(error: JobError) -> dict[str, Any]:
    return {"type": error.type, "code": error.code, "message": error.message, "traceback": error.traceback}


def _ran(lease: Lease, run: Run | None) -> dict[str, Any]:
    if run is None:
        return {}
    return {
        "processor": f"{lease.phase}-processor-{run.processor}",
        "waited_ms": run.waited_ms,
        "ran_ms": run.ran_ms,
    }
