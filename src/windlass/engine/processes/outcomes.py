"""What came of a job in a child process, as an outcome: told by the child, or read from how the child died.

Retry policies and time limits are asked here, in the instance, so that a delay comes from one place whatever hosted the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from windlass.engine.attempt import AttemptRunner
from windlass.engine.job_errors import describe
from windlass.engine.processes.child_process import Exit
from windlass.engine.processes.exceptions import rebuild, told_by
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
    """Makes outcomes."""

    def __init__(self, runner: AttemptRunner, *, crash_cap: int, memory_limit: int | None) -> None:
        self._runner = runner
        self._crash_cap = crash_cap
        self._memory_limit = memory_limit

    def told(self, running: RunningAttempt, message: Message) -> Outcome | None:
        """The outcome of a job whose child told its end."""
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
            case "stopped" if running.stop is None:  # a checkpoint knew it before the engine
                return self._runner.timed(running, Cancelled(lease, ON_REQUEST))
            case "stopped":
                return self._runner.raised(running, Stopped())
            case _:
                return self._raised(running, rebuild(message))

    def after_end(self, running: RunningAttempt, message: Message) -> None:
        """Say what a handler did after a transaction had ended its job: a result, or an error, that nobody else will hear of."""
        if message.get("dropped"):
            emit(events.RESULT_DROPPED, lease=running.lease)
        if (told := message.get("after")) is not None:
            error = rebuild(told)
            if not (told["how"] == "stopped" or isinstance(error, STOPPED)):
                events.raised_after_end(running.lease, told_by(error) or describe(error))

    def stopped(self, running: RunningAttempt) -> Outcome | None:
        """The outcome of a job that was told to stop and did not, so that its process was killed."""
        if running.stop is None:
            return self._runner.cut_off(running)
        return self._runner.raised(running, Stopped())

    def died(self, running: RunningAttempt, how: Exit, what: str, last_words: str) -> Outcome | None:
        """The outcome of a job whose process died under it: a crash, counted against it and no other."""
        lease = running.lease
        crashes = lease.crashes + 1
        details: dict[str, Any] = {"signal": how.signal, "exit_code": how.code, "crashes": crashes}
        if how.max_rss is not None:
            details["max_rss_bytes"] = how.max_rss
        if self._memory_limit is not None:
            details["memory_limit"] = self._memory_limit
        error = _process_error("process_died", f"the process that ran this job {what}", last_words, details)
        if crashes < self._crash_cap:
            return self._runner.timed(running, Retried(lease, error, crash_delay(crashes), crashed=True))
        advice = "look at what it does to its process, then retry it: app.store.jobs.retry(id)"
        capped = replace(
            error,
            code="crash_cap",
            message=f"the process that ran this job died {crashes} times, the last time it {what}; {advice}",
        )
        return self._runner.timed(running, Failed(lease, capped, crashed=True))

    def unstarted(self, running: RunningAttempt, why: str, last_words: str) -> Outcome | None:
        """The outcome of a job for which there was no process to run it; not its fault, so nothing is counted."""
        error = _process_error(
            "process_start", f"no process could be started for this job: {why}", last_words
        )
        return self._runner.timed(running, Retried(running.lease, error, START_AGAIN, counted=False))

    def unhostable(self, running: RunningAttempt) -> Outcome | None:
        """The outcome of a job whose handler no other process can find."""
        message = (
            f"the handler of phase {running.lease.phase!r} cannot be found by another process; "
            "define it at the top of a module, then retry this job: app.store.jobs.retry(id)"
        )
        error = JobError(type="ConfigError", code="config", message=message)
        return self._runner.timed(running, Failed(running.lease, error))

    def _raised(self, running: RunningAttempt, error: BaseException) -> Outcome | None:
        outcome = self._runner.raised(running, error)
        told = told_by(error)
        if told is not None and isinstance(outcome, Retried | Failed) and outcome.error == describe(error):
            return replace(outcome, error=told)
        return outcome


def _process_error(
    code: str, message: str, last_words: str, details: Mapping[str, Any] | None = None
) -> JobError:
    kind = "ProcessDied" if code == "process_died" else "ProcessStartError"
    return JobError(
        type=kind, code=code, message=message, traceback=last_words or None, details=details or {}
    )
