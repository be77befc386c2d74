"""The switch interval of the interpreter follows what runs, in processes that Windlass tunes and in no others."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE, eventually
from windlass.engine import tuning
from windlass.engine.tuning import LONGEST, SWITCH_INTERVAL, SwitchInterval, switch_interval


@pytest.fixture(autouse=True)
def interval() -> Iterator[float]:
    before = sys.getswitchinterval()
    yield before
    sys.setswitchinterval(before)


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch, interval: float) -> None:
    """As after ``tune_process``, which would change the collector of the tests, too."""
    monkeypatch.setattr(tuning, "_is_tuned", True)
    sys.setswitchinterval(SWITCH_INTERVAL)


@pytest.mark.parametrize(
    ("threads", "seconds_a_job", "wanted"),
    [
        (0, 0.2, SWITCH_INTERVAL),  # the event loop alone
        (10, 1 / 20_000, SWITCH_INTERVAL),  # plain handlers that do next to nothing
        (1, 0.005, 0.0005),
        (10, 0.001, 0.001),
        (10, 0.005, LONGEST),  # plain handlers that compute
        (500, 0.2, LONGEST),
    ],
)
def test_the_interval_is_long_where_plain_handlers_compute(
    threads: int, seconds_a_job: float, wanted: float
) -> None:
    assert switch_interval(threads, seconds_a_job) == pytest.approx(wanted)


@pytest.mark.usefixtures("tuned")
def test_the_rate_is_measured_between_two_checks() -> None:
    interval = SwitchInterval(1000, 50.0)
    interval.follow(10, 1001, 50.1)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL), "too early to tell"
    interval.follow(10, 1040, 50.25)
    assert sys.getswitchinterval() == pytest.approx(LONGEST)
    interval.follow(10, 3040, 50.5)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)


@pytest.mark.timing
@pytest.mark.usefixtures("tuned")
def test_plain_handlers_lengthen_it_for_as_long_as_they_run(shop: Shop) -> None:
    release = threading.Event()

    @shop.app.job
    def compute() -> None:
        release.wait(PATIENCE)

    for _ in range(10):
        compute.enqueue()
    shop.serve()
    eventually(lambda: sys.getswitchinterval() > SWITCH_INTERVAL * 2, "a longer interval")
    release.set()
    eventually(lambda: sys.getswitchinterval() < SWITCH_INTERVAL * 1.1, "the short interval again")


def test_an_application_keeps_its_own_interval(interval: float) -> None:
    """An engine in its process changes nothing for its other threads."""
    SwitchInterval(0, 0.0).follow(10, 0, 100.0)
    assert sys.getswitchinterval() == interval
