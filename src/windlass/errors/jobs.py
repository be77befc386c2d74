"""Errors of jobs and of what creates jobs: their states, results, keys, dependencies, schedules and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.errors.base import WindlassError


class IllegalTransitionError(WindlassError):
    """A verb that the job's state does not allow; the message names both states."""

    code = "illegal_transition"

    def __init__(
        self, job_id: str, verb: str, state: str, to_state: str, allowed_from: Sequence[str]
    ) -> None:
        refused = " already" if state == to_state else f": cannot {verb} it to {to_state}"
        super().__init__(
            f"job {job_id} is {state}{refused}; {verb} is possible from {', '.join(allowed_from)}. Nothing was changed."
        )
        self.job_id, self.verb, self.state, self.to_state = job_id, verb, state, to_state
        self.allowed_from = tuple(allowed_from)


class ActRefusedError(WindlassError):
    """An act that is not possible on a job as it is now; ``why`` names the cause and, where there is one, the cure. Nothing was changed."""

    code = "act_refused"

    def __init__(self, job_id: str, act: str, state: str, why: str) -> None:
        super().__init__(
            f"{act} is not possible on job {job_id}, which is {state}: {why}. Nothing was changed."
        )
        self.job_id, self.act, self.state, self.why = job_id, act, state, why


class EditConflictError(WindlassError):
    """Another actor changed a job since it was read: ``given`` is the version that was read, ``stored`` is the version now. Nothing
    was changed."""

    code = "edit_conflict"

    def __init__(self, job_id: str, given: str, stored: str) -> None:
        super().__init__(
            f"job {job_id} was changed since it was read (version {given}): it has version {stored} now. Nothing was changed; "
            "read the job again, and repeat the change on what it has now."
        )
        self.job_id, self.given, self.stored = job_id, given, stored


class LeaseLost(WindlassError):  # noqa: N818  see windlass.errors
    """The caller no longer holds a job (or all of its jobs); nothing was written."""

    code = "lease_lost"

    def __init__(self, what: str, *, job_id: str | None = None, token: int | None = None) -> None:
        super().__init__(f"{what}: the lease was lost and nothing was changed; stop working on it")
        self.job_id, self.token = job_id, token


class JobNotFoundError(WindlassError):
    """No job with this id."""

    code = "job_not_found"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} does not exist; check the id (a job that ended may have been pruned)")
        self.job_id = job_id


class OperationNotFoundError(WindlassError):
    """No operation with this id."""

    code = "operation_not_found"

    def __init__(self, operation_id: str) -> None:
        super().__init__(
            f"operation {operation_id} does not exist; check the id (`windlass operations ls` or app.operations.list() shows them)"
        )
        self.operation_id = operation_id


class InstanceNotFoundError(WindlassError):
    """No living instance with this id."""

    code = "instance_not_found"

    def __init__(self, instance: str) -> None:
        super().__init__(
            f"there is no living instance {instance}; check the id (an instance has a new id after each start)"
        )
        self.instance = instance


class JobFailed(WindlassError):  # noqa: N818  see windlass.errors
    """The job whose result was asked for failed. ``error`` is the structured error: type, code, message, phase, attempt."""

    code = "job_failed"
    ended = "failed"

    def __init__(self, job_id: str, kind: str, error: Mapping[str, Any] | None) -> None:
        self.job_id, self.kind = job_id, kind
        self.error: Mapping[str, Any] = dict(error or {})
        super().__init__(f"job {job_id} of kind {kind} {self.ended}: {self._why()}")

    def _why(self) -> str:
        return (
            f"{self.error.get('message') or 'no error was stored'} (code {self.error.get('code', 'unknown')})"
        )


class JobCancelled(JobFailed):
    """The job whose result was asked for was cancelled; ``error`` has the reason."""

    code = "job_cancelled"
    ended = "was cancelled"


