"""The data of streamed events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field

from windlass.api.records.jobs import ProgressRecord
from windlass.api.records.record import Id, Moment, Record
from windlass.api.records.system import CountsRecord, InstanceRecord, PoolMemberRecord
from windlass.control.job_events import JobEvent
from windlass.control.overview_sample import Sample


class JobEventRecord(Record):
    """An event of a job."""

    id: str = Field(description="Where a stream continues: send it as Last-Event-ID.")
    job: Id
    type: str = Field(
        description="created, started, progress, completed, failed, cancelled, retried, advanced or recovered."
    )
    at: Moment
    phase: str
    attempt: int
    generation: int
    instance: str | None = None
    error: Any = None
    progress: ProgressRecord | None = None
    is_last: bool = Field(description="Whether the job has ended with this event.")

    @classmethod
    def of(cls, found: JobEvent) -> Self:
        names = cls.model_fields.keys() - {"progress", "error"}
        progress = None if found.progress is None else ProgressRecord.of(found.progress)
        error = None if found.error is None else dict(found.error)
        return cls(**{name: getattr(found, name) for name in names}, progress=progress, error=error)


class PhaseSampleRecord(Record):
    """A phase at one moment."""

    counts: CountsRecord
    oldest: float
    is_paused: bool
    ended: Mapping[str, int] = Field(description="How many jobs ended since the sample before, by state.")
    per_second: float


class SampleRecord(Record):
    """Everything at one moment."""

    at: Moment
    phases: dict[str, PhaseSampleRecord]
    instances: list[InstanceRecord]

    @classmethod
    def of(cls, found: Sample) -> Self:
        phases = {name: PhaseSampleRecord.of(one) for name, one in found.phases.items()}
        return cls(at=found.at, phases=phases, instances=InstanceRecord.each(found.instances))


class PhaseEventRecord(Record):
    """One phase at one moment, with its processors on each instance."""

    phase: str
    at: Moment
    sample: PhaseSampleRecord | None = Field(
        default=None, description="Null for a phase that never had a job."
    )
    members: list[PoolMemberRecord]

    @classmethod
    def of_sample(cls, sample: Sample, phase: str) -> Self:
        """What a sample says of a phase."""
        found = sample.phases.get(phase)
        members = [
            PoolMemberRecord(
                instance=instance.id,
                host=instance.host,
                size=one.size,
                busy=one.busy,
                error=one.error,
                queue=one.queue,
            )
            for instance in sample.instances
            if instance.is_alive
            for one in instance.phases
            if one.name == phase
        ]
        shown = None if found is None else PhaseSampleRecord.of(found)
        return cls(phase=phase, at=sample.at, sample=shown, members=members)


class ResetRecord(Record):
    """The client forgets what it has of these topics, and gets everything anew."""

    topics: list[str]
