"""All errors of Windlass.

Every error that Windlass raises on purpose is a ``WindlassError``. Its message says what happened, to which object, and
what to do next. The facts are attributes, too, so that callers need not parse text.

    WindlassError
    ├── ConfigError                 a setting, URL or option that cannot work
    │   └── FilterError             a filter of jobs that cannot be read; says where and what to write instead
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
    ├── ActRefusedError             an act that is not possible on the job as it is now
    ├── EditConflictError           a job that another actor changed since it was read
    ├── LeaseLost                   the caller no longer holds the job that it tried to write
    ├── NotAllowedError             the principal lacks a right; the job ends without another attempt
    │   ├── NoPrincipalError        ... because there is no principal
    │   ├── PrincipalExpiredError   ... because the principal expired before the job ran
    │   ├── PrincipalDeniedError    ... because the application's own check denied the principal
    │   └── PrincipalErasedError    ... because the principal was erased after the job's end
    ├── TokenError                  a token that cannot be trusted; its code says why
    ├── AuthenticationError         a web request that is refused: its token is missing or wrong, or a role is
    ├── SealError                   a kept token that cannot be read: its key is missing, or it belongs to another job
    ├── LockUnavailableError        Redis is unreachable, and a lock is required (redis_lock_required)
    ├── JobNotFoundError            no job with this id (or the job was pruned)
    ├── OperationNotFoundError      no operation with this id
    ├── InstanceNotFoundError       no living instance with this id
    ├── JobFailed                   the job whose result was asked for failed
    │   └── JobCancelled            ... or was cancelled
    ├── ResultTimeout               the job whose result was asked for had not ended in time
    ├── WaitEndedError              the app was closed while a caller waited for a job
    ├── ScheduleNotFoundError       no schedule with this name
    ├── ScheduleConflictError       a schedule that belongs to code
    ├── KeyConflictError            the same unique key was used with other arguments
    ├── UnknownParentError          a dependency on a job that does not exist
    ├── EnqueueInAtomicError        enqueue inside a transaction of Django that has not committed
    ├── DependencyCycleError        jobs that would wait for each other for ever
    ├── RuleCycleError              rules that would create jobs for ever
    ├── RuleNotFoundError           no rule with this name
    └── SandboxError                a test: another database was opened, or a job was waited for that does not run

``LeaseLost`` has no suffix: logs and guarantees use this word for the event, and to a handler it is a signal to stop. ``JobFailed``,
``JobCancelled`` and ``ResultTimeout`` have none either: they say what became of a job.
"""

from __future__ import annotations

from windlass.errors.base import (
    ConfigError,
    PayloadError,
    PayloadTooLargeError,
    SandboxError,
    WindlassError,
    check_names,
    did_you_mean,
)
from windlass.errors.filters import FilterError
from windlass.errors.jobs import (
    ActRefusedError,
    DependencyCycleError,
    EditConflictError,
    EnqueueInAtomicError,
    IllegalTransitionError,
    InstanceNotFoundError,
    JobCancelled,
    JobFailed,
    JobNotFoundError,
    KeyConflictError,
    LeaseLost,
    OperationNotFoundError,
    ResultTimeout,
    RuleCycleError,
    RuleNotFoundError,
    ScheduleConflictError,
    ScheduleNotFoundError,
    UnknownParentError,
    WaitEndedError,
)
from windlass.errors.rights import (
    AuthenticationError,
    LockUnavailableError,
    NoPrincipalError,
    NotAllowedError,
    PrincipalDeniedError,
    PrincipalErasedError,
    PrincipalExpiredError,
    SealError,
    TokenError,
)
from windlass.errors.store import (
    FAULTS_OF_THE_STORE,
    EnqueueUnknownError,
    SchemaError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreInterruptedError,
    StoreNotAllowedError,
    StoreReadOnlyError,
    StoreUnreachableError,
)

__all__ = [
    "FAULTS_OF_THE_STORE",
    "ActRefusedError",
    "AuthenticationError",
    "ConfigError",
    "DependencyCycleError",
    "EditConflictError",
    "EnqueueInAtomicError",
    "EnqueueUnknownError",
    "FilterError",
    "IllegalTransitionError",
    "InstanceNotFoundError",
    "JobCancelled",
    "JobFailed",
    "JobNotFoundError",
    "KeyConflictError",
    "LeaseLost",
    "LockUnavailableError",
    "NoPrincipalError",
    "NotAllowedError",
    "OperationNotFoundError",
    "PayloadError",
    "PayloadTooLargeError",
    "PrincipalDeniedError",
    "PrincipalErasedError",
    "PrincipalExpiredError",
    "ResultTimeout",
    "RuleCycleError",
    "RuleNotFoundError",
    "SandboxError",
    "ScheduleConflictError",
    "ScheduleNotFoundError",
    "SchemaError",
    "SealError",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "StoreInterruptedError",
    "StoreNotAllowedError",
    "StoreReadOnlyError",
    "StoreUnreachableError",
    "TokenError",
    "UnknownParentError",
    "WaitEndedError",
    "WindlassError",
    "check_names",
    "did_you_mean",
]
