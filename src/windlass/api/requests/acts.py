"""The bodies of requests that change something."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from windlass.model import HIGHEST_PRIORITY

Reason = Annotated[
    StrictStr, Field(max_length=1000, description="For the audit trail.", examples=["ordered twice"])
]
Priority = Annotated[StrictInt, Field(ge=0, le=HIGHEST_PRIORITY)]


class Body(BaseModel):
    """A body without unknown members."""

    model_config = ConfigDict(extra="forbid")


class ReasonBody(Body):
    """Why this is done."""

    reason: Reason


class MaybeReasonBody(Body):
    """Why this is done, if the caller wants to say it."""

    reason: Reason | None = None


class RetryBody(MaybeReasonBody):
    """A retry by hand."""

    dependents: StrictBool = Field(
        default=False, description="Whether jobs that were cancelled because of it wait again."
    )


class EditBody(MaybeReasonBody):
    """What to change; all else stays."""

    arguments: dict[str, Any] | None = Field(
        default=None, description="The arguments to change, by name.", examples=[{"user": "bert"}]
    )
    priority: Priority | None = None


class PauseBody(ReasonBody):
    """A pause of a phase."""

    lasts: Annotated[StrictInt | StrictFloat, Field(gt=0, le=10 * 366 * 86_400)] | None = Field(
        default=None, description="Seconds; without it, until the phase is resumed."
    )


class DrainBody(ReasonBody):
    """The end of an instance."""

    grace: Annotated[StrictInt | StrictFloat, Field(ge=0)] | None = Field(
        default=None, description="Seconds that running jobs have; without it, as long as they take."
    )


class DeployBody(Body):
    """A mark on the charts."""

    text: StrictStr = Field(min_length=1, max_length=200, examples=["release 41"])


class ProcessorsBody(MaybeReasonBody):
    """How many processors a phase has on an instance."""

    count: StrictInt


class OperationBody(MaybeReasonBody):
    """An act on all jobs that a filter finds now."""

    act: Literal["cancel", "retry", "run_now", "delete", "priority"]
    filter: StrictStr = Field(default="", max_length=10_000, examples=["state:failed kind:report*"])
    all: StrictBool = Field(default=False, description="Must be true for an empty filter.")
    dry_run: StrictBool = Field(default=False, description="Count the jobs, and change nothing.")
    dependents: StrictBool | None = Field(
        default=None, description="Of a retry: also the jobs that were cancelled because of it."
    )
    priority: Priority | None = Field(default=None, description="Of a change of priority.")

    @property
    def options(self) -> dict[str, Any]:
        """The options of the act that were given."""
        given = {"dependents": self.dependents, "priority": self.priority}
        return {name: value for name, value in given.items() if value is not None}
