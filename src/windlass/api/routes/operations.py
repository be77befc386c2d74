"""Acts on all jobs of a filter."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from windlass.api.problems.documented import problems
from windlass.api.records.acts import OperationPageRecord, OperationRecord, StoppedRecord
from windlass.api.requests.acts import MaybeReasonBody, OperationBody
from windlass.api.requests.body import StrictRoute
from windlass.api.requests.pages import link_next
from windlass.api.routes.dependencies import Cursor, Limit, Operating, Viewing
from windlass.operations.operation import OperationState

router = APIRouter(prefix="/v1/operations", tags=["operations"], route_class=StrictRoute)
EDITS = frozenset({"priority"})
"""Acts that need the role edit, too."""


@router.post(
    "",
    operation_id="start_operation",
    status_code=202,
    responses={
        200: {"model": OperationRecord, "description": "Of a dry run: how many jobs the filter finds."},
        **problems(408, 413, 415),
    },
)
async def start_operation(call: Operating, body: OperationBody, response: Response) -> OperationRecord:
    """Act on all jobs that a filter finds now; workers do it in the background. `dry_run` only counts them."""
    if body.act in EDITS:
        call.require("edit")
    begun = await call.control.operations.start_async(
        body.act, body.filter, body.reason, options=body.options, all=body.all, dry_run=body.dry_run
    )
    if begun.id:
        response.headers["Location"] = call.path(f"/v1/operations/{begun.id}")
    else:
        response.status_code = 200
    return OperationRecord.of(begun.begun)


@router.get("", operation_id="list_operations", responses=problems())
async def list_operations(
    call: Viewing,
    response: Response,
    state: Annotated[OperationState | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> OperationPageRecord:
    """Operations from newest to oldest, a page at a time."""
    page = await call.control.operations.list_async(state=state, cursor=cursor, limit=limit)
    link_next(response, call.path("/v1/operations"), page.next_cursor, state=state, limit=limit)
    return OperationPageRecord(operations=OperationRecord.each(page.operations), next_cursor=page.next_cursor)


@router.get("/{operation_id}", operation_id="get_operation", responses=problems(404))
async def get_operation(call: Viewing, operation_id: str) -> OperationRecord:
    """One operation with its progress."""
    return OperationRecord.of(await call.control.operations.get_async(operation_id))


@router.post("/{operation_id}/stop", operation_id="stop_operation", responses=problems(404, 408, 413, 415))
async def stop_operation(
    call: Operating, operation_id: str, body: MaybeReasonBody | None = None
) -> StoppedRecord:
    """Stop a running operation; what was done stays done."""
    reason = None if body is None else body.reason
    return StoppedRecord(changed=await call.control.operations.stop_async(operation_id, reason))
