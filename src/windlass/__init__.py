"""Durable background jobs for Python on SQLite or PostgreSQL.

Names are loaded when they are first used, so that ``windlass --help`` starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass import observe as observe
    from windlass import retry as retry
    from windlass.app.app import App as App
    from windlass.app.batches import Batch as Batch
    from windlass.app.batches import Chain as Chain
    from windlass.app.build import Background as Background
    from windlass.app.build import build as build
    from windlass.app.kinds import JobKind as JobKind
    from windlass.app.kinds import Pipeline as Pipeline
    from windlass.arguments.injected import injected as injected
    from windlass.control.filters import Filter as Filter
    from windlass.errors import ActRefusedError as ActRefusedError
    from windlass.errors import AuthenticationError as AuthenticationError
    from windlass.errors import ConfigError as ConfigError
    from windlass.errors import DependencyCycleError as DependencyCycleError
    from windlass.errors import EditConflictError as EditConflictError
    from windlass.errors import EnqueueInAtomicError as EnqueueInAtomicError
    from windlass.errors import EnqueueUnknownError as EnqueueUnknownError
    from windlass.errors import FilterError as FilterError
    from windlass.errors import IllegalTransitionError as IllegalTransitionError
    from windlass.errors import InstanceNotFoundError as InstanceNotFoundError
    from windlass.errors import JobCancelled as JobCancelled
    from windlass.errors import JobFailed as JobFailed
    from windlass.errors import JobNotFoundError as JobNotFoundError
    from windlass.errors import KeyConflictError as KeyConflictError
    from windlass.errors import LeaseLost as LeaseLost
    from windlass.errors import LockUnavailableError as LockUnavailableError
    from windlass.errors import NoPrincipalError as NoPrincipalError
    from windlass.errors import NotAllowedError as NotAllowedError
    from windlass.errors import OperationNotFoundError as OperationNotFoundError
    from windlass.errors import PayloadError as PayloadError
    from windlass.errors import PayloadTooLargeError as PayloadTooLargeError
    from windlass.errors import PrincipalDeniedError as PrincipalDeniedError
    from windlass.errors import PrincipalErasedError as PrincipalErasedError
    from windlass.errors import PrincipalExpiredError as PrincipalExpiredError
    from windlass.errors import ResultTimeout as ResultTimeout
    from windlass.errors import RuleCycleError as RuleCycleError
    from windlass.errors import RuleNotFoundError as RuleNotFoundError
    from windlass.errors import SandboxError as SandboxError
    from windlass.errors import ScheduleConflictError as ScheduleConflictError
    from windlass.errors import ScheduleNotFoundError as ScheduleNotFoundError
    from windlass.errors import SchemaError as SchemaError
    from windlass.errors import SealError as SealError
    from windlass.errors import StoreBusyError as StoreBusyError
    from windlass.errors import StoreDamagedError as StoreDamagedError
    from windlass.errors import StoreError as StoreError
    from windlass.errors import StoreFullError as StoreFullError
    from windlass.errors import StoreInterruptedError as StoreInterruptedError
    from windlass.errors import StoreNotAllowedError as StoreNotAllowedError
    from windlass.errors import StoreReadOnlyError as StoreReadOnlyError
    from windlass.errors import StoreUnreachableError as StoreUnreachableError
    from windlass.errors import TokenError as TokenError
    from windlass.errors import UnknownParentError as UnknownParentError
    from windlass.errors import WaitEndedError as WaitEndedError
    from windlass.errors import WindlassError as WindlassError
    from windlass.features import open_store as open_store
    from windlass.handlers.context import Context as Context
    from windlass.handlers.middleware import CurrentAttempt as CurrentAttempt
    from windlass.handlers.middleware import HandlerError as HandlerError
    from windlass.handlers.parents import Parents as Parents
    from windlass.handlers.submit_hooks import Submission as Submission
    from windlass.locks import Held as Held
    from windlass.locks import LockSettings as LockSettings
    from windlass.locks import NotHeld as NotHeld
    from windlass.locks import Reason as Reason
    from windlass.locks import open_locks as open_locks
    from windlass.model import After as After
    from windlass.model import Debounce as Debounce
    from windlass.model import DependencyPolicy as DependencyPolicy
    from windlass.model import Enqueued as Enqueued
    from windlass.model import Job as Job
    from windlass.model import JobFilter as JobFilter
    from windlass.model import Key as Key
    from windlass.model import KeyScope as KeyScope
    from windlass.model import NewJob as NewJob
    from windlass.model import NewSchedule as NewSchedule
    from windlass.model import Parent as Parent
    from windlass.model import Progress as Progress
    from windlass.model import Rate as Rate
    from windlass.model import State as State
    from windlass.model import Throttle as Throttle
    from windlass.model.principal import Principal as Principal
    from windlass.model.rate import per_hour as per_hour
    from windlass.model.rate import per_minute as per_minute
    from windlass.model.rate import per_second as per_second
    from windlass.model.signals import Cancel as Cancel
    from windlass.model.signals import Fail as Fail
    from windlass.model.signals import Retry as Retry
    from windlass.model.signals import Stopped as Stopped
    from windlass.principals.jwt import ClaimPaths as ClaimPaths
    from windlass.principals.jwt import Verifier as Verifier
    from windlass.settings import Settings as Settings
    from windlass.submit.handle import JobHandle as JobHandle
    from windlass.submit.handle import JobHandles as JobHandles
    from windlass.submit.options import JobOptions as JobOptions
    from windlass.submit.request import Request as Request

_HOMES = {
    "ActRefusedError": "windlass.errors",
    "After": "windlass.model",
    "App": "windlass.app.app",
    "AuthenticationError": "windlass.errors",
    "Background": "windlass.app.build",
    "Batch": "windlass.app.batches",
    "Cancel": "windlass.model.signals",
    "Chain": "windlass.app.batches",
    "ClaimPaths": "windlass.principals.jwt",
    "ConfigError": "windlass.errors",
    "Context": "windlass.handlers.context",
    "CurrentAttempt": "windlass.handlers.middleware",
    "Debounce": "windlass.model",
    "DependencyCycleError": "windlass.errors",
    "DependencyPolicy": "windlass.model",
    "EditConflictError": "windlass.errors",
    "EnqueueInAtomicError": "windlass.errors",
    "EnqueueUnknownError": "windlass.errors",
    "Enqueued": "windlass.model",
    "Fail": "windlass.model.signals",
    "Filter": "windlass.control.filters",
    "FilterError": "windlass.errors",
    "HandlerError": "windlass.handlers.middleware",
    "Held": "windlass.locks",
    "IllegalTransitionError": "windlass.errors",
    "InstanceNotFoundError": "windlass.errors",
    "Job": "windlass.model",
    "JobCancelled": "windlass.errors",
    "JobFailed": "windlass.errors",
    "JobFilter": "windlass.model",
    "JobHandle": "windlass.submit.handle",
    "JobHandles": "windlass.submit.handle",
    "JobKind": "windlass.app.kinds",
    "JobNotFoundError": "windlass.errors",
    "JobOptions": "windlass.submit.options",
    "Key": "windlass.model",
    "KeyConflictError": "windlass.errors",
    "KeyScope": "windlass.model",
    "LeaseLost": "windlass.errors",
    "LockSettings": "windlass.locks",
    "LockUnavailableError": "windlass.errors",
    "NewJob": "windlass.model",
    "NewSchedule": "windlass.model",
    "NoPrincipalError": "windlass.errors",
    "NotAllowedError": "windlass.errors",
    "NotHeld": "windlass.locks",
    "OperationNotFoundError": "windlass.errors",
    "Parent": "windlass.model",
    "Parents": "windlass.handlers.parents",
    "PayloadError": "windlass.errors",
    "PayloadTooLargeError": "windlass.errors",
    "Pipeline": "windlass.app.kinds",
    "Principal": "windlass.model.principal",
    "PrincipalDeniedError": "windlass.errors",
    "PrincipalErasedError": "windlass.errors",
    "PrincipalExpiredError": "windlass.errors",
    "Progress": "windlass.model",
    "Rate": "windlass.model",
    "Reason": "windlass.locks",
    "Request": "windlass.submit.request",
    "ResultTimeout": "windlass.errors",
    "Retry": "windlass.model.signals",
    "RuleCycleError": "windlass.errors",
    "RuleNotFoundError": "windlass.errors",
    "SandboxError": "windlass.errors",
    "ScheduleConflictError": "windlass.errors",
    "ScheduleNotFoundError": "windlass.errors",
    "SchemaError": "windlass.errors",
    "SealError": "windlass.errors",
    "Settings": "windlass.settings",
    "State": "windlass.model",
    "Stopped": "windlass.model.signals",
    "StoreBusyError": "windlass.errors",
    "StoreDamagedError": "windlass.errors",
    "StoreError": "windlass.errors",
    "StoreFullError": "windlass.errors",
    "StoreInterruptedError": "windlass.errors",
    "StoreNotAllowedError": "windlass.errors",
    "StoreReadOnlyError": "windlass.errors",
    "StoreUnreachableError": "windlass.errors",
    "Submission": "windlass.handlers.submit_hooks",
    "Throttle": "windlass.model",
    "TokenError": "windlass.errors",
    "UnknownParentError": "windlass.errors",
    "Verifier": "windlass.principals.jwt",
    "WaitEndedError": "windlass.errors",
    "WindlassError": "windlass.errors",
    "build": "windlass.app.build",
    "injected": "windlass.arguments.injected",
    "open_locks": "windlass.locks",
    "open_store": "windlass.features",
    "per_hour": "windlass.model.rate",
    "per_minute": "windlass.model.rate",
    "per_second": "windlass.model.rate",
}

_MODULES = frozenset({"observe", "retry"})

__all__ = sorted({*_HOMES, *_MODULES})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"windlass.{name}")
    if name == "__version__":
        return import_module("importlib.metadata").version("windlass")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*__all__, "__all__"]
