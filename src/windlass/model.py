"""The nouns: frozen values that every layer passes around.

Times are aware UTC, durations are ``timedelta``, JSON that came from or goes to the database stays text (``Json``)
until somebody needs the value: the hot path never parses what it only carries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntFlag, StrEnum
from typing import Any, NamedTuple

from windlass.principal import Principal
from windlass.sealing import Sealed


class Json(str):
    """Text that is known to be valid, storable JSON (see payload.py)."""

    __slots__ = ()


class State(StrEnum):
    """Where a job is in its life; the drawing is in docs/concepts/lifecycle.md."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (State.COMPLETED, State.FAILED, State.CANCELLED)


class Flag(IntFlag):
    """What a job row carries beside the plain path; kept unindexed so that changing one is a HOT update."""

    SUSPECT = 1  # was in flight when its instance died: run it where only it can die
    STARTED = 2  # known to have been started in this attempt (a claimed job may still be waiting in memory)
    CHECKPOINT = 4  # has a row in `checkpoint`
    DEPENDENTS = 8  # other jobs wait for it
    KEY = 16  # holds a unique key that its end must free
    OUTPUT = 32  # has rows in `output`
    RULES = 64  # its kind is the parent of a rule
    LIMIT = 128  # has rows in `job_limit`: it may have to wait for a place or for its phase's rate, and its end frees the place
    PRINCIPAL = 256  # somebody asked for it: has a row in `principal`, or had one that was erased


def has_flag(flags: int, wanted: int) -> bool:
    """Whether one of the wanted flags is set. By numbers: ``&`` of two flags makes a third, which takes a microsecond."""
    return int.__and__(flags, wanted) != 0


# What an end with one of these leaves behind in tables of its own.
SIDE_ROWS = Flag.CHECKPOINT | Flag.KEY | Flag.OUTPUT
# A job with one of these cannot be finished by the one-statement path: its end touches further tables.
ASIDE = SIDE_ROWS | Flag.DEPENDENTS | Flag.RULES | Flag.LIMIT

HIGHEST_PRIORITY = 9
DEFAULT_PRIORITY = 5
DEFAULT_MAX_ATTEMPTS = 3


class DependencyPolicy(StrEnum):
    """What a parent that failed or was cancelled does to the job that waits for it."""

    CANCEL = "cancel"
    WAIT = "wait"
    RUN = "run"


class KeyScope(StrEnum):
    """How long a key keeps others out: until the job ended, or until it expires whatever the job does."""

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
    """Seconds as a timedelta; anything else as it is, for whoever checks it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return timedelta(seconds=value) if is_number else value
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
    """At most one job per key and period (a timedelta, or seconds), counted from the first: a later submit is answered with that
    job, ended or not."""

    key: str
    period: timedelta | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", as_duration(self.period))


@dataclass(frozen=True, slots=True)
class Rate:
    """How many jobs of a phase may begin: ``per_second`` on average over the fleet, ``burst`` at once after a pause."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimit:
    """What a job brings along for one of its phases: how many jobs with this ``key`` may be let in at once, and the phase's rate.

    It travels with the job, so that an instance without the code lets it in rightly.
    """

    phase: str
    key: str = ""
    limit: int | None = None
    rate: Rate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a phase allows: ``limit`` jobs at once per key, ``rate`` over the fleet, and one priority more for every ``age`` waited.

    ``limit_key`` is a path into the arguments (``args.customer``), or a fixed text; None is one key for the whole phase.
    """

    phase: str
    limit: int | None = None
    limit_key: str | None = None
    rate: Rate | None = None
    age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """One key of a limited phase: how many may be in, how many are, how many wait. ``limit`` is None where it was lifted."""

    phase: str
    key: str
    limit: int | None
    admitted: int
    waiting: int


@dataclass(frozen=True, slots=True)
class GateDrift:
    """A gate whose numbers do not agree: its count, the places given, and the jobs that really have one."""

    phase: str
    key: str
    admitted: int
    given: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A request to enqueue one job. ``args`` is a mapping, or JSON text already checked (``Json``).

    ``id`` is made by the store unless given; give it to be able to repeat the call without a second job.
    ``principal`` is who asks; without one, the job has the principal of those it waits for, and of the jobs ``heir_of`` names: where there
    are several, only what all of them allow. ``sealed`` is a raw token, sealed for this very ``id`` and the principal's tenant.
    """

    kind: str
    args: Mapping[str, Any] | Json = field(default_factory=dict)
    phase: str | None = None
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
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


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to one ``NewJob``: ``created`` is False where a key or a repeated id found the job already there, ``replaced`` is True
    where that job still waited and has these arguments now."""

    id: str
    created: bool
    replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """What went wrong in an attempt. The traceback travels apart, so that nobody shows it by accident."""

    type: str
    code: str
    message: str
    traceback: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is. ``position`` is the checkpoint to resume from; ``done`` of ``total`` is for people."""

    done: int
    total: int | None
    position: Any
    at: datetime | None = None

    @property
    def percent(self) -> float | None:
        """How much of the total is done; None where it is not known."""
        return None if self.total is None else 100.0 if self.total == 0 else 100.0 * self.done / self.total

    @property
    def rate(self) -> float | None:
        """Records per second in the attempt that saved this; None where no chunk loop said so."""
        rate = self.position.get("rate") if isinstance(self.position, dict) else None
        return rate if isinstance(rate, int | float) and rate > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate."""
        return None if self.total is None or self.rate is None else (self.total - self.done) / self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it stands in the database."""

    id: str
    kind: str
    phase: str
    state: State
    priority: int
    generation: int
    attempt: int
    crashes: int
    max_attempts: int
    args_json: Json
    correlation_id: str
    created_at: datetime
    updated_at: datetime
    run_at: datetime | None = None
    started_at: datetime | None = None
    claimed_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    reason: str | None = None
    pending: int = 0
    result_json: Json | None = None
    error: Mapping[str, Any] | None = None
    traceback: str | None = None
    progress: Progress | None = None
    outputs: Sequence[Output] = ()

    @property
    def args(self) -> Any:
        return json.loads(self.args_json)

    @property
    def result(self) -> Any:
        return None if self.result_json is None else json.loads(self.result_json)


