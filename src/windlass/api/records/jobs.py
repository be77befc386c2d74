"""Jobs, their pages, attempts, log lines, outputs and progress."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Self

from pydantic import Field

from windlass.api.records.record import Id, Moment, Record
from windlass.control.job_relations import RelatedJobs
from windlass.control.job_views import JobPage
from windlass.model import Job, Output, Span, State


class ProgressRecord(Record):
    """How far a job is."""

    done: int
    total: int | None = None
    percent: float | None = None
    rate: float | None = Field(default=None, description="Records a second.")
    seconds_left: float | None = None
    chunk: int | None = None
    position: Any = None
    at: Moment | None = None


class OutputRecord(Record):
    """What a phase produced."""

    phase: str
    name: str
    value: Any = None

    @classmethod
    def of(cls, found: Output) -> Self:
        return cls(phase=found.phase, name=found.name, value=found.value)


class JobRecord(Record):
    """A job. Times that have not come are null."""

    id: Id
    title: str = Field(
        description="What people read instead of the id, made of the arguments that the caller may see.",
        examples=["invoice 4711"],
    )
    kind: str = Field(examples=["welcome"])
    phase: str
    state: State
    priority: int = Field(description="0 to 9; 9 is served first.")
    generation: int = Field(description="Grows with each retry by hand.")
    attempt: int
    max_attempts: int
    crashes: int
    correlation_id: str
    arguments: Any = Field(
        description="The arguments by name, with secrets hidden.", examples=[{"user_id": 7}]
    )
    result: Any = None
    error: Any = Field(default=None, description="Type, code and message of the last error.")
    why: str | None = Field(default=None, description="Why the job is not running, in short.")
    reason: str | None = Field(
        default=None, description="The same as a word of the library, where it has one."
    )
    pending: int = Field(default=0, description="How many jobs it still waits for.")
    parents: int | None = Field(
        default=None, description="How many jobs it waits for or has waited for; not in lists."
    )
    progress: ProgressRecord | None = None
    created_at: Moment
    updated_at: Moment
    run_at: Moment | None = None
    started_at: Moment | None = None
    claimed_at: Moment | None = None
    finished_at: Moment | None = None
    cancel_requested_at: Moment | None = None
    version: str = Field(description="Send it as If-Match to change the job.")

    @classmethod
    def of(cls, found: Job) -> Self:
        return cls.model_validate(_facts(found))


class JobDetail(JobRecord):
    """A job with all that is kept of it. Its version is the ETag."""

    traceback: str | None = None
    outputs: list[OutputRecord] = Field(default=[])

    @classmethod
    def of(cls, found: Job) -> Self:
        return cls.model_validate(
            {
                **_facts(found),
                "traceback": found.traceback,
                "outputs": OutputRecord.each(found.outputs),
            }
        )


def _facts(job: Job) -> dict[str, Any]:
    names = JobRecord.model_fields.keys() - {"arguments", "result", "progress"}
    facts = {name: getattr(job, name) for name in names}
    progress = None if job.progress is None else ProgressRecord.of(job.progress)
    return {**facts, "arguments": job.args, "result": job.result, "progress": progress}


class JobPageRecord(Record):
    """A page of jobs, newest first."""

    jobs: list[JobRecord]
    has_more: bool = Field(description="Whether rows are left that were not searched.")
    next_cursor: str | None = Field(
        default=None,
        description="Continues the list; also behind a page that is short because its search had reached its limit.",
    )
    searched: int = Field(description="How many rows were read for this page.")

    @classmethod
    def of(cls, found: JobPage) -> Self:
        return cls(
            jobs=JobRecord.each(found.jobs),
            has_more=found.more,
            next_cursor=found.next_cursor,
            searched=found.searched,
        )


class JobCountRecord(Record):
    """How many jobs a filter finds."""

    count: int
    exact: bool = Field(description="If false, there are at least so many.")
    searched: int


class AttemptRecord(Record):
    """One attempt of a job."""

    phase: str
    generation: int
    attempt: int
    instance: str | None = None
    processor: str | None = None
    claimed_at: Moment
    started_at: Moment
    ended_at: Moment | None = None
    outcome: str = Field(
        description="completed, failed, cancelled, retried, advanced, recovered, or processing while it runs."
    )
    error: Any = None
    ran_seconds: float | None = None

    @classmethod
    def of(cls, found: Span) -> Self:
        ran: timedelta | None = found.ran
        names = cls.model_fields.keys() - {"ran_seconds", "instance"}
        return cls(
            **{name: getattr(found, name) for name in names},
            instance=None if found.instance is None else str(found.instance),
            ran_seconds=None if ran is None else ran.total_seconds(),
        )


class TimelineRecord(Record):
    """All attempts of a job, oldest first."""

    attempts: list[AttemptRecord]


class RelatedGroupRecord(Record):
    """Jobs of one kind and state on one level around a job."""

    level: int = Field(
        description="0 is the job itself, below 0 are jobs that lead to it, above 0 jobs behind it."
    )
    kind: str
    state: State
    count: int
    sample: Id = Field(description="The oldest of them.")


class RelatedEdgeRecord(Record):
    """How many edges lead from one group to another; both are places in the list of groups."""

    parent: int
    child: int
    count: int


class RelatedRecord(Record):
    """The jobs around a job, folded into groups."""

    groups: list[RelatedGroupRecord]
    edges: list[RelatedEdgeRecord]
    is_cut: bool = Field(description="Whether there are more jobs than were read.")

    @classmethod
    def of(cls, found: RelatedJobs) -> Self:
        return cls(
            groups=RelatedGroupRecord.each(found.groups),
            edges=RelatedEdgeRecord.each(found.edges),
            is_cut=found.is_cut,
        )


class LogLineRecord(Record):
    """A line that a handler logged."""

    at: Moment
    level: str
    logger: str
    message: str


class AttemptLogRecord(Record):
    """The lines of one attempt; at most 64 kB."""

    phase: str
    attempt: int
    lines: list[LogLineRecord]


class LogsRecord(Record):
    """The lines of all attempts, oldest first."""

    attempts: list[AttemptLogRecord]


class OutputsRecord(Record):
    """The outputs of a job in the order in which they were stored."""

    outputs: list[OutputRecord]
