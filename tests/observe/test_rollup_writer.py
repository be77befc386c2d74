"""The duty that writes the minutes: to real stores, and with every statement counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from windlass.clock import ManualClock
from windlass.engine.stats import Stats
from windlass.errors import (
    SchemaError,
    StoreError,
    StoreFullError,
    StoreNotAllowedError,
    StoreReadOnlyError,
    StoreUnreachableError,
)
from windlass.features import Store
from windlass.model import Rollup, Run
from windlass.upkeep.rollup_writer import RollupWriter

pytestmark = pytest.mark.timing

KEEP_DAYS = 14.0


class Monotonic:
    """Runs with the store's clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def __call__(self) -> float:
        return self._clock.now().timestamp()


class Counted:
    """A store that counts what is asked of it, and can be away."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.calls: list[str] = []
        self.written: dict[tuple[str, datetime, str], int] = {}
        self.pruned: list[datetime] = []
        self.is_away = False

    @property
    def rollups(self) -> Counted:
        return self

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.is_away:
            raise StoreUnreachableError("no answer")

    def now(self) -> datetime:
        self._call("now")
        return self._clock.now()

    def put(self, instance: str, rows: Sequence[Rollup]) -> None:
        self._call("put")
        self.written.update({(instance, row.minute, row.phase): row.completed for row in rows})

    def fold(self, now: datetime) -> None:
        self._call("fold")

    def prune(self, before: datetime) -> int:
        self._call("prune")
        self.pruned.append(before)
        return 0


@pytest.fixture
def stats(clock: ManualClock) -> Stats:
    return Stats(Monotonic(clock))


@pytest.fixture
def counted(clock: ManualClock) -> Counted:
    return Counted(clock)


@pytest.fixture
def writer(counted: Counted, stats: Stats, clock: ManualClock) -> RollupWriter:
    return RollupWriter(
        counted, stats, lambda: "i-1", every=10.0, keep_days=KEEP_DAYS, monotonic=Monotonic(clock)
    )


def _writer(store: Store, stats: Stats, clock: ManualClock) -> RollupWriter:
    instance = str(uuid4())
    return RollupWriter(
        store, stats, lambda: instance, every=10.0, keep_days=KEEP_DAYS, monotonic=Monotonic(clock)
    )


def test_what_is_written_can_be_read(store: Store, clock: ManualClock) -> None:
    """Two instances, two minutes, on each database."""
    start = clock.now()
    both = [Stats(Monotonic(clock)) for _ in range(2)]
    writers = [_writer(store, stats, clock) for stats in both]
    for _ in range(9):
        for stats, writer in zip(both, writers, strict=True):
            stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
            stats.ended_many("welcome", "failed", [Run(1, 3, 40)])
            writer.run()
        clock.advance(10)
    rows = store.rollups.read(since=start)
    assert [(row.minute, row.completed, row.failed) for row in rows] == [
        (start, 12, 12),
        (start + timedelta(minutes=1), 6, 6),
    ]
    assert sum(rows[0].run) == 24 and rows[0].run_ms_sum == 24 * 40 and len(rows[0].run) == 17


def test_old_minutes_are_pruned(store: Store, clock: ManualClock) -> None:
    start = clock.now()
    stats = Stats(Monotonic(clock))
    writer = _writer(store, stats, clock)
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    writer.run()
    clock.advance(timedelta(days=15))
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    writer.run()
    assert [row.minute for row in store.rollups.read(since=start)] == [start + timedelta(days=15)]


def test_an_idle_instance_issues_no_statement(
    writer: RollupWriter, counted: Counted, stats: Stats, clock: ManualClock
) -> None:
    for _ in range(1000):
        writer.run()
        clock.advance(10)
    assert counted.calls == []
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    writer.run()
    assert counted.calls == ["now", "put", "fold", "prune"]
    counted.calls.clear()
    for _ in range(1000):
        clock.advance(10)
        writer.run()
    assert counted.calls == []


def test_a_busy_one_issues_two_a_time_and_prunes_once_an_hour(
    writer: RollupWriter, counted: Counted, stats: Stats, clock: ManualClock
) -> None:
    start = clock.now()
    for _ in range(720):  # two hours
        stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
        writer.run()
        clock.advance(10)
    assert counted.calls.count("now") == counted.calls.count("put") == 720
    keep = timedelta(days=KEEP_DAYS)
    assert counted.pruned == [start - keep, start + timedelta(hours=1) - keep]
    assert set(counted.written.values()) == {6}


def test_nothing_is_lost_while_the_database_is_away(
    writer: RollupWriter, counted: Counted, stats: Stats, clock: ManualClock
) -> None:
    start = clock.now()
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    writer.run()
    counted.is_away = True
    for _ in range(12):
        clock.advance(10)
        stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
        with pytest.raises(StoreUnreachableError):
            writer.run()
    counted.is_away = False
    writer.run()
    minutes = {minute: number for (_, minute, _), number in counted.written.items()}
    assert minutes == {start: 6, start + timedelta(minutes=1): 6, start + timedelta(minutes=2): 1}


@pytest.mark.parametrize(
    "error",
    [
        StoreUnreachableError("the reply was lost"),
        StoreFullError("the disk is full"),
        StoreReadOnlyError("a standby"),
        StoreNotAllowedError("no INSERT"),
        SchemaError("no such table", found=None, expected=1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_write_that_failed_is_repeated(
    writer: RollupWriter, counted: Counted, stats: Stats, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    """The clock could be read, the rows not written, and no job ends afterwards."""

    def refuse(instance: str, rows: Sequence[Rollup]) -> None:
        raise error

    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    with monkeypatch.context() as patch:
        patch.setattr(counted, "put", refuse)
        with pytest.raises(type(error)):
            writer.run()
    writer.run()
    assert list(counted.written.values()) == [1]
    counted.calls.clear()
    writer.run()
    assert counted.calls == []


def test_another_instance_id_writes_rows_of_its_own(
    counted: Counted, stats: Stats, clock: ManualClock
) -> None:
    """After a lost lease. The sum over both ids is what happened, although both wrote the same minute."""
    instance = ["i-1"]
    writer = RollupWriter(
        counted, stats, lambda: instance[0], every=10.0, keep_days=KEEP_DAYS, monotonic=Monotonic(clock)
    )
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    writer.run()
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    instance[0] = "i-2"
    clock.advance(10)
    writer.run()
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    clock.advance(10)
    writer.run()
    assert {key[0]: number for key, number in counted.written.items()} == {"i-1": 2, "i-2": 1}


STEPS = [
    (25, 25, 25, 25, -60, -60, 30, 120, -3600, 3600),
    (-120, 120, -120, 120),
    (-61,) * 5,
    (300, -300, 300),
]


@pytest.mark.parametrize("steps", STEPS, ids=str)
def test_a_clock_that_is_set_back_loses_nothing(
    store: Store, clock: ManualClock, steps: Sequence[float]
) -> None:
    """Minutes come again, and count from zero; what was written for them before stands."""
    start = clock.now()
    passed = ManualClock()
    stats = Stats(Monotonic(passed))
    instance = str(uuid4())
    writer = RollupWriter(
        store, stats, lambda: instance, every=10.0, keep_days=KEEP_DAYS, monotonic=Monotonic(passed)
    )
    for step in (0, *steps):
        clock.advance(step)
        for _ in range(3):
            stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
            writer.run()
            clock.advance(7)
            passed.advance(7)
    rows = store.rollups.read(since=start - timedelta(days=1))
    assert sum(row.completed for row in rows) == 3 * (1 + len(steps))


def test_a_clock_that_is_set_back_while_nothing_ends_loses_nothing(
    counted: Counted, clock: ManualClock
) -> None:
    """The source went ten minutes ahead by its own clock, the database's came after it, and reached the same minute later."""
    passed = ManualClock()
    stats = Stats(Monotonic(passed))
    writer = RollupWriter(
        counted, stats, lambda: "i-1", every=10.0, keep_days=KEEP_DAYS, monotonic=Monotonic(passed)
    )
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    writer.run()
    passed.advance(600)
    clock.advance(120)
    for _ in range(100):
        stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
        writer.run()
        clock.advance(10)
        passed.advance(10)
    assert sum(counted.written.values()) == 101


