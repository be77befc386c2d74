"""Rules and open fan-ins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from windlass.api.problems.documented import problems
from windlass.api.records.plans import (
    FanInRecord,
    FanInsRecord,
    RuleRecord,
    RuleRemovedRecord,
    RulesRecord,
)
from windlass.api.records.why import WhyRecord
from windlass.api.requests.body import StrictRoute, parsed
from windlass.api.routes.dependencies import Limit, Operating, Viewing

router = APIRouter(prefix="/v1", tags=["rules"], route_class=StrictRoute)
Name = Annotated[str, Path(description="The name of a rule.")]


@router.get("/rules", operation_id="list_rules", responses=problems())
async def list_rules(call: Viewing) -> RulesRecord:
    """All rules by name."""
    return RulesRecord(rules=RuleRecord.each(await call.control.rules.list_async()))


@router.get("/fan-ins", operation_id="list_fan_ins", responses=problems(404))
async def list_fan_ins(
    call: Viewing,
    rule: Annotated[str | None, Query(description="The name of a rule.")] = None,
    limit: Limit = 100,
) -> FanInsRecord:
    """Children that are not made yet: which parents have ended, which are missing."""
    return FanInsRecord(fan_ins=FanInRecord.each(await call.control.rules.open_async(rule, limit=limit)))


@router.get("/rules/{name:path}/why", operation_id="explain_rule", responses=problems(404))
async def explain_rule(
    call: Viewing,
    name: Name,
    key: Annotated[
        str,
        Query(
            description='The value of the key as JSON: "2026-11", or a list of values.',
            examples=['"2026-11"'],
        ),
    ],
) -> WhyRecord:
    """Why a rule has not made its child for a key."""
    value = parsed(key.encode(errors="replace"), call.settings.max_depth, "query:key")
    return WhyRecord.of(await call.control.rules.why_async(name, value))


@router.get("/rules/{name:path}", operation_id="get_rule", responses=problems(404))
async def get_rule(call: Viewing, name: Name) -> RuleRecord:
    """One rule."""
    return RuleRecord.of(await call.control.rules.get_async(name))


@router.delete("/rules/{name:path}", operation_id="delete_rule", responses=problems(404))
async def delete_rule(
    call: Operating, name: Name, reason: Annotated[str | None, Query(max_length=1000)] = None
) -> RuleRemovedRecord:
    """Remove a rule, and with it its open fan-ins; jobs that it made stay. One of code comes back when a worker with that code starts."""
    return RuleRemovedRecord(open_fan_ins=await call.control.rules.remove_async(name, reason))
