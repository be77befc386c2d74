"""The state of the whole: phases, pipelines, instances, failures, history, settings and health."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Self

from pydantic import Field

from windlass.api.records.record import Moment, Record
from windlass.control.instances import InstanceView
from windlass.control.overview import Overview


class CountsRecord(Record):
    """Jobs per state."""

    waiting: int
    scheduled: int
    queued: int
    processing: int
    completed: int
    failed: int
    cancelled: int


class PauseRecord(Record):
    """Why and how long a phase is not served."""

    since: Moment
    until: Moment | None = None
    reason: str


class PhaseRecord(Record):
    """A phase: its jobs, its processors on living instances, and why its jobs wait."""

    name: str
    counts: CountsRecord
    oldest: float = Field(description="Seconds that the oldest queued job has been ready.")
    busy: int
    processors: int
    instances: int
    waits: str = Field(description="Why its queued jobs are not running; empty if nothing holds them.")
    pause: PauseRecord | None = None


class PhasesRecord(Record):
    """All phases by name."""

    phases: list[PhaseRecord]


class PoolPhaseRecord(Record):
    """The processors of one phase on one instance."""

    name: str
    size: int
    busy: int
    error: int
    queue: int = Field(description="Claimed jobs that wait in the memory of the instance.")
    held_by: str | None = Field(default=None, description="The phase whose full queue holds this one back.")


class DegradedPartRecord(Record):
    """A part of an instance whose health is not ok."""

    part: str = Field(examples=["redis lock"])
    state: str = Field(description="degraded or down.", examples=["degraded"])
    seen: str = Field(
        description="What the instance has seen.", examples=["no lock can be acquired: connection refused"]
    )
    advice: str = Field(
        default="", description="What to do about it.", examples=["Bring the lock server back."]
    )


class InstanceRecord(Record):
    """A running Windlass process."""

    id: str
    host: str
    pid: int | None = None
    state: str = Field(description="starting, running, stopping, stopped, lost or dead.")
    is_alive: bool
    started_at: Moment
    heartbeat_at: Moment
    lease_seconds: float
    phases: list[PoolPhaseRecord]
    running: list[dict[str, Any]] = Field(description="Its busy processors, as of `read_at`.")
    counters: dict[str, int] = Field(
        default={},
        description="Rarer events since its start, by the names of their metrics: retries, stuck_released, lock_skips, redis_errors, duplicates_prevented and others.",
    )
    version: str | None = Field(default=None, description="The setting worker.version of the instance.")
    degraded: list[DegradedPartRecord] = Field(
        default=[], description="The parts of its health that are not ok, as of `read_at`."
    )
    read_at: Moment | None = None

    @classmethod
    def of(cls, found: InstanceView) -> Self:
        lease: timedelta = found.lease
        names = cls.model_fields.keys() - {"lease_seconds", "phases", "running", "counters", "degraded"}
        return cls(
            **{name: getattr(found, name) for name in names},
            lease_seconds=lease.total_seconds(),
            phases=PoolPhaseRecord.each(found.phases),
            running=[dict(one) for one in found.running],
            counters=dict(found.counters),
            degraded=DegradedPartRecord.each(found.degraded),
        )


class InstancesRecord(Record):
    """All instances that the database knows, newest first."""

    instances: list[InstanceRecord]


class OverviewRecord(Record):
    """All phases, the instances, and what is wrong."""

    phases: list[PhaseRecord]
    instances: list[InstanceRecord]
    problems: list[str] = Field(description="A sentence each; empty if all is well.")

    @classmethod
    def of(cls, found: Overview) -> Self:
        return cls(
            phases=PhaseRecord.each(found.phases),
            instances=InstanceRecord.each(found.instances),
            problems=list(found.problems),
        )


class PoolMemberRecord(Record):
    """The processors that one instance has in a pool."""

    instance: str
    host: str
    size: int
    busy: int
    error: int
    queue: int


class PoolRecord(Record):
    """The processors of one phase on all living instances."""

    phase: str
    size: int
    busy: int
    error: int
    queue: int
    members: list[PoolMemberRecord]


class PoolsRecord(Record):
    """All pools by phase."""

    pools: list[PoolRecord]


class PhaseDefinitionRecord(Record):
    """A phase as code defines it."""

    name: str
    label: str
    processors: int
    attempts: int
    timeout: float | None = None
    total_timeout: float | None = None
    max_waiting: int | None = None
    executor: str = Field(description="loop, thread or process.")


class PipelineRecord(Record):
    """A kind: its phases in order, and the names of its arguments."""

    name: str
    phases: list[PhaseDefinitionRecord]
    parameters: list[str]
    required: list[str] = Field(description="The arguments without a default.")


class PipelinesRecord(Record):
    """All kinds of the application by name."""

    pipelines: list[PipelineRecord]


class FailureGroupRecord(Record):
    """Failed jobs with one cause."""

    kind: str
    phase: str
    type: str
    code: str
    place: str | None = None
    message: str
    hour: int
    day: int
    week: int
    total: int
    first_at: Moment
    last_at: Moment
    sample: str = Field(description="The id of one of the jobs.")


class FailuresRecord(Record):
    """Failed jobs by their cause, the latest group first."""

    groups: list[FailureGroupRecord]
    searched: int
    more: bool = Field(description="Whether there are failed jobs that were not searched.")


class HistoryPointRecord(Record):
    """What ended in one minute, hour or day of a phase; times are milliseconds."""

    at: Moment
    seconds: int
    phase: str
    completed: int
    failed: int
    retried: int
    cancelled: int
    released: int
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None


class HistoryRecord(Record):
    """Statistics over time, in order."""

    points: list[HistoryPointRecord]


class FindingRecord(Record):
    """Something that the doctor found."""

    severity: str
    code: str
    sentence: str
    cure: str


class DiagnosisRecord(Record):
    """Everything that the doctor found, the worst first."""

    is_good: bool
    is_reachable: bool
    findings: list[FindingRecord]


class TableRecord(Record):
    """The size of a table with its indexes; null is not known."""

    table: str
    rows: int | None = Field(default=None, description="An estimate on PostgreSQL.")
    bytes: int | None = None


class TablesRecord(Record):
    """All tables, the largest first."""

    tables: list[TableRecord]


class SettingRecord(Record):
    """A setting with its origin; secrets are hidden."""

    key: str
    value: str
    origin: str


class SettingsRecord(Record):
    """All settings of the application."""

    settings: list[SettingRecord]


class StatusRecord(Record):
    """Whether the server works."""

    status: str = Field(examples=["ok"])


class HealthRecord(Record):
    """The health of the server and of what it sees."""

    status: str = Field(description="ok, degraded or down.")
    store: str = Field(
        description="The database: ok, or the kind of the problem that a read of it met, such as store-unreachable."
    )
    problems: list[str]
