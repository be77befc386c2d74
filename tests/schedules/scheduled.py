"""What the tests of schedules have in common: definitions, and the times that come of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.model import NewSchedule

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
T0 = datetime(2026, 1, 1, tzinfo=UTC)  # where the tests' clock begins


def new(name: str = "tidy", expression: str = "*/5 * * * *", **options: Any) -> NewSchedule:
    return NewSchedule(name=name, kind=options.pop("kind", "work"), expression=expression, **options)


def dues(fired: Any) -> list[datetime]:
    return [tick.at for item in fired for tick in item.ticks]


def minutes(*numbers: float) -> list[datetime]:
    return [T0 + number * MINUTE for number in numbers]


def code(
    name: str, expression: str = "*/5 * * * *", module: str = "shop.jobs", **options: Any
) -> NewSchedule:
    return new(name, expression, source=f"{module}:{name}", **options)
