"""Counters, histograms and the values of the minute."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.counting import steps
from tests.engine.leases import lease
from windlass.engine.stats import MAX_CLOSED, Stats
from windlass.model import Rollup, Run
from windlass.observe.report import BOUNDS_MS, BUCKETS, OUTCOMES

T0 = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Time:
    """The monotonic clock and the database's, moved together."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.now = T0 + timedelta(seconds=5)

    def __call__(self) -> float:
        return self.monotonic

    def move(self, seconds: float) -> datetime:
        self.monotonic += seconds
        self.now += timedelta(seconds=seconds)
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def stats(time: Time) -> Stats:
    return Stats(time)


def _completed(rows: list[Rollup]) -> dict[tuple[datetime, str], int]:
    assert len({(row.minute, row.phase) for row in rows}) == len(rows)
    return {(row.minute, row.phase): row.completed for row in rows}


# ---------------------------------------------------------------------- counting


def test_outcomes_are_counted_by_phase(stats: Stats) -> None:
    for place, outcome in enumerate(OUTCOMES):
        for _ in range(place):
            stats.ended_many("a", outcome, [Run(1, 1, 2)])
    stats.ended_many("b", "completed", [Run(1, 1, 2)])
    report = stats.report()
    assert report.phases["a"].outcomes == {outcome: place for place, outcome in enumerate(OUTCOMES)}
    assert report.outcome("completed") == 1 and report.phases["b"].outcomes["completed"] == 1


@pytest.mark.parametrize(
    ("ms", "bucket"),
    [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 2),
        (300_000, BUCKETS - 2),
        (300_001, BUCKETS - 1),
        (10**9, BUCKETS - 1),
    ],
)
def test_a_bound_belongs_to_its_bucket(stats: Stats, ms: int, bucket: int) -> None:
    stats.ended_many("a", "completed", [Run(1, ms, ms)])
    phase = stats.report().phases["a"]
    expected = tuple(int(place == bucket) for place in range(BUCKETS))
    assert phase.wait.counts == expected and phase.run.counts == expected
    assert (phase.wait.sum_ms, phase.run.sum_ms, phase.run.count) == (ms, ms, 1)


def test_every_bound_falls_into_its_own_bucket(stats: Stats) -> None:
    stats.ended_many("a", "completed", [Run(1, bound, bound) for bound in BOUNDS_MS])
    assert stats.report().phases["a"].run.counts == (1,) * len(BOUNDS_MS) + (0,)


def test_what_did_not_run_has_no_times(stats: Stats) -> None:
    stats.ended_many("a", "released", [None, Run(1, 0, 0), Run(1, 2, 3)])
    stats.ended_many("a", "lost", [Run(1, 5, 5000)])
    stats.ended_many("a", "cancelled", [None, None])
    phase = stats.report().phases["a"]
    assert phase.run.count == phase.wait.count == 0 and phase.run.sum_ms == phase.wait.sum_ms == 0
    assert phase.outcomes == {**dict.fromkeys(OUTCOMES, 0), "cancelled": 2, "released": 3, "lost": 1}


def test_one_by_one_is_the_same_as_many_at_once(stats: Stats, time: Time) -> None:
    runs = [Run(n % 10, n * 7 % 977, n * 13 % 70_001) for n in range(500)]
    one = Stats(time)
    for run in runs:
        one.ended_many("a", "completed", [run])
    stats.ended_many("a", "completed", runs)
    assert one.report() == stats.report()
    stats.ended_many("a", "completed", iter(runs))
    assert stats.report().outcome("completed") == 1000


def test_rarer_events_by_name_and_label(stats: Stats) -> None:
    stats.count("recovered", label="released")
    stats.count("recovered", 2, label="failed")
    stats.count("promoted", 40)
    report = stats.report()
    assert report.counts == {("recovered", "released"): 1, ("recovered", "failed"): 2, ("promoted", ""): 40}
    assert report.count("recovered") == 3 and report.count("crashes") == 0


def test_a_report_does_not_change_later(stats: Stats) -> None:
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    before = stats.report()
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    stats.count("promoted")
    assert before.outcome("completed") == 1 and not before.counts


def test_nothing_is_lost_between_threads(time: Time) -> None:
    """Writers, readers and a roll-up at once: every job is in exactly one minute."""
    stats, rows, over = Stats(time), {}, threading.Event()

    def write() -> None:
        for _ in range(300):
            stats.ended_many("a", "completed", [Run(1, 1, 1)] * 10)
            stats.count("promoted")

    def roll() -> None:
        while not over.is_set():
            rows.update({row.minute: row for row in stats.take_rollups(time.move(7))})

    threads = [threading.Thread(target=write) for _ in range(4)]
    roller = threading.Thread(target=roll)
    for thread in (*threads, roller):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    roller.join()
    rows.update({row.minute: row for row in stats.take_rollups(time.move(60))})
    assert sum(row.completed for row in rows.values()) == stats.report().outcome("completed") == 12_000
    assert all(row.completed == sum(row.run) == row.run_ms_sum for row in rows.values())
    assert stats.report().count("promoted") == 1200


def test_the_hot_path_is_cheap() -> None:
    """A job of a batch is counted in some eight lines, and claimed in fewer."""
    stats = Stats()
    runs, leases = [Run(1, 3, 40)] * 500, [lease("a")] * 500
    many = steps(lambda: stats.ended_many("a", "completed", runs)) / len(runs)
    claimed = steps(lambda: stats.claimed(leases)) / len(leases)
    assert claimed < many < 12


# ---------------------------------------------------------------------- the minute


