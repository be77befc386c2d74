"""What reading the whole returns: phases, instances, pipelines and samples. Nothing here needs a database, so that a client without one has them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from windlass.model import Counts, PhasePause


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseView:
    """The processors of one phase on one instance. ``queue`` are claimed jobs that wait in its memory; ``held_by`` is the phase whose full queue
    holds this one back."""

    name: str
    size: int = 0
    busy: int = 0
    error: int = 0
    queue: int = 0
    held_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedPart:
    """A part of an instance whose health is not ok: its ``state`` (degraded or down), what the instance has ``seen``, and what to do about it."""

    part: str
    state: str
    seen: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """One instance. ``state`` is starting, running, stopping, stopped, lost (its lease ran out) or dead. ``phases`` and ``running`` (its busy
    processors: ``name``, ``state``, ``job``, ``since``) are as of ``read_at``, None if the instance has published nothing."""

    id: str
    host: str
    pid: int | None
    state: str
    started_at: datetime
    heartbeat_at: datetime
    lease: timedelta
    phases: Sequence[PhaseView]
    running: Sequence[Mapping[str, Any]]
    read_at: datetime | None
    counters: Mapping[str, int] = field(default_factory=dict)
    """Rarer events since its start, by the names of their metrics, as of ``read_at``."""
    version: str | None = None
    """The setting ``worker.version`` of the instance."""
    degraded: Sequence[DegradedPart] = ()
    """The parts of the instance that are not ok, as of ``read_at``."""

    @property
    def is_alive(self) -> bool:
        return self.state not in ("lost", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMember:
    """The processors of one phase on one instance."""

    instance: str
    host: str
    size: int
    busy: int
    error: int
    queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The processors of one phase on all living instances."""

    phase: str
    members: Sequence[PoolMember]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.members)

    @property
    def busy(self) -> int:
        return sum(one.busy for one in self.members)

    @property
    def error(self) -> int:
        return sum(one.error for one in self.members)

    @property
    def queue(self) -> int:
        return sum(one.queue for one in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStatus:
    """One phase: its jobs by state, the seconds that its oldest queued job has been ready, its processors on living instances, and ``waits``, why
    its queued jobs are not running (empty if none is queued, or nothing holds them)."""

    name: str
    counts: Counts
    oldest: float
    busy: int
    processors: int
    instances: int
    waits: str
    pause: PhasePause | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """All phases, the instances, and ``problems``, a sentence each; without problems all is well."""

    phases: Sequence[PhaseStatus]
    instances: Sequence[InstanceView]
    problems: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSample:
    """A phase at one moment. ``ended`` says how many jobs ended since the sample before, by state, and ``per_second`` how many that were a second;
    both are of counts, so that jobs that are pruned in the same second are missing."""

    counts: Counts
    oldest: float = 0.0
    """Seconds that the oldest queued job has been ready."""
    is_paused: bool = False
    ended: Mapping[str, int]
    per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything at one moment, by the clock of the database. ``number`` grows by one with each sample of a stream."""

    number: int
    at: datetime
    phases: Mapping[str, PhaseSample]
    instances: Sequence[InstanceView]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDefinition:
    """A phase as code defines it. ``executor`` is where its handlers run."""

    name: str
    label: str
    processors: int
    attempts: int
    timeout: float | None
    total_timeout: float | None
    max_waiting: int | None
    executor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineView:
    """A kind: its phases in order, and the names of its arguments; those that are ``required`` have no default."""

    name: str
    phases: Sequence[PhaseDefinition]
    parameters: Sequence[str]
    required: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployMark:
    """A mark. ``is_code``: a worker started with a version (``worker.version``) that no other one had; else a person or a script marked it."""

    at: datetime
    text: str
    actor: str
    is_code: bool


class HistoryPoint(NamedTuple):
    """What ended in one minute, hour or day of a phase, and how long jobs waited and ran (milliseconds; None where no job ended).

    Percentiles come from histograms: each is the upper bound of the bucket that it falls into.
    """

    at: datetime
    seconds: int
    phase: str
    completed: int
    failed: int
    retried: int
    cancelled: int
    released: int
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None
