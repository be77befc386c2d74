"""When an instance beats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, cast

import pytest

from tests.waiting import PATIENCE, eventually
from windlass.engine.heartbeat import Heartbeat
from windlass.engine.stats import Stats
from windlass.errors import StoreUnreachableError
from windlass.settings import Settings
from windlass.store.jobs.holder_results import Beat, CancelRequest

pytestmark = pytest.mark.timing


class Holder:
    """Notes when it is asked to beat."""

    id = "made-up"

    def __init__(self) -> None:
        self.beats: list[float] = []
        self.looks: list[float] = []
        self.planned: list[float] = []
        """When the heartbeat decided on each look."""
        self.told: list[CancelRequest] = []
        self.answers: list[Callable[[], None]] = []
        """What the next beats do, in this order, before they answer."""
        self.left: list[float] = []
        """What was left of the lease after each good beat."""

    def cancels(self) -> list[CancelRequest]:
        self.looks.append(time.monotonic())
        return [CancelRequest("a job", 1)]

    def beat(self) -> Beat:
        self.beats.append(time.monotonic())
        if self.answers:
            self.answers.pop(0)()
        return Beat((), 0)


class Joined:
    """An instance that has this holder."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.id = holder.id

    def join(self) -> None: ...


@pytest.fixture
def holder() -> Holder:
    return Holder()


@pytest.fixture
def started(holder: Holder) -> Iterator[Callable[..., Heartbeat]]:
    """Starts heartbeats with settings of the test's own; they end with it."""
    made: list[Heartbeat] = []

    def start(**settings: float) -> Heartbeat:
        made.append(
            Heartbeat(
                cast(Any, Joined(holder)),
                Settings(**cast(Any, settings)),
                Stats(),
                on_cancelled=holder.told.extend,
                on_lost=lambda _: None,
                on_good=lambda _: holder.left.append(made[-1].left),
            )
        )
        made[-1].join()
        made[-1].start()
        return made[-1]

    yield start
    for heartbeat in made:
        heartbeat.stop()


@pytest.fixture
def heartbeat(started: Callable[..., Heartbeat]) -> Heartbeat:
    return started(heartbeat=20.0)


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_every_beat_that_was_asked_for_is_made(heartbeat: Heartbeat, holder: Holder) -> None:
    """A claim whose reply was lost shortly after another's is too young for the first one's beat; it must have its own, or it
    waits for the regular one."""
    began = time.monotonic()
    heartbeat.beat_soon(0.2)
    heartbeat.beat_soon(0.6)
    eventually(lambda: len(holder.beats) == 2)
    assert [at - began >= due for at, due in zip(holder.beats, (0.2, 0.6), strict=True)] == [True, True]


@pytest.mark.slow
def test_a_look_for_cancels_is_one_read_at_most_twice_a_second(heartbeat: Heartbeat, holder: Holder) -> None:
    """A busy file is committed to thousands of times a second; what was committed last must still be seen."""
    look = holder.cancels

    def noting() -> list[CancelRequest]:
        holder.planned.append(heartbeat._checked_at)
        return look()

    holder.cancels = noting  # type: ignore[method-assign]
    while len(holder.planned) < 4:
        heartbeat.check_cancels()
        time.sleep(0.001)
    eventually(lambda: not heartbeat.is_check_planned)
    last = time.monotonic()
    heartbeat.check_cancels()
    eventually(lambda: holder.looks[-1] >= last)
    assert min(after - before for before, after in pairwise(holder.planned[:4])) >= 0.5
    assert holder.beats == [] and set(holder.told) == {("a job", 1)}


def test_a_beat_that_fails_in_a_way_nobody_expected_is_not_the_last(
    started: Callable[..., Heartbeat], holder: Holder
) -> None:
    """The thread would be gone, and with it, after a lease, every job of a healthy instance."""
    holder.answers = [failing(RuntimeError("a bug"))]
    started(lease=3600.0, heartbeat=0.05)
    eventually(lambda: len(holder.left) >= 2)
    assert len(holder.beats) >= 3 and holder.left[-1] > 3500.0


def test_a_lease_is_counted_from_before_its_beat_was_sent(
    started: Callable[..., Heartbeat], holder: Holder
) -> None:
    """The database counts from some moment of the call; only the one before it is surely not too late."""
    holder.answers = [lambda: time.sleep(0.3)]
    started(lease=3600.0, heartbeat=20.0).beat_soon()
    eventually(lambda: holder.left)
    assert 3500.0 < holder.left[0] <= 3600.0 - 0.3


def test_a_beat_that_failed_is_repeated_after_a_second(
    started: Callable[..., Heartbeat], holder: Holder
) -> None:
    """A whole heartbeat later half of the lease may be gone."""
    holder.answers = [failing(StoreUnreachableError("away"))]
    heartbeat = started(lease=3600.0, heartbeat=10 * PATIENCE)
    asked = time.monotonic()
    heartbeat.beat_soon()
    eventually(lambda: len(holder.beats) == 2)
    assert holder.beats[1] - asked >= 1.0