def test_a_minute_comes_whole_each_time(stats: Stats, time: Time) -> None:
    stats.claimed([replace(lease("a"), claimed_at=T0, ready_at=T0 - timedelta(milliseconds=700))])
    stats.ended_many("a", "completed", [Run(1, 3, 40)])
    (row,) = stats.take_rollups(time.now)
    assert row == Rollup(  # the wait is that in the queue, not the 3 ms in memory
        minute=T0, phase="a", completed=1,
        wait=(*[0] * 9, 1, *[0] * 7), run=(0, 0, 0, 0, 0, 1, *[0] * 11), wait_ms_sum=700, run_ms_sum=40,
    )  # fmt: skip
    stats.ended_many("a", "completed", [Run(1, 3, 40)])
    for outcome in ("failed", "retried", "cancelled", "released"):
        stats.ended_many("a", outcome, [Run(1, 1, 2)])
    (row,) = stats.take_rollups(time.move(10))
    assert (row.minute, row.completed, row.failed, row.retried, row.cancelled, row.released) == (
        T0,
        2,
        1,
        1,
        1,
        1,
    )
    assert sum(row.run) == 5 and row.run_ms_sum == 86


def test_a_phase_that_was_advanced_from_is_a_success(stats: Stats, time: Time) -> None:
    stats.ended_many("a", "advanced", [Run(1, 1, 1)])
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    assert stats.take_rollups(time.now)[0].completed == 2


def test_nothing_comes_twice(stats: Stats, time: Time) -> None:
    was_changed = [stats.is_changed]
    assert stats.take_rollups(time.now) == []
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    stats.ended_many("b", "completed", [Run(1, 1, 1)])
    was_changed.append(stats.is_changed)
    assert len(stats.take_rollups(time.now)) == 2
    assert [*was_changed, stats.is_changed] == [False, True, False]
    stats.ended_many("b", "completed", [Run(1, 1, 1)])
    assert _completed(stats.take_rollups(time.move(10))) == {(T0, "b"): 2}
    assert stats.take_rollups(time.move(10)) == [] and stats.take_rollups(time.move(60)) == []


def test_a_minute_that_is_over_comes_once_more(stats: Stats, time: Time) -> None:
    """With what was added since it was last taken, while the jobs of the new minute have a row of their own."""
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    stats.take_rollups(time.move(40))  # 12:00:45
    time.move(10)
    stats.ended_many("a", "completed", [Run(1, 1, 1)])  # 12:00:55
    time.move(10)
    stats.ended_many("a", "completed", [Run(1, 1, 1)])  # 12:01:05
    assert _completed(stats.take_rollups(time.now)) == {(T0, "a"): 2, (T0 + MINUTE, "a"): 1}
    assert stats.take_rollups(time.now) == []


def test_only_the_time_passed_in_counts_where_the_clock_stands(stats: Stats, time: Time) -> None:
    stats.take_rollups(T0)
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    assert _completed(stats.take_rollups(T0 + MINUTE)) == {(T0, "a"): 1}
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    assert _completed(stats.take_rollups(T0 + MINUTE)) == {(T0 + MINUTE, "a"): 1}


def test_after_an_idle_hour_jobs_count_for_their_own_minute(stats: Stats, time: Time) -> None:
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    stats.take_rollups(time.now)
    time.move(3600)
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    time.move(58)  # over the edge of the minute
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    assert _completed(stats.take_rollups(time.now)) == {
        (T0 + 60 * MINUTE, "a"): 1,
        (T0 + 61 * MINUTE, "a"): 1,
    }


def test_minutes_nobody_took_are_kept(stats: Stats, time: Time) -> None:
    """The database was away for ten minutes."""
    stats.take_rollups(time.now)
    for _ in range(10):
        stats.ended_many("a", "completed", [Run(1, 1, 1)])
        time.move(60)
    rows = stats.take_rollups(time.now)
    assert _completed(rows) == {(T0 + n * MINUTE, "a"): 1 for n in range(10)}
    for _ in range(MAX_CLOSED + 50):
        stats.ended_many("a", "completed", [Run(1, 1, 1)])
        time.move(60)
    assert len(stats.take_rollups(time.now)) == MAX_CLOSED


@pytest.mark.parametrize("drift", [-0.2, 0.2])
def test_clocks_that_drift_lose_nothing(stats: Stats, time: Time, drift: float) -> None:
    rows: dict[datetime, int] = {}
    stats.take_rollups(time.now)
    for _ in range(200):
        time.now += timedelta(seconds=drift)
        stats.ended_many("a", "completed", [Run(1, 1, 1)])
        rows.update({row.minute: row.completed for row in stats.take_rollups(time.move(7))})
    rows.update({row.minute: row.completed for row in stats.take_rollups(time.move(60))})
    assert sum(rows.values()) == 200
    assert max(rows.values()) <= 11


def test_a_clock_that_was_set_back_is_followed(stats: Stats, time: Time) -> None:
    stats.take_rollups(time.now)
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    back = T0 - timedelta(hours=1)
    assert _completed(stats.take_rollups(back)) == {(T0, "a"): 1}
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    assert _completed(stats.take_rollups(back)) == {(back, "a"): 1}


def test_a_restart_counts_from_zero(stats: Stats, time: Time) -> None:
    """Another instance id in the middle of a minute: what stands under the old one is not written again under the new."""
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    assert _completed(stats.take_rollups(time.now, restart=True)) == {(T0, "a"): 1}
    stats.ended_many("a", "completed", [Run(1, 1, 1)])
    assert _completed(stats.take_rollups(time.move(10))) == {(T0, "a"): 1}
    assert stats.report().outcome("completed") == 2


def test_a_lost_attempt_alone_makes_no_row(stats: Stats, time: Time) -> None:
    stats.ended_many("a", "lost", [Run(1, 1, 1)])
    assert stats.take_rollups(time.now) == []
