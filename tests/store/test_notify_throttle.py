"""Which enqueues notify: enough that none waits for the next scan, and few where many callers wait for the lock of NOTIFY."""

from __future__ import annotations

import pytest

from tests.waiting import Time
from windlass.engine.discovery import AGAIN
from windlass.model import NewJob
from windlass.store.jobs.checked import check
from windlass.store.jobs.notify_throttle import NOTIFY_EVERY, NotifyThrottle


@pytest.mark.parametrize(("took", "pause"), [(0.0005, 0.001), (0.002, 0.004), (0.1, NOTIFY_EVERY)])
def test_the_pause_after_a_notification_grows_with_the_time_that_it_took(took: float, pause: float) -> None:
    time = Time()
    throttle = NotifyThrottle(time)
    assert throttle.may_notify("work")
    throttle.note_notified(["work"], took)
    time.now += pause * 0.9
    assert not throttle.may_notify("work") and throttle.may_notify("other")
    assert throttle.among(check([NewJob(kind="work")]), inbox=False) == set()
    time.now += pause * 0.2
    assert throttle.may_notify("work")
    assert len(throttle.among(check([NewJob(kind="work")] * 3), inbox=False)) == 1


def test_the_second_scan_comes_after_the_longest_pause() -> None:
    """A job that was enqueued in the pause notifies nobody: the scan has to see its commit."""
    assert AGAIN >= 2 * NOTIFY_EVERY
