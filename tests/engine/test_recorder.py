"""The recorder has something left until outcomes are written and counted: whoever asks whether an engine is idle goes by that."""

from __future__ import annotations

import time

from tests.engine.leases import lease
from windlass.engine.recorder import Recorder
from windlass.engine.running_attempt import Processor, RunningAttempt
from windlass.engine.stats import Stats
from windlass.model import Completed, Outcome, Verdict


def outcomes(count: int) -> list[Outcome]:
    return [Completed(lease()) for _ in range(count)]


def test_what_is_being_written_is_left_until_it_is_counted() -> None:
    stats = Stats()
    recorder = Recorder(stats)
    recorder.put(outcomes(3))
    taken = recorder.take(2)
    assert (len(taken), len(recorder)) == (2, 3)
    recorder.recorded(taken, [Verdict.RECORDED] * 2)
    assert len(recorder) == 3
    recorder.settled(taken)
    assert len(recorder) == 1
    assert stats.report().phases["a"].outcomes["completed"] == 2


def test_what_could_not_be_written_is_next_again() -> None:
    recorder = Recorder(Stats())
    first, second = outcomes(2)
    recorder.put([first, second])
    assert recorder.take(1) == [first]
    recorder.put_back([first])
    recorder.settled([first])
    assert len(recorder) == 2
    assert recorder.take(5) == [first, second]


def test_every_end_that_was_counted_is_returned() -> None:
    """Also one that comes while the ends before it are counted: whoever held its lock must learn of it."""
    now = time.monotonic()
    first, second = (RunningAttempt(lease(), None, Processor("a", 1), now, now, False) for _ in range(2))

    class Counting(Stats):
        def ended_many(self, *args: object, **kwargs: object) -> None:
            if not late:
                late.append(second)
                recorder.recorded_elsewhere(second)

    late: list[RunningAttempt] = []
    recorder = Recorder(Counting())
    recorder.recorded_elsewhere(first)
    assert recorder.count_elsewhere() == [first.lease, second.lease]
    assert len(recorder) == 0 and recorder.count_elsewhere() == []
