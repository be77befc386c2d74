"""All errors of Windlass.

Every error that Windlass raises on purpose is a ``WindlassError``. Its message says what happened, to which object, and
what to do next. The facts are attributes, too, so that callers need not parse text.

    WindlassError
    ├── ConfigError                 a setting, URL or option that cannot work
    ├── PayloadError                arguments, a result or an output that cannot be stored
    │   └── PayloadTooLargeError    ... because it is over the size or depth limit
    ├── StoreError                  the database refused or could not be reached
    │   ├── StoreUnreachableError   no connection; nothing was written, or it is unknown whether it was
    │   │   ├── StoreBusyError      SQLite's one write lock was not available in time; nothing was written
    │   │   └── EnqueueUnknownError ... whether jobs were stored: repeat the call with the ids of the error
    │   ├── StoreInterruptedError   the server ended this call (a time-out, a lock, a limit); nothing was written
    │   ├── SchemaError             the tables are missing, older than this release, or changed
    │   ├── StoreReadOnlyError      the database or file accepts no writes
    │   ├── StoreNotAllowedError    the database role lacks a privilege
    │   ├── StoreFullError          the disk (or quota) is full; nothing of the failed call was written
    │   └── StoreDamagedError       the file is damaged, is no database, or its disk fails
    ├── IllegalTransitionError      a verb that the job's state does not allow
    ├── LeaseLost                   the caller no longer holds the job that it tried to write
    ├── NotAllowedError             the principal lacks a right; the job ends without another attempt
    │   ├── NoPrincipalError        ... because there is no principal
    │   ├── PrincipalExpiredError   ... because the principal expired before the job ran
    │   ├── PrincipalDeniedError    ... because the application's own check denied the principal
    │   └── PrincipalErasedError    ... because the principal was erased after the job's end
    ├── TokenError                  a token that cannot be trusted; its code says why
    ├── SealError                   a kept token that cannot be read: its key is missing, or it belongs to another job
    ├── LockUnavailableError        Redis is unreachable, and a lock is required (redis_lock_required)
    ├── JobNotFoundError            no job with this id (or the job was pruned)
    ├── ScheduleNotFoundError       no schedule with this name
    ├── ScheduleConflictError       a schedule that belongs to code
    ├── KeyConflictError            the same unique key was used with other arguments
    ├── UnknownParentError          a dependency on a job that does not exist
    ├── DependencyCycleError        jobs that would wait for each other for ever
    ├── RuleCycleError              rules that would create jobs for ever
    └── RuleNotFoundError           no rule with this name

``LeaseLost`` has no suffix: logs and guarantees use this word for the event, and to a handler it is a signal to stop.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class WindlassError(Exception):
    """Base of every error that Windlass raises on purpose; ``code`` is stable and meant for programs."""

    code = "windlass"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigError(WindlassError):
    """A setting, URL or option that cannot work; names the key, the value and the allowed values.

    ``allowed`` completes "it must be ..."; ``because`` replaces the whole ``reason``.
    """

    code = "config"

    def __init__(self, key: str, value: object, allowed: str = "", *, because: str = "") -> None:
        self.reason = because or f"it must be {allowed}"
        super().__init__(f"{key} = {value!r} cannot be used: {self.reason}")
        self.key, self.value, self.allowed = key, value, allowed


class PayloadError(WindlassError):
    """Data that JSON or the database cannot hold, or stored data that cannot be used; ``field`` is the path to the wrong value."""

    code = "payload"

    def __init__(
        self, what: str, field: str, problem: str, cure: str, *, verdict: str = "cannot be stored"
    ) -> None:
        super().__init__(f"{what} {verdict}: {field} {problem}; {cure}")
        self.what, self.field, self.problem, self.cure = what, field, problem, cure


class PayloadTooLargeError(PayloadError):
    """Data over the size or depth limit."""

    code = "payload_too_large"


class StoreError(WindlassError):
    """The database refused an operation; the cause is chained."""

    code = "store"


class StoreUnreachableError(StoreError):
    """The database is unreachable, or the connection broke during a call. ``is_unsent`` means that nothing was sent."""

    code = "store_unreachable"

    def __init__(self, message: str, *, is_unsent: bool = False) -> None:
        super().__init__(message)
        self.is_unsent = is_unsent


class EnqueueUnknownError(StoreUnreachableError):
    """The reply to an enqueue was lost, and the check after it failed, too: all jobs are stored, or none. ``ids`` are their ids, in the
    order of the call. Repeating the call with these ids creates no second job."""

    code = "enqueue_unknown"

    def __init__(self, ids: Sequence[str], why: str) -> None:
        many = f"{len(ids)} jobs were" if len(ids) > 1 else f"job {ids[0]} was"
        super().__init__(
            f"whether {many} stored is unknown: the reply of the database was lost, and it could not be read again ({why}). Repeat the "
            "call with the same ids (`ids` of this error; the option `id`, or NewJob(id=...)): what is stored is not stored twice"
        )
        self.ids, self.why = tuple(ids), why


class StoreBusyError(StoreUnreachableError):
    """SQLite's one write lock was not available in time; nothing was written."""

    code = "store_busy"


class StoreInterruptedError(StoreError):
    """The server ended one call (a time-out, a lock, a deadlock, out of memory); nothing was written, and other calls continue."""

    code = "store_interrupted"