@dataclass(frozen=True, slots=True)
class Lease:
    """A claimed job and the token that lets its holder write it; all a handler needs to start."""

    id: str
    token: int
    kind: str
    phase: str
    priority: int
    generation: int
    attempt: int
    max_attempts: int
    crashes: int
    flags: Flag
    args_json: Json
    correlation_id: str
    created_at: datetime
    ready_at: datetime
    claimed_at: datetime

    @property
    def args(self) -> Any:
        return json.loads(self.args_json)

    @property
    def is_suspect(self) -> bool:
        return has_flag(self.flags, Flag.SUSPECT)


@dataclass(frozen=True, slots=True)
class Want:
    """Room for a claim: at most ``limit`` jobs of ``phase``; the first ``starting`` of them start at once."""

    phase: str
    limit: int
    starting: int | None = None
    quiet: timedelta = timedelta(0)


class Run(NamedTuple):
    """Where and how long an attempt ran: the number of the processor in its pool, the time from the claim to the start, and
    the time from the start to the end. A tuple, because one is made for every job."""

    processor: int
    waited_ms: int
    ran_ms: int


Route = tuple[tuple[str, int], ...]
"""The phases of a kind in their order, each with its number of attempts; empty for a kind of one phase."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The last phase is done. With a ``route`` it is looked whether it was the last that the job had not been in."""

    lease: Lease
    result: Any = None
    run: Run | None = None
    route: Route = ()


@dataclass(frozen=True, slots=True)
class Failed:
    lease: Lease
    error: JobError
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class Retried:
    """The attempt failed and the job is to run again after ``delay``.

    ``crashed`` makes it a suspect and counts towards the crash cap. ``counted=False`` gives the attempt back.
    A counted retry of the last attempt is recorded as a failure: the budget is not the caller's to overdraw.
    """

    lease: Lease
    error: JobError
    delay: timedelta
    crashed: bool = False
    counted: bool = True
    run: Run | None = None


ON_REQUEST = "cancelled on request"
"""The reason of a holder that only heard that it should stop; whoever asked may have given another, which then stands."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The holder stopped because it was asked to (``ON_REQUEST``), or because the handler said so."""

    lease: Lease
    reason: str = "cancelled"
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class Advanced:
    """The phase is done: store its output and move the job to the next phase's queue."""

    lease: Lease
    phase: str
    output: Any = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    run: Run | None = None
    route: Route = ()


@dataclass(frozen=True, slots=True)
class Released:
    """The claim is given back unrun (or stopped in the middle); ``counted`` keeps the attempt spent."""

    lease: Lease
    counted: bool = False
    run: Run | None = None


Outcome = Completed | Failed | Retried | Cancelled | Advanced | Released
PlainEnd = Completed | Failed | Cancelled


class Verdict(StrEnum):
    """The database's answer to one outcome; exactly one outcome per attempt is ever RECORDED."""

    RECORDED = "recorded"
    ALREADY_RECORDED = "already_recorded"  # this very attempt's outcome is there: the earlier reply was lost
    REROUTED = (
        "rerouted"  # the pipeline was changed meanwhile: the job is somewhere else than the outcome says
    )
    CANCELLED = "cancelled"  # a cancel came first: the job ended cancelled instead of going on
    LOST = "lost"  # the lease is gone; nothing was changed


