"""A problem: what is raised in the API, and the JSON that a client gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import HTTPException
from pydantic import BaseModel, ConfigDict, Field

from windlass.api.problems.kinds import KINDS

MEDIA_TYPE = "application/problem+json"


class ProblemPart(BaseModel):
    """One wrong part of a request."""

    pointer: str = Field(
        description="A JSON pointer into the body (`#/arguments/user`), or the name of a parameter (`query:limit`, `header:Prefer`, `path:job_id`).",
        examples=["#/arguments/user"],
    )
    detail: str = Field(examples=["is required"])


class Problem(BaseModel):
    """A refusal or an error (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "/problems/job-not-found",
                    "title": "No such job",
                    "status": 404,
                    "detail": "job 019a2b3c-0000-7000-8000-000000000000 does not exist; check the id (a job that ended may have been pruned)",
                    "instance": "/v1/jobs/019a2b3c-0000-7000-8000-000000000000",
                    "code": "job-not-found",
                    "request_id": "7f3d6c1e9a4b4f0c",
                }
            ]
        }
    )

    type: str = Field(description="The address of a page about problems of this kind.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path that was asked for.")
    code: str = Field(description="The kind of the problem, for programs.")
    request_id: str
    errors: list[ProblemPart] = Field(default=[], description="The wrong parts of the request.")
    state: str | None = Field(default=None, description="With 409: the state of the job now.")
    job: str | None = Field(default=None, description="The id of the job that the problem is about.")


class ProblemError(HTTPException):
    """A problem as an exception. ``errors`` are pairs of a pointer and what is wrong there."""

    def __init__(
        self,
        code: str,
        detail: str | None = None,
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        self.kind = KINDS[code]
        given = dict(headers or {})
        if self.kind.retry_after is not None:
            given.setdefault("Retry-After", str(self.kind.retry_after))
        super().__init__(self.kind.status, detail or self.kind.about, given or None)
        self.errors, self.more = errors, more

    def body(self, *, base: str, path: str, request_id: str) -> dict[str, Any]:
        """The JSON for the client."""
        found: dict[str, Any] = {
            "type": f"{base}/problems/{self.kind.code}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "instance": path,
            "code": self.kind.code,
            "request_id": request_id,
        }
        if self.errors:
            found["errors"] = [{"pointer": where, "detail": what} for where, what in self.errors]
        return {**found, **{name: value for name, value in self.more.items() if value is not None}}
