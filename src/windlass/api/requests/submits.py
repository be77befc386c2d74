"""The bodies of requests that submit jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
)
from pydantic import ValidationError as InvalidBody

from windlass.api.problems.pointers import of_errors
from windlass.api.problems.problem import ProblemError
from windlass.api.records.record import ID_EXAMPLE
from windlass.api.requests.body import parsed
from windlass.api.requests.times import Time
from windlass.control.submitting import JobOrder
from windlass.model import After, Debounce, DependencyPolicy, Throttle

Seconds = Annotated[StrictFloat, Field(ge=0, le=100 * 366 * 86_400)]
_STRICT = ConfigDict(extra="forbid")


class AfterBody(BaseModel):
    """A job that must have ended before."""

    model_config = _STRICT
    job: StrictStr
    policy: DependencyPolicy = Field(
        default=DependencyPolicy.CANCEL, description="What happens if that job fails or is cancelled."
    )


class DebounceBody(BaseModel):
    """Wait for quiet: a later submit with the same key replaces the arguments of the job that still waits."""

    model_config = _STRICT
    key: StrictStr
    wait: Seconds | None = None


class ThrottleBody(BaseModel):
    """At most one job per key and period."""

    model_config = _STRICT
    key: StrictStr
    period: Seconds


class JobBody(BaseModel):
    """A job to submit."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"kind": "welcome", "arguments": {"user_id": 7}},
                {
                    "kind": "report",
                    "arguments": {"county": "Harju"},
                    "priority": 9,
                    "delay": 60,
                    "key": "report-harju",
                },
            ]
        },
    )

    kind: StrictStr = Field(examples=["welcome"], max_length=1000)
    arguments: dict[str, Any] = Field(
        default={}, description="By name; validated by the handler's annotations.", examples=[{"user_id": 7}]
    )
    priority: Annotated[StrictInt, Field(ge=0, le=9)] | None = Field(
        default=None, description="9 is served first."
    )
    delay: Seconds | None = Field(default=None, description="Seconds until the job is due.")
    run_at: Time | None = Field(default=None, description="When the job is due, instead of `delay`.")
    expires: Seconds | Time | None = Field(
        default=None, description="Until when the job must have begun: seconds from now, or a time."
    )
    key: StrictStr | None = Field(
        default=None,
        description="A unique key: while a job with it is alive, a second submit returns that job.",
    )
    debounce: DebounceBody | None = None
    throttle: ThrottleBody | None = None
    limit_key: StrictStr | None = None
    after: list[StrictStr | AfterBody] = Field(
        default=[],
        max_length=1000,
        description="Jobs that must have completed before this one runs.",
        examples=[[ID_EXAMPLE]],
    )
    correlation_id: StrictStr | None = None
    headers: dict[str, StrictStr] | None = Field(
        default=None, description="Short texts that are carried with the job."
    )
    max_attempts: StrictInt | None = None

    def order(self) -> JobOrder:
        """The job as the library takes it."""
        given = {name: _option(name, getattr(self, name)) for name in self.model_fields_set - _NO_OPTIONS}
        return JobOrder(
            self.kind, self.arguments, {name: value for name, value in given.items() if value is not None}
        )


_NO_OPTIONS = frozenset({"kind", "arguments"})


def _option(name: str, value: Any) -> Any:
    """An option as the library takes it; None for one that was given as null."""
    match value:
        case int() | float() if name == "expires":
            return timedelta(seconds=value)
        case DebounceBody():
            return Debounce(value.key, value.wait)
        case ThrottleBody():
            return Throttle(value.key, value.period)
        case list():
            return [
                After(one) if isinstance(one, str) else After(one.job, one.policy) for one in value
            ] or None
    return value


class BatchBody(BaseModel):
    """Jobs, and one that runs when all of them have ended."""

    model_config = _STRICT
    jobs: list[JobBody | StrictStr] = Field(
        description="Jobs to submit, or the ids of jobs that exist.", max_length=1_000_000
    )
    then: JobBody


_JOBS = TypeAdapter(list[JobBody])
_JOB = TypeAdapter(JobBody)
NDJSON = "application/x-ndjson"


def many_jobs(text: bytes, media_type: str, *, depth: int, most: int) -> Sequence[JobBody]:
    """The jobs of a body: a JSON array, or lines of JSON. A problem points to the wrong job."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind == NDJSON:
        lines = [(number, line) for number, line in enumerate(text.split(b"\n")) if line.strip()]
        check_count(len(lines), most)
        return [_checked(_JOB, parsed(line, depth, f"#/{number}"), number) for number, line in lines]
    if kind != "application/json":
        raise ProblemError(
            "unsupported-media-type",
            f"the body has the content type {media_type[:100]!r}; send application/json or {NDJSON}",
            errors=[("header:Content-Type", f"must be application/json or {NDJSON}")],
        )
    value = parsed(text, depth)
    if isinstance(value, list):
        check_count(len(value), most)
    jobs: Sequence[JobBody] = _checked(_JOBS, value)
    return jobs


def check_count(count: int, most: int) -> None:
    """Refuse more jobs than one request may submit."""
    if count > most:
        raise ProblemError(
            "too-many-jobs",
            f"the request has {count} jobs; {most} is the limit (api.max_jobs)",
            errors=[("#", f"has {count} jobs")],
        )


def _checked(kind: TypeAdapter[Any], value: Any, number: int | None = None) -> Any:
    try:
        return kind.validate_python(value)
    except InvalidBody as error:
        base = () if number is None else (number,)
        found = of_errors(
            [{**item, "loc": ("body", *base, *item["loc"])} for item in error.errors(include_url=False)]
        )
        raise ProblemError(
            "invalid-request", "; ".join(f"{where}: {what}" for where, what in found[:3]), errors=found
        ) from None
