"""The line every ten seconds."""

from __future__ import annotations

import pytest

from tests.observe.lines import written
from tests.waiting import Time
from windlass.engine.stats import Stats
from windlass.observe.summary import Summary


@pytest.fixture
def time() -> Time:
    return Time()


def _ended(stats: Stats, outcome: str, count: int) -> None:
    stats.ended_many("welcome", outcome, [None] * count)


def test_it_says_what_was_done_since_the_last_time(time: Time) -> None:
    stats = Stats()
    summary = Summary(stats.report, lambda: {"welcome": 5, "bye": 0, "more": 12}, monotonic=time)
    with written(level="info") as lines:
        _ended(stats, "completed", 1234)
        _ended(stats, "retried", 3)
        assert not summary.log()
        time.now += 10
        assert summary.log()
        _ended(stats, "failed", 1)
        _ended(stats, "cancelled", 2)
        time.now += 7.9
        assert not summary.log()
        time.now += 12.1
        assert summary.log()
    first, second = lines.objects
    assert first["event"] == "job.summary"
    assert (
        first["message"]
        == "1,234 completed, 3 retried, 0 failed in 10 s; 124 jobs/s; queue more 12, welcome 5"
    )
    assert (
        second["message"]
        == "0 completed, 0 retried, 1 failed, 2 cancelled in 20 s; 0.1 jobs/s; queue more 12, welcome 5"
    )
    assert first["fields"]["completed"] == 1234 and first["fields"]["waiting"] == {"welcome": 5, "more": 12}


def test_an_idle_instance_is_silent(time: Time) -> None:
    summary = Summary(Stats().report, dict, monotonic=time)
    with written(level="info") as lines:
        for _ in range(10):
            time.now += 60
            assert not summary.log()
    assert lines.text == ""


def test_the_first_line_after_a_silence_counts_from_its_end(time: Time) -> None:
    """Not "10 jobs in 3,600 s" after an idle hour."""
    stats = Stats()
    summary = Summary(stats.report, dict, monotonic=time)
    with written(level="info") as lines:
        for _ in range(360):
            time.now += 10
            summary.log()
        _ended(stats, "completed", 10)
        time.now += 10
        summary.log()
    assert lines.last["message"] == "10 completed, 0 retried, 0 failed in 10 s; 1.0 jobs/s"


def test_many_phases_are_not_all_listed(time: Time) -> None:
    stats = Stats()
    summary = Summary(stats.report, lambda: {f"phase-{n:02}": n + 1 for n in range(20)}, monotonic=time)
    with written(level="info") as lines:
        _ended(stats, "completed", 1)
        time.now += 10
        summary.log()
    assert lines.last["message"].endswith(
        "queue phase-19 20, phase-18 19, phase-17 18, phase-16 17, phase-15 16, phase-14 15, phase-13 14, phase-12 13 and 12 more"
    )


def test_whoever_comes_a_little_early_is_not_sent_away(time: Time) -> None:
    """The caretaker comes every ten seconds, give or take one: every second line came ten seconds late."""
    stats = Stats()
    summary = Summary(stats.report, dict, monotonic=time)
    with written(level="info") as lines:
        for _ in range(5):
            _ended(stats, "completed", 9)
            time.now += 9
            assert summary.log()
    assert len(lines.objects) == 5 and lines.objects[0]["fields"]["jobs_per_second"] == 1.0


def test_the_last_line_does_not_wait(time: Time) -> None:
    stats = Stats()
    summary = Summary(stats.report, dict, monotonic=time)
    with written(level="info") as lines:
        _ended(stats, "completed", 3)
        assert summary.log(is_last=True) and not summary.log(is_last=True)
        _ended(stats, "failed", 1)
        time.now += 0.5
        assert summary.log(is_last=True)
    assert [line["message"] for line in lines.objects] == [
        "3 completed, 0 retried, 0 failed in 0.0 s; 3,000 jobs/s",
        "0 completed, 0 retried, 1 failed in 0.5 s; 2.0 jobs/s",
    ]
