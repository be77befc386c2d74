"""When an instance beats."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pytest

from windlass.engine.heartbeat import Heartbeat
from windlass.engine.stats import Stats
from windlass.settings import Settings
from windlass.store.holder import Beat, CancelAsked


class Holder:
    """Notes when it is asked to beat."""

    id = "made-up"

    def __init__(self) -> None:
        self.beats: list[float] = []
        self.looks: list[float] = []
        self.told: list[CancelAsked] = []

    def cancels(self) -> list[CancelAsked]:
        self.looks.append(time.monotonic())
        return [CancelAsked("a job", 1)]

    def beat(self) -> Beat:
        self.beats.append(time.monotonic())
        return Beat((), 0)


@pytest.fixture
def holder() -> Holder:
    return Holder()


@pytest.fixture
def heartbeat(holder: Holder) -> Iterator[Heartbeat]:
    made = Heartbeat(
        join=lambda: cast(Any, holder),
        settings=Settings(heartbeat=20.0),
        stats=Stats(),
        on_cancelled=holder.told.extend,
        on_lost=lambda _: None,
        on_good=lambda _: None,
    )
    made.start()
    yield made
    made.stop()


def test_every_beat_that_was_asked_for_is_made(heartbeat: Heartbeat, holder: Holder) -> None:
    """A claim whose reply was lost shortly after another's is too young for the first one's beat; it must have its own, or it
    waits for the regular one."""
    began = time.monotonic()
    heartbeat.soon(0.2)
    heartbeat.soon(0.6)
    while len(holder.beats) < 2 and time.monotonic() - began < 10:
        time.sleep(0.01)
    assert [at - began >= due for at, due in zip(holder.beats, (0.2, 0.6), strict=True)] == [True, True]


def test_a_look_for_cancels_is_one_read_at_most_twice_a_second(heartbeat: Heartbeat, holder: Holder) -> None:
    """A busy file is committed to thousands of times a second; what was committed last must still be seen."""
    time.sleep(0.6)
    until = time.monotonic() + 1.2
    while time.monotonic() < until:
        heartbeat.look()
        time.sleep(0.001)
    last = time.monotonic()
    heartbeat.look()
    while holder.looks[-1] < last and time.monotonic() - last < 5:
        time.sleep(0.01)
    assert 3 <= len(holder.looks) <= 5 and holder.looks[-1] >= last
    assert min(after - before for before, after in pairwise(holder.looks)) > 0.49
    assert holder.beats == [] and set(holder.told) == {("a job", 1)}
