"""The outcome of a job in a child process: from the child's message, or from the way the child died.

Retry policies and time limits are applied here, in the instance, so that delays are computed in one place for all executors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from windlass.engine.attempt import AttemptRunner
from windlass.engine.job_errors import describe
from windlass.engine.processes.child_process import Exit
from windlass.engine.processes.exceptions import error_of, from_message
from windlass.engine.processes.wire import Message
from windlass.engine.running_attempt import RunningAttempt
from windlass.model import (
    ON_REQUEST,
    Cancelled,
    Failed,
    JobError,
    Json,
    Outcome,
    Retried,
)
from windlass.model.signals import STOPPED, Stopped
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.store.jobs.recovery import crash_delay

START_AGAIN = timedelta(seconds=5)


class ChildOutcomes:
    """Makes the outcomes of jobs that ran in child processes."""

    def __init__(self, runner: AttemptRunner, *, crash_cap: int, memory_limit: int | None) -> None:
        self._runner = runner
        self._crash_cap = crash_cap
        self._memory_limit = memory_limit

    def reported(self, running: RunningAttempt, message: Message) -> Outcome | None:
        """The outcome of a job whose child reported its end."""
        phase, lease = running.phase, running.lease
        if phase is None or message["how"] == "recorded":
            return None
        match message["how"]:
            case "returned" if running.context is not None and running.context.awaits_commit:
                self.after_end(running, message)
                return self._runner.returned(running, None)
            case "returned":
                text = None if message["is_none"] else Json(message["text"])
                return self._runner.timed(running, phase.ended(lease, text))
            case "refused":
                error = JobError(type="PayloadError", code=message["code"], message=message["message"])
                return self._runner.timed(running, Failed(lease, error))
            case "stopped" if (
                running.stop is None
            ):  # a checkpoint returned the cancel before the engine received it
                return self._runner.timed(running, Cancelled(lease, ON_REQUEST))
            case "stopped":
                return self._runner.raised(running, Stopped())
            case _:
                return self._raised(running, from_message(message))

    def after_end(self, running: RunningAttempt, message: Message) -> None:
        """Log the result or error of a handler after a transaction had ended its job: it is not recorded."""
        if message.get("dropped"):
            emit(events.RESULT_DROPPED, lease=running.lease)
        if (after := message.get("after")) is not None:
            error = from_message(after)
            if not (after["how"] == "stopped" or isinstance(error, STOPPED)):
                events.raised_after_end(running.lease, error_of(error) or describe(error))

    def stopped(self, running: RunningAttempt) -> Outcome | None:
        """The outcome of a job that was asked to stop and did not, so that its process was killed."""
        if running.stop is None:
            return self._runner.cut_off(running)
        return self._runner.raised(running, Stopped())

    def died(self, running: RunningAttempt, how: Exit, what: str, last_output: str) -> Outcome | None:
        """The outcome of a job whose process died: a crash, which counts for this job only."""
        lease = running.lease
        crashes = lease.crashes + 1
        details: dict[str, Any] = {"signal": how.signal, "exit_code": how.code, "crashes": crashes}
        if how.max_rss is not None:
            details["max_rss_bytes"] = how.max_rss
        if self._memory_limit is not None:
            details["memory_limit"] = self._memory_limit
        error = _process_error("process_died", f"the process that ran this job {what}", last_output, details)
        if crashes < self._crash_cap:
            return self._runner.timed(running, Retried(lease, error, crash_delay(crashes), crashed=True))
        advice = "check what it does to its process, then retry it: app.handle(id).retry()"
        capped = replace(
            error,
            code="crash_cap",
            message=f"the process that ran this job died {crashes} times, the last time it {what}; {advice}",
        )
        return self._runner.timed(running, Failed(lease, capped, crashed=True))

    def unstarted(self, running: RunningAttempt, why: str, last_output: str) -> Outcome | None:
        """The outcome of a job for which no process could be started; not the job's fault, so the attempt is not counted."""
        error = _process_error(
            "process_start", f"no process could be started for this job: {why}", last_output
        )
        return self._runner.timed(running, Retried(running.lease, error, START_AGAIN, counted=False))

    def unhostable(self, running: RunningAttempt) -> Outcome | None:
        """The outcome of a job whose handler no other process can import."""
        message = (
            f"the handler of phase {running.lease.phase!r} cannot be imported by another process; "
            "define it at the top level of a module, then retry this job: app.handle(id).retry()"
        )
        error = JobError(type="ConfigError", code="config", message=message)
        return self._runner.timed(running, Failed(running.lease, error))

    def _raised(self, running: RunningAttempt, error: BaseException) -> Outcome | None:
        outcome = self._runner.raised(running, error)
        described = error_of(error)
        if (
            described is not None
            and isinstance(outcome, Retried | Failed)
            and outcome.error == describe(error)
        ):
            return replace(outcome, error=described)
        return outcome


def _process_error(
    code: str, message: str, last_output: str, details: Mapping[str, Any] | None = None
) -> JobError:
    kind = "ProcessDied" if code == "process_died" else "ProcessStartError"
    return JobError(
        type=kind, code=code, message=message, traceback=last_output or None, details=details or {}
    )
