"""The ticker by itself: how often it asks, and when it tidies up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from windlass.model import Fired
from windlass.schedules.store import Schedules
from windlass.schedules.ticker import AGAIN, LIMIT, PRUNE_EVERY, Ticker


class FakeSchedules:
    """Answers as it was told."""

    def __init__(self) -> None:
        self.due: list[int] = []
        self.tick: float | None = None
        self.pruned = 0

    def fire_due(self, limit: int) -> Sequence[Fired]:
        count = self.due.pop(0) if self.due else 0
        return [Fired(f"s{n}", "work", ()) for n in range(count)]

    def tick_in(self) -> float | None:
        return self.tick

    def prune_ticks(self) -> int:
        self.pruned += 1
        return 0


def make() -> tuple[Ticker, FakeSchedules, list[Fired], list[float]]:
    schedules, now = FakeSchedules(), [0.0]
    seen: list[Fired] = []
    ticker = Ticker(cast(Schedules, cast(Any, schedules)), on_fired=seen.append, monotonic=lambda: now[0])
    return ticker, schedules, seen, now


def test_it_fires_until_nothing_is_due_and_says_when_there_is_more() -> None:
    ticker, schedules, seen, _ = make()
    schedules.due, schedules.tick = [LIMIT, 3], -0.1
    assert ticker.run() == 0.0 and len(seen) == LIMIT, "there is more"
    schedules.tick = 12.5
    assert ticker.run() == 12.5 and len(seen) == LIMIT + 3
    schedules.tick = None
    assert ticker.run() is None, "no schedule fires: it sleeps until it is told"


def test_what_somebody_else_fires_is_looked_at_again_soon_but_not_at_once() -> None:
    ticker, schedules, _, _ = make()
    schedules.tick = -0.5
    assert ticker.run() == AGAIN
    schedules.due = [1]
    assert ticker.run() == 0.0, "the next one is due already"


def test_ticks_are_pruned_now_and_then_by_those_who_fire() -> None:
    ticker, schedules, _, now = make()
    schedules.due = [1, 1, 1, 1]
    ticker.run()
    now[0] = PRUNE_EVERY
    ticker.run()
    ticker.run()
    assert schedules.pruned == 1
    now[0] = 2 * PRUNE_EVERY
    ticker.run()
    now[0] = 3 * PRUNE_EVERY
    ticker.run()
    assert schedules.pruned == 2, "the last time there was nothing to fire"