@dataclass(frozen=True, slots=True)
class Attempt:
    """One finished execution of one phase that did not end the job."""

    job_id: str
    generation: int
    phase: str
    attempt: int
    outcome: str
    started_at: datetime
    ended_at: datetime
    error: Mapping[str, Any] | None
    traceback: str | None
    instance: str | None = None
    processor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One attempt on a job's timeline: where it ran, and when.

    From ``claimed_at`` to ``started_at`` the job waited in the memory of its instance (the two are equal where nobody said
    how long), from there it ran for ``ran``; ``ended_at`` is when that was recorded, None while it is under way.
    ``outcome`` is completed, failed, cancelled, retried, advanced, recovered (given back to its queue) or processing.
    """

    phase: str
    generation: int
    attempt: int
    instance: str | None
    processor: str | None
    claimed_at: datetime
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    error: Mapping[str, Any] | None
    ran: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Archived:
    """An ended job as the archive gets it: with the attempts that led to its end."""

    job: Job
    attempts: Sequence[Attempt]


@dataclass(frozen=True, slots=True)
class Output:
    """What a phase produced. ``created`` is False where an earlier value stood and this write was prevented."""

    phase: str
    name: str
    value: Any
    created: bool


@dataclass(frozen=True, slots=True)
class Captured:
    """The principal a job was enqueued with. ``is_expired`` is judged by the database's clock, which said ``at``."""

    principal: Principal
    is_expired: bool
    at: datetime
    sealed: Sealed | None = field(default=None, repr=False)


class CancelAnswer(StrEnum):
    """CANCELLED: ended, no effect commits any more. REQUESTED: the holder was told; the end is in the lifecycle table."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What recovery did with one job of a dead instance. ``lease`` is set where the job is HELD for a probe; ``crashed`` says that
    a crash was counted against it."""

    job_id: str
    verdict: str
    lease: Lease | None = None
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """Jobs per state of one phase."""

    waiting: int = 0
    scheduled: int = 0
    queued: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """What one minute of a phase came to. ``wait`` and ``run`` are histograms: how many jobs fell into each bucket; the
    buckets are the engine's."""

    minute: datetime
    phase: str
    completed: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    released: int = 0
    wait: tuple[int, ...] = ()
    run: tuple[int, ...] = ()
    wait_ms_sum: int = 0
    run_ms_sum: int = 0


@dataclass(frozen=True, slots=True)
class PhasePause:
    """Why and how long a phase is not served."""

    phase: str
    since: datetime
    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list shows; fields that are None do not filter."""

    state: State | None = None
    kind: str | None = None
    phase: str | None = None
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A slice of a list, newest first; ``next_cursor`` is None at the end."""

    jobs: Sequence[Job]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended jobs stay; None keeps them for ever."""

    completed: timedelta | None = timedelta(days=7)
    failed: timedelta | None = timedelta(days=90)
    cancelled: timedelta | None = timedelta(days=30)


class Missed(StrEnum):
    """What becomes of due times that nobody fired, because no instance ran: none of them, one job for all, or one job each."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A request to have jobs made at certain times. ``args`` is a mapping, or JSON text already checked (``Json``).

    ``cap`` is how many missed ticks are made up for one by one. ``jitter`` spreads jobs over that time after their tick.
    ``due_as`` names the argument that gets the tick's due time. ``source`` is ``module:qualname`` where code says so. Its jobs are
    asked for by ``principal``, a service; without one, by a service of the schedule's name that has no rights.
    """

    name: str
    kind: str
    expression: str
    tz: str = "UTC"
    args: Mapping[str, Any] | Json = field(default_factory=dict)
    phase: str | None = None
    missed: Missed = Missed.ONCE
    cap: int = 100
    jitter: timedelta = timedelta(0)
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    correlation_id: str | None = None
    due_as: str | None = None
    source: str = "api"
    principal: Principal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule as it stands in the database.

    ``next_at`` is None while it does not fire: it is paused, or the code that defined it is gone. ``skipped`` counts due times
    that got no job of their own. ``generation`` rises with every change of its definition.
    """

    name: str
    kind: str
    phase: str
    expression: str
    tz: str
    args_json: Json
    missed: Missed
    cap: int
    jitter: timedelta
    priority: int
    max_attempts: int
    correlation_id: str | None
    due_as: str | None
    source: str
    principal: Principal
    generation: int
    created_at: datetime
    updated_at: datetime
    next_at: datetime | None
    last_at: datetime | None
    last_job: str | None
    paused_at: datetime | None
    pause_reason: str | None
    gone_at: datetime | None
    skipped: int

    @property
    def args(self) -> Any:
        return json.loads(self.args_json)

    @property
    def state(self) -> str:
        """``gone`` from its code, ``paused``, or ``active``."""
        if self.gone_at is not None:
            return "gone"
        return "active" if self.paused_at is None else "paused"


@dataclass(frozen=True, slots=True)
class Tick:
    """A due time that fired, the job it made, and how many due times that job stands for."""

    schedule: str
    at: datetime
    fired_at: datetime
    job_id: str
    covers: int


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of one schedule that was due: the ticks that made jobs, and how many due times got none of their own.

    ``is_capped`` says that more were missed than its cap; ``refused`` why it was paused instead, because its row makes no sense.
    """

    schedule: str
    phase: str
    ticks: Sequence[Tick]
    skipped: int = 0
    is_capped: bool = False
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Defined:
    """What became of the schedules or rules that code defines: names that are new, changed, and gone from the code."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
