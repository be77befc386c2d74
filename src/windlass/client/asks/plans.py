"""Schedules and rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from windlass.client import records
from windlass.client.asks.ask import Ask, as_json, given, name_of, no_result, post
from windlass.client.records import each, one
from windlass.control.why.codes import Why
from windlass.model import Enqueued, Schedule, Tick
from windlass.model.rule import FanIn, StoredRule


def list_schedules() -> Ask[Sequence[Schedule]]:
    """All schedules by name."""
    return Ask("GET", "/v1/schedules", each("schedules", records.schedule_of))


def get_schedule(name: str) -> Ask[Schedule]:
    """One schedule; ``ScheduleNotFoundError`` if there is none of this name."""
    return Ask("GET", _schedule(name), records.schedule_of)


def ticks(name: str, limit: int = 10) -> Ask[Sequence[Tick]]:
    """The last due times that made jobs, newest first."""
    return Ask("GET", _schedule(name, "/ticks"), each("ticks", records.tick_of(name)), {"limit": limit})


def next_times(name: str, count: int = 10) -> Ask[Sequence[datetime]]:
    """The next due times; empty while the schedule does not fire."""
    return Ask("GET", _schedule(name, "/next"), each("times", datetime.fromisoformat), {"count": count})


def pause_schedule(name: str, reason: str) -> Ask[Schedule]:
    """Stop a schedule; jobs that it made continue."""
    return post(_schedule(name, "/pause"), {"reason": reason}, records.schedule_of)


def resume_schedule(name: str, reason: str | None = None) -> Ask[bool]:
    """Let a paused schedule fire again; False if it was not paused."""
    return post(_schedule(name, "/resume"), given(reason=reason), records.changed)


def run_schedule(name: str, reason: str | None = None) -> Ask[Enqueued]:
    """Make one job of a schedule now, paused or not."""
    return post(_schedule(name, "/run"), given(reason=reason), one(Enqueued))


def remove_schedule(name: str, reason: str | None = None) -> Ask[None]:
    """Remove a schedule; jobs that it made stay."""
    return Ask("DELETE", _schedule(name), no_result, given(reason=reason))


def list_rules() -> Ask[Sequence[StoredRule]]:
    """All rules by name."""
    return Ask("GET", "/v1/rules", each("rules", records.rule_of))


def get_rule(name: str) -> Ask[StoredRule]:
    """One rule; ``RuleNotFoundError`` if there is none of this name."""
    return Ask("GET", f"/v1/rules/{name_of(name)}", records.rule_of)


def open_fan_ins(rule: str | None = None, *, limit: int = 1000) -> Ask[Sequence[FanIn]]:
    """Children that are not made yet: which parents have ended, which are missing."""
    return Ask("GET", "/v1/fan-ins", each("fan_ins", one(FanIn)), given(rule=rule, limit=limit))


def explain_rule(name: str, key: Any) -> Ask[Why]:
    """Why a rule has not made its child for a key (a value, or a list of the values of its paths)."""
    return Ask("GET", f"/v1/rules/{name_of(name)}/why", records.why_of, {"key": as_json(key)})


def remove_rule(name: str, reason: str | None = None) -> Ask[int]:
    """Remove a rule, and with it the fan-ins that are open; returns how many children are therefore not made."""
    path = f"/v1/rules/{name_of(name)}"
    return Ask("DELETE", path, lambda found: int(found["open_fan_ins"]), given(reason=reason))


def _schedule(name: str, rest: str = "") -> str:
    return f"/v1/schedules/{name_of(name)}{rest}"