class SchemaError(StoreError):
    """The database's tables do not fit this release."""

    code = "schema"

    def __init__(self, message: str, *, found: int | None, expected: int) -> None:
        super().__init__(message)
        self.found, self.expected = found, expected


class StoreReadOnlyError(StoreError):
    """The database or file accepts no writes."""

    code = "store_read_only"


class StoreNotAllowedError(StoreError):
    """The database role lacks a privilege."""

    code = "store_not_allowed"


class StoreFullError(StoreError):
    """No space left; nothing of the failed call was written."""

    code = "store_full"


class StoreDamagedError(StoreError):
    """The file is damaged, is no database, or its disk fails."""

    code = "store_damaged"


FAULTS_OF_THE_STORE = (
    StoreUnreachableError,
    SchemaError,
    StoreReadOnlyError,
    StoreNotAllowedError,
    StoreFullError,
    StoreDamagedError,
)
"""Errors that no row of the call causes: the same call may work later."""


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


class LeaseLost(WindlassError):  # noqa: N818  see the module's docstring
    """The caller no longer holds a job (or all of its jobs); nothing was written."""

    code = "lease_lost"

    def __init__(self, what: str, *, job_id: str | None = None, token: int | None = None) -> None:
        super().__init__(f"{what}: the lease was lost and nothing was changed; stop working on it")
        self.job_id, self.token = job_id, token


class NotAllowedError(WindlassError):
    """The principal lacks a right. Raised in a handler, it ends the job as failed, without another attempt."""

    code = "not_allowed"

    def __init__(self, message: str, *, subject: str | None = None, missing: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.subject, self.missing = subject, tuple(missing)


class NoPrincipalError(NotAllowedError):
    """The job has no principal, and needs one."""

    code = "no_principal"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} has no principal, and needs one; enqueue it with principal=..., or inside `with app.as_principal(...)`"
        )


class PrincipalExpiredError(NotAllowedError):
    """The principal expired before the job ran, and its kind has ``principal_expiry="fail"`` or ``"recheck"``."""

    code = "principal_expired"

    def __init__(self, job_id: str, expired_at: object) -> None:
        super().__init__(
            f"the principal of job {job_id} expired at {expired_at}; it was not run. Enqueue it anew."
        )
        self.job_id, self.expired_at = job_id, expired_at


class PrincipalDeniedError(NotAllowedError):
    """The application's own check (``app.recheck_principal``) denied the job's principal."""

    code = "principal_denied"

    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(f"the principal of job {job_id} was checked again and denied: {why}")
        self.job_id, self.why = job_id, why


class PrincipalErasedError(NotAllowedError):
    """The principal was erased after the job's end, so its rights are unknown."""

    code = "principal_erased"

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"the principal of job {job_id} was erased after its end, and without it the job may do nothing; "
            "enqueue it anew with principal=..."
        )
        self.job_id = job_id


class TokenError(WindlassError):
    """A token that cannot be trusted. ``code`` says why (``token_expired``, ``token_signature``, …); no message contains the token."""

    code = "token"

    def __init__(self, code: str, problem: str) -> None:
        super().__init__(f"the token is refused: {problem}")
        self.code, self.problem = code, problem


class SealError(WindlassError):
    """A kept token that cannot be read: the key that sealed it is missing, or it was sealed for another job."""

    code = "seal"

    def __init__(self, code: str, problem: str) -> None:
        super().__init__(f"the kept token cannot be read: {problem}")
        self.code, self.problem = code, problem


class LockUnavailableError(WindlassError):
    """Redis is unreachable, and with ``redis_lock_required`` no work starts without a lock."""

    code = "lock_unavailable"

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(
            f"{what} cannot be locked: {problem}; nothing was started. Check Redis and try again, or set "
            "redis_lock_required to false: then locks hold inside each process while Redis is unreachable."
        )
        self.what, self.problem = what, problem


class JobNotFoundError(WindlassError):
    """No job with this id."""

    code = "job_not_found"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} does not exist; check the id (a job that ended may have been pruned)")
        self.job_id = job_id


class ScheduleNotFoundError(WindlassError):
    """No schedule with this name."""

    code = "schedule_not_found"

    def __init__(self, name: str, near: str | None = None) -> None:
        hint = f"did you mean {near}?" if near else "`windlass cron ls` lists them"
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

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__(
            f"key {key!r} belongs to job {job_id}, which has other arguments; "
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
            "store.rules.remove(name) removes a rule that only the database has."
        )
        self.cycle, self.rules = tuple(cycle), tuple(rules)


class RuleNotFoundError(WindlassError):
    """No rule with this name."""

    code = "rule_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no rule {name!r}; store.rules.list() returns all rules")
        self.name = name


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ``ConfigError`` for a name that is not known; it lists the known names, and suggests one."""
    names = sorted(known)
    for name in given:
        if name not in names:
            raise ConfigError(what, name, f"one of {', '.join(names)}{did_you_mean(name, names)}")


def did_you_mean(name: object, known: Iterable[str], alike: float = 0.6) -> str:
    """A suggestion, such as ``; did you mean lease?``; empty if no known name is ``alike`` (from 0 to 1, the same)."""
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=alike)
    return f"; did you mean {near[0]}?" if near else ""
