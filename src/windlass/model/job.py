"""A job as the database has it, with its attempts, outputs and progress."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntFlag, StrEnum
from typing import Any

from windlass.model.principal import Principal, Sealed


class Json(str):
    """Text that is known to be valid, storable JSON (see arguments/encoding.py)."""

    __slots__ = ()


class State(StrEnum):
    """The state of a job; the drawing is in docs/concepts/lifecycle.md."""

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
    """Flags of a job row: what it has beside the plain path. Not indexed, so that changing one is a HOT update."""

    SUSPECT = 1  # was running at two deaths of its instance, or took its own process down: run it where only it can die
    STARTED = (
        2  # its handler may have been entered in this attempt (a claimed job may still be waiting in memory)
    )
    CHECKPOINT = 4  # has a row in `checkpoint`
    DEPENDENTS = 8  # other jobs wait for it
    KEY = 16  # holds a unique key that its end must free
    OUTPUT = 32  # has rows in `output`
    RULES = 64  # its kind is the parent of a rule
    LIMIT = 128  # has rows in `job_limit`: it may have to wait for a place or for its phase's rate, and its end frees the place
    PRINCIPAL = 256  # has a row in `principal`, or had one that was erased
    RECOVERED = 512  # was held by an instance that died: from here on it is noted exactly when it is run
    EXTRA = 1024  # has rows of a feature that is not Windlass's own
    EXPIRES = 2048  # has a row in `expiry`, and has not begun: it is cancelled if it has not begun by then
    HEADERS = 4096  # has a row in `job_headers`


def has_flag(flags: int, wanted: int) -> bool:
    """Whether one of the wanted flags is set. By numbers: ``&`` of two flags makes a third, which takes a microsecond."""
    return int.__and__(flags, wanted) != 0


# Flags of jobs that have rows in further tables, which their end removes.
SIDE_ROWS = Flag.CHECKPOINT | Flag.KEY | Flag.OUTPUT
# A job with one of these cannot be finished by the one-statement path: its end touches further tables.
ASIDE = SIDE_ROWS | Flag.DEPENDENTS | Flag.RULES | Flag.LIMIT | Flag.EXTRA | Flag.EXPIRES

# A job with one of these takes the long way at each end of a phase; outputs alone do not lead there.
BESIDE_OUTPUTS = ASIDE & ~Flag.OUTPUT

# Flags that a job keeps when it is retried by hand; the others are set anew.
SURVIVES = Flag.KEY | Flag.LIMIT | Flag.PRINCIPAL | Flag.EXTRA | Flag.HEADERS
# Flags that come from the request, so that a later request that replaces it sets them anew.
BROUGHT = Flag.LIMIT | Flag.PRINCIPAL | Flag.EXTRA | Flag.EXPIRES | Flag.HEADERS
# Flags that only a job has that has not begun; its start removes them, and features decide whether it may start.
UNBEGUN = Flag.EXPIRES
# Flags of jobs whose start is stored before their handler is entered, so that a claim alone does not count as a start.
EXACT = Flag.SUSPECT | Flag.RECOVERED | UNBEGUN

MASKS = {name: int(flag) for name, flag in Flag.__members__.items()} | {
    "SURVIVES": int(SURVIVES),
    "BROUGHT": int(BROUGHT),
    "UNBEGUN": int(UNBEGUN),
    "EXACT": int(EXACT),
}
"""The flags that SQL uses by name: ``flags & {LIMIT}``."""

HIGHEST_PRIORITY = 9
DEFAULT_PRIORITY = 5
DEFAULT_MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """The error of an attempt. The traceback is kept apart, so that it is not shown by accident; ``exception`` is for the log of
    the process it was raised in, and is not stored."""

    type: str
    code: str
    message: str
    traceback: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    exception: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, as of ``at``. ``done`` of ``total`` is for people, ``position`` is where it goes on: what the handler saved, of a
    chunk loop without a total the key that it reached."""

    done: int
    total: int | None
    position: Any
    at: datetime | None = None
    rate: float | None = None
    """Records per second in the attempt that saved this; None if it is not known yet."""
    chunk: int | None = None
    """The number of the next chunk; None if no chunk loop saved this."""
    is_last: bool = False

    @property
    def percent(self) -> float | None:
        """How much of the total is done; None if it is not known."""
        return None if self.total is None else 100.0 if self.total == 0 else 100.0 * self.done / self.total

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate."""
        return None if self.total is None or self.rate is None else (self.total - self.done) / self.rate

    @classmethod
    def stored(cls, done: int, total: int | None, position: Any, at: datetime | None = None) -> Progress:
        """Progress as the database has it, with Windlass's own part removed from the position."""
        if not _is_wrapped(position):
            return cls(done, total, position, at)
        own = position[_OWN]
        return cls(
            done, total, position["position"], at, own.get("rate"), own.get("chunk"), own.get("last", False)
        )


_OWN = "windlass"


def wrap_position(position: Any, **own: Any) -> Any:
    """A position as it is stored: with the values that Windlass saves beside it (rate, chunk, last), marked so that no position of a handler
    is mistaken for them."""
    kept = {name: value for name, value in own.items() if value is not None}
    return {_OWN: kept, "position": position} if kept or _is_wrapped(position) else position


def is_chunk_place(position: Any) -> bool:
    """Whether a chunk loop saved this position, as it is stored."""
    return _is_wrapped(position) and "chunk" in position[_OWN]


def _is_wrapped(position: Any) -> bool:
    return (
        isinstance(position, dict)
        and position.keys() == {_OWN, "position"}
        and isinstance(position[_OWN], dict)
    )


def version_of(args_json: str, generation: int, priority: int) -> str:
    """The version of what can be edited of a job: it changes with the arguments as they are stored, the generation and the priority."""
    text = f"{generation} {priority} {args_json}"
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the database has it."""

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
    parents: int | None = None
    """How many jobs it waits for or has waited for, while it waits; ``jobs.get`` alone knows it. ``pending`` are those that are left."""
    version: str = ""
    """What ``app.jobs.edit`` is given to change the job as it was read here: another version then is a conflict. Made of the arguments as they
    are stored, even where ``args_json`` shows them with secrets hidden."""
    title: str = ""
    """What people read instead of the id, made of the arguments that the reader may see; of jobs that the control service returns."""

    @property
    def why(self) -> str | None:
        """Why the job is not running, for people: ``reason``, and of a job that waits for others how many of how many are left."""
        if self.reason not in ("waiting", "unlinked"):
            return self.reason
        return f"waits for {self.pending}{'' if self.parents is None else f' of {self.parents}'} jobs"

    @property
    def args(self) -> Any:
        return json.loads(self.args_json)

    @property
    def result(self) -> Any:
        return None if self.result_json is None else json.loads(self.result_json)


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

    From ``claimed_at`` to ``started_at`` the job waited in the memory of its instance (the two are equal where that time is not
    known), from there it ran for ``ran``; ``ended_at`` is when that was recorded, None while it is running.
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
    """An output of a phase. ``created`` is False if an earlier value exists and this write was prevented."""

    phase: str
    name: str
    value: Any
    created: bool


@dataclass(frozen=True, slots=True)
class Captured:
    """The principal a job was enqueued with. ``is_expired`` is judged by the database's clock, which was at ``at``."""

    principal: Principal
    is_expired: bool
    at: datetime
    sealed: Sealed | None = field(default=None, repr=False)
