"""Schedules, their due times, rules and open fan-ins."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field

from windlass.api.records.record import Id, Moment, Record
from windlass.model import Schedule
from windlass.model.rule import FanIn, StoredRule


class ScheduleRecord(Record):
    """A schedule: when jobs of a kind are made by the clock."""

    name: str
    kind: str
    phase: str
    expression: str = Field(examples=["0 6 * * *"])
    tz: str
    state: str = Field(description="active, paused, or gone from its code.")
    arguments: Any = None
    missed: str
    cap: int = Field(description="How many missed due times are made up for one by one.")
    jitter_seconds: float
    every_seconds: float | None = None
    expires_seconds: float | None = None
    priority: int
    max_attempts: int
    correlation_id: str | None = None
    due_as: str | None = Field(default=None, description="The argument that gets the due time.")
    source: str
    principal: str = Field(description="Who asks for its jobs.")
    generation: int
    next_at: Moment | None = None
    last_at: Moment | None = None
    last_job: str | None = None
    paused_at: Moment | None = None
    pause_reason: str | None = None
    gone_at: Moment | None = None
    skipped: int
    created_at: Moment
    updated_at: Moment

    @classmethod
    def of(cls, found: Schedule) -> Self:
        spans = {
            "jitter_seconds": found.jitter,
            "every_seconds": found.every,
            "expires_seconds": found.expires,
        }
        names = cls.model_fields.keys() - {"arguments", "missed", "principal", *spans}
        return cls(
            **{name: getattr(found, name) for name in names},
            **{name: None if span is None else span.total_seconds() for name, span in spans.items()},
            arguments=found.args,
            missed=str(found.missed),
            principal=found.principal.subject,
        )


class SchedulesRecord(Record):
    """All schedules by name."""

    schedules: list[ScheduleRecord]


class TickRecord(Record):
    """A due time that made a job."""

    at: Moment
    fired_at: Moment
    job_id: Id
    covers: int = Field(description="How many due times the job stands for.")


class TicksRecord(Record):
    """The last due times of a schedule, newest first."""

    ticks: list[TickRecord]


class NextTimesRecord(Record):
    """The next due times of a schedule; empty while it does not fire."""

    times: list[Moment]


class RuleRecord(Record):
    """A rule: which ends of jobs create which jobs."""

    name: str
    parents: list[str]
    create: str
    phase: str
    key: list[str]
    args: dict[str, Any]
    policy: str
    event: str
    priority: int
    max_attempts: int
    inherit: bool = Field(description="Whether the correlation id is passed on.")
    source: str
    defined_at: Moment
    changed_at: Moment
    gone_at: Moment | None = None

    @classmethod
    def of(cls, found: StoredRule) -> Self:
        rule = found.rule
        names = cls.model_fields.keys() - {
            "parents",
            "key",
            "args",
            "policy",
            "event",
            "defined_at",
            "changed_at",
            "gone_at",
        }
        return cls(
            **{name: getattr(rule, name) for name in names},
            parents=list(rule.parents),
            key=list(rule.key),
            args=dict(rule.args),
            policy=str(rule.policy),
            event=str(rule.event),
            defined_at=found.defined_at,
            changed_at=found.changed_at,
            gone_at=found.gone_at,
        )


class RulesRecord(Record):
    """All rules by name."""

    rules: list[RuleRecord]


class RuleRemovedRecord(Record):
    """A rule that was removed."""

    open_fan_ins: int = Field(description="How many children are therefore not made.")


class PartRecord(Record):
    """One parent of a fan-in that has ended."""

    kind: str
    job_id: Id
    state: str
    at: Moment


class FanInRecord(Record):
    """A child that is not made yet: which parents have ended, which are missing."""

    rule: str
    key: Any = None
    round: int
    opened_at: Moment
    complete: list[PartRecord]
    failed: list[PartRecord]
    missing: list[str]
    is_cancelled: bool
    error: str | None = None

    @classmethod
    def of(cls, found: FanIn) -> Self:
        names = cls.model_fields.keys() - {"complete", "failed", "missing"}
        return cls(
            **{name: getattr(found, name) for name in names},
            complete=PartRecord.each(found.complete),
            failed=PartRecord.each(found.failed),
            missing=list(found.missing),
        )


class FanInsRecord(Record):
    """Open fan-ins."""

    fan_ins: list[FanInRecord]