class ResultTimeout(WindlassError, TimeoutError):  # noqa: N818  see windlass.errors
    """The job whose result was asked for had not ended in time; it goes on."""

    code = "result_timeout"

    def __init__(
        self, job_id: str, timeout: float, state: str, reason: str | None = None, place: str | None = None
    ) -> None:
        why = f" ({reason})" if reason and reason != state else ""
        here = f" in {place}" if place else ""
        super().__init__(
            f"job {job_id} had not ended after {timeout:g} s: it is {state}{why}. The job goes on: `windlass jobs why {job_id}` says what "
            f"it waits for (often no worker serves it{here}). Wait again, or cancel it"
        )
        self.job_id, self.timeout, self.state, self.reason = job_id, timeout, state, reason


class WaitEndedError(WindlassError):
    """The app was closed while a caller waited for the end of a job; the job goes on."""

    code = "wait_ended"

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"the wait for job {job_id} ended because its app was closed here; the job goes on. Wait again through an open app"
        )
        self.job_id = job_id


class ScheduleNotFoundError(WindlassError):
    """No schedule with this name."""

    code = "schedule_not_found"

    def __init__(self, name: str, near: str | None = None) -> None:
        hint = f"did you mean {near}?" if near else "`windlass schedules ls` lists them"
        super().__init__(f"there is no schedule {name!r}; {hint}")
        self.name, self.near = name, near


class ScheduleConflictError(WindlassError):
    """A schedule that belongs to code and cannot be changed from outside."""

    code = "schedule_conflict"

    def __init__(self, name: str, source: str) -> None:
        super().__init__(
            f"schedule {name!r} is defined in code ({source}), and a worker that starts would undo the change; nothing was "
            "changed. Change it there, or use another name; pause, resume and run work for it, too."
        )
        self.name, self.source = name, source


class KeyConflictError(WindlassError):
    """The same unique key was used before with other arguments."""

    code = "key_conflict"

    def __init__(self, key: str, job_id: str | None) -> None:
        """Without a ``job_id`` the caller may not see the job."""
        super().__init__(
            f"key {key!r} belongs to {'a job of another caller' if job_id is None else f'job {job_id}, which has other arguments'}; "
            "nothing was enqueued. Use another key, or the same arguments."
        )
        self.key, self.job_id = key, job_id


class UnknownParentError(WindlassError):
    """A dependency on a job that does not exist."""

    code = "unknown_parent"

    def __init__(self, parents: Sequence[str]) -> None:
        super().__init__(
            f"no job has the id {', '.join(parents)}; nothing was enqueued. Enqueue parents first (or in the same call); "
            "a parent that ended long ago may have been pruned."
        )
        self.parents = tuple(parents)


class DependencyCycleError(WindlassError):
    """Jobs that would wait for each other for ever."""

    code = "dependency_cycle"

    def __init__(self, cycle: Sequence[str]) -> None:
        super().__init__(
            f"these jobs wait for each other: {' → '.join(cycle)}; nothing was enqueued. Remove one `after`."
        )
        self.cycle = tuple(cycle)


class RuleCycleError(WindlassError):
    """Rules that would create a kind of job because of itself, directly or through other rules."""

    code = "rule_cycle"

    def __init__(self, cycle: Sequence[str], rules: Sequence[str]) -> None:
        drawn, named = " → ".join(cycle), ", ".join(dict.fromkeys(rules))
        super().__init__(
            f"these rules would create jobs for ever: {drawn} (by {named}); no rule was changed. Remove one of them; "
            "`windlass rules rm NAME` removes a rule that only the database has."
        )
        self.cycle, self.rules = tuple(cycle), tuple(rules)


class RuleNotFoundError(WindlassError):
    """No rule with this name."""

    code = "rule_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no rule {name!r}; `windlass rules ls` lists all rules")
        self.name = name


class EnqueueInAtomicError(WindlassError):
    """``enqueue`` was called inside Django's ``atomic()``, and ``django.enqueue_in_atomic`` does not allow that, or the block holds SQLite's
    write lock; nothing was stored."""

    code = "enqueue_in_atomic"

    def __init__(self, kind: str, database: str, why: str, cure: str) -> None:
        super().__init__(
            f"a job of kind {kind} was enqueued inside transaction.atomic() of the database {database!r}, and is not stored: {why}; {cure}"
        )
        self.kind, self.database = kind, database