def test_a_clock_that_differs_a_little_takes_no_other_id(counted: Counted, clock: ManualClock) -> None:
    passed = ManualClock()
    stats = Stats(Monotonic(passed))
    writer = RollupWriter(
        counted, stats, lambda: "i-1", every=10.0, keep_days=KEEP_DAYS, monotonic=Monotonic(passed)
    )
    for step in (10, -5, 25, -1, 10, 0, 12):
        stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
        writer.run()
        clock.advance(step)
        passed.advance(10)
    assert {key[0] for key in counted.written} == {"i-1"}


def test_rows_that_are_refused_do_not_hold_up_later_ones(
    writer: RollupWriter, counted: Counted, stats: Stats, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(instance: str, rows: Sequence[Rollup]) -> None:
        raise StoreError("a phase with a name that cannot be")

    stats.ended_many("bad", "completed", [Run(1, 3, 40)])
    with monkeypatch.context() as patch:
        patch.setattr(counted, "put", refuse)
        with pytest.raises(StoreError):
            writer.run()
    stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
    writer.run()
    assert [key[2] for key in counted.written] == ["welcome"]


def test_a_long_absence_is_made_up_for_in_batches(
    writer: RollupWriter, counted: Counted, stats: Stats, clock: ManualClock
) -> None:
    stats.take_rollups(clock.now())
    for _ in range(2500):
        stats.ended_many("welcome", "completed", [Run(1, 3, 40)])
        clock.advance(60)
    writer.run()
    assert counted.calls == ["now", "put", "put", "put", "fold", "prune"] and len(counted.written) == 2500
