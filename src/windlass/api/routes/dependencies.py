"""What routes ask for: the app, the settings, and the control service acting as the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from windlass.api.access.caller import Caller
from windlass.api.access.dependencies import allowed
from windlass.api.middleware.places import Places
from windlass.api.problems.problem import ProblemError
from windlass.api.settings import ApiSettings
from windlass.api.streams.open_streams import OpenStreams
from windlass.api.streams.topics import Overview
from windlass.app.app import App
from windlass.control.service import Control


@dataclass(frozen=True, slots=True)
class Call:
    """One request: who sends it, and the app that it is for."""

    caller: Caller
    app: App
    settings: ApiSettings
    waits: Places
    streams: OpenStreams
    overview: Overview
    still_knows: Callable[[float], Awaitable[bool]]
    """Whether the request would be accepted now as it was when it came, by a read of its token that is at most so many seconds old."""
    base: str
    """The path that the API is mounted at; empty at the root."""

    @property
    def control(self) -> Control:
        """The control service acting as the caller."""
        return self.caller.control(self.app)

    def require(self, role: str) -> None:
        """Refuse a caller that lacks a further role."""
        if role not in self.caller.roles:
            raise ProblemError(
                "forbidden", f"this needs the role {role}, which {self.caller.principal.subject} lacks"
            )

    def path(self, path: str) -> str:
        """The address of a resource of this API, for a header Location."""
        return f"{self.base}{path}"


def acting(role: str | None) -> Callable[..., Awaitable[Call]]:
    """A dependency: the request as a ``Call`` of a caller that has the role."""

    async def call(request: Request, caller: Annotated[Caller, Depends(allowed(role))]) -> Call:
        state = request.app.state
        return Call(
            caller,
            state.windlass,
            state.settings,
            state.waits,
            state.streams,
            state.overview,
            partial(state.access.still_knows, caller, request),
            request.scope.get("root_path", "").rstrip("/"),
        )

    # FastAPI resolves the names of annotations in the module, where `role` of this call is not.
    call.__annotations__["caller"] = Annotated[Caller, Depends(allowed(role))]
    call.__annotations__["request"] = Request
    return call


Viewing = Annotated[Call, Depends(acting("view"))]
ViewingPayload = Annotated[Call, Depends(acting("view-payload"))]
Submitting = Annotated[Call, Depends(acting("submit"))]
Operating = Annotated[Call, Depends(acting("operate"))]
Editing = Annotated[Call, Depends(acting("edit"))]
Administering = Annotated[Call, Depends(acting("admin"))]

JobId = Annotated[str, Path(description="The id of a job.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many records a page has at most.")]
Cursor = Annotated[str | None, Query(description="The next_cursor of the page before.")]
Filter = Annotated[
    str,
    Query(
        alias="q",
        max_length=10_000,
        description="A filter, such as `state:failed kind:report* age:>1h`.",
        openapi_examples={"all": {"value": ""}, "failed reports": {"value": "state:failed kind:report*"}},
    ),
]
