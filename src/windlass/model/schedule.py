"""Schedules, their due times, and the jobs that were made for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from windlass.model.job import DEFAULT_MAX_ATTEMPTS, DEFAULT_PRIORITY, Json
from windlass.model.principal import Principal


class Missed(StrEnum):
    """The policy for due times that were not fired because no instance ran: none of them, one job for all, or one job each."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A request to have jobs made at certain times. ``args`` is a mapping, or JSON text already checked (``Json``).

    The times come from a cron ``expression``, or ``every`` so many seconds, counted from the creation of the schedule.
    ``cap`` is how many missed ticks are made up for one by one. ``jitter`` spreads jobs over that time after their tick.
    ``due_as`` names the argument that gets the tick's due time. ``source`` is ``module:qualname`` where code says so. Its jobs are
    asked for by ``principal``, a service; without one, by a service of the schedule's name that has no rights. A job that has not begun
    ``expires`` after its tick fired is cancelled.
    """

    name: str
    kind: str
    expression: str | None = None
    every: timedelta | float | None = None
    tz: str = "UTC"
    args: Mapping[str, Any] | Json = field(default_factory=dict)
    phase: str | None = None
    missed: Missed = Missed.ONCE
    cap: int = 100
    jitter: timedelta = timedelta(0)
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    correlation_id: str | None = None
    due_as: str | None = None
    source: str = "api"
    principal: Principal | None = None
    expires: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule as the database has it.

    ``next_at`` is None while it does not fire: it is paused, or the code that defined it is gone. ``skipped`` counts due times
    that got no job of their own. ``generation`` rises with every change of its definition. ``expression`` is a text such as
    ``every 90 s`` where it has an interval (``every``).
    """

    name: str
    kind: str
    phase: str
    expression: str
    tz: str
    args_json: Json
    missed: Missed
    cap: int
    jitter: timedelta
    priority: int
    max_attempts: int
    correlation_id: str | None
    due_as: str | None
    source: str
    principal: Principal
    generation: int
    created_at: datetime
    updated_at: datetime
    next_at: datetime | None
    last_at: datetime | None
    last_job: str | None
    paused_at: datetime | None
    pause_reason: str | None
    gone_at: datetime | None
    skipped: int
    every: timedelta | None = None
    expires: timedelta | None = None

    @property
    def args(self) -> Any:
        return json.loads(self.args_json)

    @property
    def state(self) -> str:
        """``gone`` from its code, ``paused``, or ``active``."""
        if self.gone_at is not None:
            return "gone"
        return "active" if self.paused_at is None else "paused"


@dataclass(frozen=True, slots=True)
class Tick:
    """A due time that fired, the job it made, and how many due times that job stands for."""

    schedule: str
    at: datetime
    fired_at: datetime
    job_id: str
    covers: int


@dataclass(frozen=True, slots=True)
class Fired:
    """The result of firing one schedule that was due: the ticks that made jobs, and how many due times got none of their own.

    ``is_capped`` says that more were missed than its cap; ``refused`` why it was paused instead, because its row makes no sense;
    ``left`` why this instance leaves it to others.
    """

    schedule: str
    phase: str
    ticks: Sequence[Tick]
    skipped: int = 0
    is_capped: bool = False
    refused: str | None = None
    left: str | None = None


@dataclass(frozen=True, slots=True)
class Defined:
    """The result of defining schedules or rules from code: names that are new, changed, and gone from the code."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
