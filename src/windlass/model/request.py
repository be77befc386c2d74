"""A request for one job: its key, the jobs it waits for, and the result of the enqueue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from windlass.model.job import DEFAULT_PRIORITY, Json
from windlass.model.limit import JobLimit
from windlass.model.principal import Principal, Sealed
from windlass.ranges import is_number


class DependencyPolicy(StrEnum):
    """The policy for a job whose parent failed or was cancelled."""

    CANCEL = "cancel"
    WAIT = "wait"
    RUN = "run"


class KeyScope(StrEnum):
    """How long a key keeps others out: until the job ended, or until it expires, even if the job has ended."""

    LIVE = "live"
    IDEMPOTENT = "idempotent"


@dataclass(frozen=True, slots=True)
class Key:
    """A unique key. ``lasts`` is for idempotent keys only."""

    value: str
    scope: KeyScope = KeyScope.LIVE
    lasts: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class After:
    """A dependency: the parent's id and what to do if that parent does not complete."""

    parent: str
    policy: DependencyPolicy = DependencyPolicy.CANCEL


def as_duration(value: Any) -> Any:
    """Seconds as a timedelta; anything else as it is, for the check that follows."""
    try:
        return timedelta(seconds=value) if is_number(value) else value
    except (OverflowError, ValueError):  # more than a timedelta holds, or no number at all
        return value


@dataclass(frozen=True, slots=True)
class Debounce:
    """Wait for quiet: a later submit with the same key gives the job that still waits its arguments and its time.

    ``wait`` is how long from each submit (a timedelta, or seconds); without it, the job's own ``delay`` or ``run_at`` says so.
    """

    key: str
    wait: timedelta | float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "wait", as_duration(self.wait))


@dataclass(frozen=True, slots=True)
class Throttle:
    """At most one job per key and period (a timedelta, or seconds), counted from the first: a later submit gets that
    job, ended or not."""

    key: str
    period: timedelta | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", as_duration(self.period))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A request to enqueue one job. ``args`` is a mapping, or JSON text already checked (``Json``).

    ``id`` is made by the store unless given; give it to be able to repeat the call without a second job.
    ``principal`` is the person or service that asks; without one, the job has the principal of those it waits for, and of the jobs ``heir_of`` names: where there
    are several, only what all of them allow. ``sealed`` is a raw token, sealed for this very ``id`` and the principal's tenant.
    ``headers`` are short texts that its attempts are given; the headers of the job that ``headers_of`` names are put under them.
    ``phase``, ``max_attempts`` and ``limits`` are the kind's where they are left out and an app is asked (``ctx.enqueue``); a store alone
    knows no kinds and takes the kind's name, 3 attempts and no limit.
    """

    kind: str
    args: Mapping[str, Any] | Json = field(default_factory=dict)
    phase: str | None = None
    priority: int = DEFAULT_PRIORITY
    max_attempts: int | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    correlation_id: str | None = None
    key: Key | None = None
    after: Sequence[After] = ()
    id: str | None = None
    principal: Principal | None = None
    sealed: Sealed | None = field(default=None, repr=False)
    heir_of: Sequence[str] = ()
    debounce: Debounce | None = None
    throttle: Throttle | None = None
    limits: Sequence[JobLimit] = ()
    expires: timedelta | float | datetime | None = None
    """Until when the job must have begun, as a time or as a time (or seconds) from its submission; else it is cancelled."""
    headers: Mapping[str, str] | None = None
    headers_of: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Values for features that are not Windlass's own, by the name of the feature."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The result of one ``NewJob``: ``created`` is False if a key or a repeated id found the job already there, ``replaced`` is True
    where that job still waited and has these arguments now."""

    id: str
    created: bool
    replaced: bool = False


class CancelResult(StrEnum):
    """CANCELLED: ended, no effect commits any more. REQUESTED: the holder was notified; the end is in the lifecycle table."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
